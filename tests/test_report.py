"""The report: its arrays, what it refuses, and that nothing of the user's is read as HTML."""

import base64
import json
import re
import stat

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss
from typer.testing import CliRunner

import punn
from punn.cli import app
from punn.persistence import save
from punn.report import report_html, write_report
from punn.report.answers import answers_of, true_codes
from punn.report.choice import choose
from punn.report.contents import contents
from punn.report.explanations import explained
from punn.report.images import layout_of_names, layout_of_shape, packed
from punn.report.maps import BYTES, maps
from punn.report.measures import confused, measures
from punn.sources import Source, learnable, read_source

LARGEST = 8_000_000
EVIL = "</script><img src=x onerror=alert(1)>&amp;\"'"


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    labels = load_iris().target_names[y]
    model = punn.PUNNClassifier("ellipsoid", restarts=1, epochs=40, random_state=0).fit(X, labels)
    return model, X, labels


@pytest.fixture(scope="module")
def place(tmp_path_factory, iris):
    """A folder with a table and the model that was trained on it, as `punn train` would write it."""
    folder = tmp_path_factory.mktemp("report")
    source = read_source("iris")
    source.frame.to_csv(folder / "iris.csv", index=False)
    examples = learnable(source, "class")
    model = punn.PUNNClassifier("ball", restarts=1, epochs=20, random_state=0).fit(examples.X, examples.y)
    summary = {
        "table": "iris.csv",
        "rows": {"train": 120, "test": 30},
        "folds": 1,
        "scores": {"model": {"accuracy": 0.9, "log_loss": 0.3, "calibration_error": 0.05}},
    }
    save(model, folder / "iris.safetensors", table=examples.columns.to_dict(), summary=summary)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def page_of(model, X, y=None, **options):
    settings = {"table": None, "source": "rows", "image": None, "seed": 0} | options
    return contents(model, X, y, **settings)


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


# numbers


def test_scores_are_those_of_scikit_learn(iris):
    model, X, y = iris
    found = page_of(model, X, y)["data"]["score"]
    p = model.predict_proba(X)
    assert found["accuracy"]["value"] == accuracy_score(y, model.predict(X))
    assert found["accuracy"]["low"] < found["accuracy"]["value"] <= found["accuracy"]["high"]
    assert found["log_loss"]["value"] == pytest.approx(log_loss(y, p))
    assert sum(line["rows"] for line in found["bins"]) == 150
    assert found["calibration_chance"][0] <= found["calibration_chance"][1]


def test_confusion_and_blame_are_in_the_chains_order(iris):
    model, X, y = iris
    matrices = page_of(model, X, y)["data"]["matrices"]
    order = model.order_.tolist()
    assert [model.classes_[c] for c in matrices["order"]] == order
    assert np.array_equal(matrices["confusion"], confusion_matrix(y, model.predict(X), labels=order))
    np.testing.assert_allclose(matrices["blame"], model.trace(X).blame(y).loc[order], atol=1e-5)


def test_answers_in_pieces_are_those_of_one_piece(iris, monkeypatch):
    model, X, y = iris
    true = true_codes(y, model.classes_, len(X))
    true[::7] = -1
    whole = answers_of(model, X.to_numpy(), true)
    monkeypatch.setattr("punn.report.answers.CELLS", 60)
    pieces = answers_of(model, X.to_numpy(), true)
    for name, value in vars(whole).items():
        np.testing.assert_allclose(getattr(pieces, name), value, rtol=1e-9, atol=1e-12, err_msg=name)
    trace = model.trace(X)
    np.testing.assert_allclose(whole.reached, trace.remaining.mean(0))
    np.testing.assert_allclose(whole.blame, trace[true >= 0].blame(y[true >= 0]).loc[model.order_.tolist()])


def test_a_mean_interval_covers_and_one_row_has_none(iris):
    model, X, y = iris
    true = true_codes(y, model.classes_, len(X))
    one = measures(answers_of(model, X.to_numpy()[:1], true[:1]))
    assert one["rows"] == 1
    assert one["log_loss"]["half"] is None
    assert measures(answers_of(model, X.to_numpy()[:3], np.full(3, -1))) is None


def test_labels_are_met_as_text_and_missing_ones_are_not_scored():
    assert true_codes([1.0, 2.0, np.nan, 7.0], np.array([1, 2]), 4).tolist() == [0, 1, -1, -1]
    assert true_codes([True, None], np.array([False, True]), 2).tolist() == [1, -1]
    assert true_codes(None, np.array(["a"]), 2).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="one label for each of 3 rows, got 2"):
        true_codes(["a", "b"], np.array(["a"]), 3)


def test_notable_rows_are_the_extreme_ones(iris):
    model, X, y = iris
    answers = answers_of(model, X.to_numpy(), true_codes(y, model.classes_, len(X)))
    choice = choose(answers, 3)
    for c in range(3):
        won = np.flatnonzero(answers.winner == c)
        assert answers.margin[choice.doubtful[c]].max() <= np.sort(answers.margin[won])[4]
        assert all(answers.winner[row] == c != answers.true[row] for row in choice.wrong[c])
    assert sorted(choice.rows) == list(range(150))


def test_explanations_are_those_of_the_trace(iris):
    model, X, _ = iris
    trace = model.trace(X)
    told = explained(trace, 70, true=0)
    assert [line[0] for line in told["chain"]] == [0, 1, 2]
    assert sum(line[3] for line in told["chain"]) == pytest.approx(1, abs=1e-5)
    assert {one["class"] for one in told["classes"]} == {0, 1, 2}
    for one in told["classes"]:
        label = model.classes_[one["class"]]
        assert one["why"] == str(trace.why_not(70, label))
        assert one["total"] == pytest.approx(trace.ledger(70, label).total, rel=1e-5)
        assert sum(line[2] for line in one["ledger"]) + one["hidden"][1] == pytest.approx(one["total"], rel=1e-4)


def test_a_long_chain_is_shortened_and_a_gate_of_zero_has_no_number():
    q = np.full((1, 99), 0.02)
    q[0, 3] = 0.0
    with np.errstate(divide="ignore"):
        trace = punn.GateTrace(np.log(q), np.log1p(-q))
    told = explained(trace, 0, true=3)
    assert len(told["chain"]) <= 20
    assert sum(line[3] for line in told["chain"]) + told["hidden"][1] == pytest.approx(1, abs=1e-4)
    impossible = next(one for one in told["classes"] if one["class"] == 3)
    assert impossible["total"] is None
    json.dumps(told, allow_nan=False)


def test_maps_hold_the_functions_of_the_model(iris):
    model, X, _ = iris
    moved = np.array([0.1, 0.0, 0.5, 0.4])
    found = maps(model, X.to_numpy(), moved)
    assert found["features"] == [2, 3, 0, 1]
    assert len(found["pairs"]) == 6
    n = found["points"]
    raw = np.frombuffer(base64.b64decode(found["pairs"]["0,1"]["winner"]), np.uint8).reshape(n, n)
    (left, right), (low, high) = found["limits"][:2]
    at = np.median(X.to_numpy(), axis=0)
    at[2], at[3] = left + (right - left) * 30 / (n - 1), low + (high - low) * 10 / (n - 1)
    assert model.classes_[raw[10, 30]] == model.predict(pd.DataFrame([at], columns=X.columns))[0]


def test_maps_of_many_features_stop_at_their_budget(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40))
    model = punn.PUNNClassifier(hidden=(4,), epochs=2, random_state=0).fit(X, X[:, 7] > 0)
    monkeypatch.setattr("punn.report.maps.BYTES", BYTES // 10)
    found = maps(model, X, np.arange(40.0))
    assert 2 < len(found["features"]) < 40
    assert not found["all"]
    assert sum(len(json.dumps(pair)) for pair in found["pairs"].values()) < 1.5 * BYTES / 10


# images


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        ([f"pixel_{i}_{j}" for i in range(8) for j in range(8)], (8, 8, 1)),
        ([f"pixel{i}" for i in range(784)], (28, 28, 1)),
        ([f"{i}x{j}" for i in range(1, 29) for j in range(1, 29)], (28, 28, 1)),
        ([f"px{i}" for i in range(3072)], (32, 32, 3)),
        (["id", *(f"pixel{i}" for i in range(1, 785))], (28, 28, 1)),
    ],
)
def test_pixels_are_known_by_their_names(names, shape):
    layout = layout_of_names(names)
    assert (layout.height, layout.width, layout.channels) == shape
    assert sorted(layout.places) == list(range(np.prod(shape)))


@pytest.mark.parametrize(("first", "dropped"), [(0, 12), (0, 0), (1, 12), (1, 0)])
def test_pixels_stay_in_place_where_the_first_ones_are_no_columns(first, dropped):
    layout = layout_of_names([f"pixel{i}" for i in range(first + dropped, first + 784)])
    assert (layout.height, layout.width) == (28, 28)
    assert layout.places.tolist() == list(range(dropped, 784))


@pytest.mark.parametrize("names", [["a", "b"], [f"x{i}" for i in range(64)], ["pixel_0_0", "pixel_0_1"]])
def test_other_columns_are_no_image(names):
    assert layout_of_names(names) is None


def test_colours_of_planes_and_of_pixels_give_the_same_image():
    planes = np.arange(12.0)  # 3 channels of 2 x 2
    pixels = planes.reshape(3, 2, 2).transpose(1, 2, 0).reshape(-1)
    first = packed(layout_of_shape((3, 2, 2), 12), planes[None])
    assert first == packed(layout_of_shape((2, 2, 3), 12), pixels[None])
    with pytest.raises(ValueError, match="28x28"):
        layout_of_shape((5, 5), 784)


def test_images_keep_the_pixels_that_a_model_leaves_out():
    source = read_source("digits")
    examples = learnable(source, "class")
    model = punn.PUNNClassifier("shared", hidden=(8,), epochs=1, random_state=0).fit(examples.X, examples.y)
    model.table_ = examples.columns.to_dict()
    assert model.n_features_in_ < 64
    page = page_of(model, source.frame, source.frame["class"])
    assert page["data"]["image"] == [8, 8, 1]
    assert page["data"]["maps"] is None
    assert all("values" not in entry for entry in page["data"]["rows"])
    assert all(bool(card["image"]) == (card["won"] > 0) for card in page["text"]["cards"])
    assert any(card["won"] for card in page["text"]["cards"])
    entry = page["data"]["rows"][0]
    pixels = np.frombuffer(base64.b64decode(entry["image"]), np.uint8)
    raw = source.frame.drop(columns="class").to_numpy()[entry["row"]]
    np.testing.assert_allclose(pixels, raw * 255 / 16, atol=0.51)


# models of every sort


@pytest.mark.parametrize(
    ("options", "classes", "features", "rows"),
    [
        ({"gates": "ball", "rest": "unknown", "activation": "bump"}, 3, 2, 40),
        ({"gates": ["shell", "mlp"], "hidden": (4,)}, 3, 3, 40),
        ({"gates": "fourier"}, 2, 2, 40),
        ({"gates": "shared", "hidden": (8,), "parts": 2}, 110, 3, 230),
        ({"hidden": (4,)}, 2, 1, 20),
        ({"hidden": (2,)}, 1, 2, 10),
        ({"hidden": (2,)}, 2, 200, 10),
    ],
)
@pytest.mark.filterwarnings("ignore:the gates of class")
def test_models_of_every_sort_have_a_report(options, classes, features, rows):
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    X = rng.normal(size=(rows, features)) + y[:, None]
    settings = {"restarts": 1, "epochs": 2, "random_state": 0} | options
    model = punn.PUNNClassifier(**settings).fit(X, y)
    for labels in (y, None):
        html = report_html(model, X, labels, source="all sorts")
        assert len(html.encode()) < LARGEST
        data = data_of(html)
        assert (data["score"] is None) == (labels is None)
        assert len(data["class_of"]) == len(data["functions"]) == len(data["mass"]) == model.network_.functions
    one = data_of(report_html(model, X[:1], y[:1]))
    assert [entry["row"] for entry in one["rows"]] == [0]


def test_rows_are_sampled_and_the_file_stays_small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 3))
    y = np.where(X[:, 0] > 0, "a name that is long " * 6, "b")
    model = punn.PUNNClassifier(hidden=(4,), epochs=1, random_state=0).fit(X[:500], y[:500])
    html = report_html(model, X, y)
    assert len(html.encode()) < LARGEST
    data = data_of(html)
    assert 300 <= len(data["rows"]) <= 320
    assert data["score"]["rows"] == 50_000
    assert html == report_html(model, X, y)


def test_wide_rows_are_cut_to_a_budget(iris, monkeypatch):
    model, X, y = iris
    monkeypatch.setattr("punn.report.shown.BYTES", 20_000)
    page = page_of(model, X, y)
    assert 1 <= len(page["data"]["rows"]) < 40
    assert set(page["text"]["looks"]) == {entry["row"] for entry in page["data"]["rows"]}


def test_confused_pairs_come_largest_first():
    pairs = confused(np.array([[5, 2, 0], [3, 7, 0], [0, 0, 1]]), [2, 0, 1])
    assert [(pair["true"], pair["predicted"], pair["rows"]) for pair in pairs] == [(0, 2, 3), (2, 0, 2)]


# safety


def test_html_in_names_and_values_is_text():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({EVIL: rng.normal(size=40), "word": rng.choice([EVIL, "b"], 40)})
    frame["kind"] = np.where(frame[EVIL] > 0, EVIL, "plain")
    examples = learnable(Source(frame, "evil"), "kind")
    model = punn.PUNNClassifier(hidden=(4,), epochs=5, random_state=0).fit(examples.X, examples.y)
    model.table_ = examples.columns.to_dict()
    html = report_html(model, frame, frame["kind"], source=EVIL)
    assert "<img src=x" not in html
    assert EVIL in data_of(html)["classes"]
    assert html.count("</script>") == 3


def test_no_address_is_asked_for(iris):
    html = report_html(*iris)
    assert "default-src 'none'" in html
    without_plotly = html.replace(get_plotlyjs(), "")
    assert not re.search(r"(src|href)\s*=\s*[\"'](https?:)?//", without_plotly)
    assert "@import" not in without_plotly


# files and errors


def test_an_unfitted_model_and_other_columns_are_refused(iris):
    model, X, y = iris
    with pytest.raises(NotFittedError):
        report_html(punn.PUNNClassifier(), X, y)
    with pytest.raises(ValueError, match="feature names"):
        report_html(model, X.rename(columns={X.columns[0]: "other"}), y)
    with pytest.raises(ValueError, match="minimum of 1"):
        report_html(model, X[:0], y[:0])


def test_a_file_is_written_whole_or_not_at_all(iris, tmp_path, monkeypatch):
    model, X, y = iris
    path = tmp_path / "page.html"
    path.write_text("earlier")
    write_report(model, path, X, y, source="iris")
    assert path.read_text().startswith("<!DOCTYPE html>")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_report(model, path, X[:5], y[:5])
    assert [child.name for child in tmp_path.iterdir()] == ["page.html"]


def test_the_command_writes_a_page_from_csv_and_parquet(place, tmp_path):
    frame = pd.read_csv(place / "iris.csv")
    frame.to_parquet(tmp_path / "iris.parquet")
    for table in (place / "iris.csv", tmp_path / "iris.parquet"):
        out = tmp_path / "page.html"
        done = run("report", place / "iris.safetensors", table, "-o", out, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["bytes"] == out.stat().st_size < LARGEST
        assert data_of(out.read_text())["score"]["rows"] == 150
    text = run("report", place / "iris.safetensors", place / "iris.csv", "-o", out).stdout
    assert "150 rows" in text
    assert "their scores flatter it" in re.sub(r"\s+", " ", out.read_text())


def test_a_table_without_labels_has_a_page_without_scores(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.read_csv(place / "iris.csv").drop(columns="class").to_csv("new.csv", index=False)
    done = run("report", place / "iris.safetensors", "new.csv")
    assert done.exit_code == 0, done.output
    html = (tmp_path / "new.report.html").read_text()
    assert "nothing is scored" in html
    assert 'id="confusion"' not in html
    assert data_of(html)["score"] is None


def test_labels_may_stand_in_another_column(place, tmp_path):
    frame = pd.read_csv(place / "iris.csv").rename(columns={"class": "truth"})
    frame.loc[:9, "truth"] = None
    frame.loc[10:19, "truth"] = "tulip"
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = run("report", place / "iris.safetensors", tmp_path / "new.csv", "-t", "truth", "-o", tmp_path / "x.html")
    assert done.exit_code == 0, done.output
    html = (tmp_path / "x.html").read_text()
    assert data_of(html)["score"]["rows"] == 130
    assert "20 of 150 rows have no label that the model knows" in html


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["MODEL", "TABLE", "-o", "page.pdf"], [".html"], 1),
        (["MODEL", "TABLE", "-o", "no/page.html"], ["there is no folder no"], 1),
        (["MODEL", "TABLE", "-o", "folder.html"], ["got a folder"], 1),
        (["MODEL", "TABLE", "-t", "clas"], ["did you mean 'class'"], 1),
        (["MODEL", "wine"], ["without", "sepal"], 1),
        (["MODEL", "empty.csv"], ["expected rows"], 1),
        (["TABLE", "TABLE"], ["not a model"], 1),
        (["MODEL", "TABLE", "--image", "28x28"], ["28x28", "4 values"], 1),
        (["MODEL", "TABLE", "--image", "big"], ["28x28"], 2),
        (["MODEL"], ["TABLE"], 2),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(place, tmp_path, monkeypatch, arguments, words, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "empty.csv").write_text("sepal length (cm),class\n")
    places = {"MODEL": place / "iris.safetensors", "TABLE": place / "iris.csv"}
    done = run("report", *(places.get(argument, argument) for argument in arguments))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    for word in words:
        assert word in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"folder.html", "empty.csv"}


def test_a_folder_that_cannot_be_written_to_is_refused(place, tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setattr("os.access", lambda path, mode: path != closed)  # root may write everywhere
    done = run("report", place / "iris.safetensors", place / "iris.csv", "-o", closed / "page.html")
    assert done.exit_code == 1
    assert "cannot be written to" in done.stderr
