"""The command line: what it writes, where, and how it ends."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import punn
from punn import training
from punn.cli import app
from punn.cli.output import _plain
from punn.cli.predictions import deciding
from punn.scoring import BASELINES, calibration_error, cross_scores, hold_out, scores
from punn.sources import features_of, read_source
from punn.table import Columns
from punn.trace import GateTrace

KINDS = {
    "Adelie": (38.8, 18.3, 190.0, 3700.0, ["Torgersen", "Biscoe", "Dream"]),
    "Chinstrap": (48.8, 18.4, 196.0, 3733.0, ["Dream"]),
    "Gentoo": (47.5, 15.0, 217.0, 5076.0, ["Biscoe"]),
}
HEAD = ["id", "species", "island", "bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "sex"]


def write_penguins(path, rows=200, seed=1):
    """A table like the penguins': numbers, categories, missing values, an identifier."""
    draw = random.Random(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(HEAD)
        for i in range(rows):
            species = list(KINDS)[i % 3]
            length, depth, flipper, mass, islands = KINDS[species]
            sizes = [draw.gauss(length, 2), draw.gauss(depth, 1), draw.gauss(flipper, 5), draw.gauss(mass, 300)]
            cells = [f"{size:.1f}" for size in sizes] if i % 50 != 7 else ["NA"] * 4
            sex = "" if i % 40 == 3 else draw.choice(["male", "female"])
            table.writerow([1000 + 7 * i, species, draw.choice(islands), *cells, sex])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table and a model that was trained on it."""
    place = tmp_path_factory.mktemp("cli")
    write_penguins(place / "penguins.csv")
    model = place / "penguins.punn.safetensors"
    done = run(
        "train", place / "penguins.csv", "-t", "species", "-o", model, "--hidden", "8", "--epochs", "60", "--json"
    )
    assert done.exit_code == 0, done.stderr
    (place / "train.json").write_text(done.stdout)
    return place


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def process(*arguments, **options):
    command = [sys.executable, "-m", "punn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def one_message(result, *words):
    """It ended with code 1 and a message of one line, after notes (which are indented) perhaps."""
    assert result.exit_code == 1, result.output
    assert [line[:6] for line in result.stderr.splitlines() if not line.startswith("  ")] == ["punn: "]
    for word in words:
        assert word in result.stderr


# train


def test_train_tells_scores_beside_the_baselines_on_the_same_rows(folder):
    told = json.loads((folder / "train.json").read_text())
    assert told["rows"] == {"train": 160, "test": 40}
    assert list(told["scores"]) == ["majority class", "logistic regression", "model"]
    assert told["scores"]["majority class"]["accuracy"] < 0.5 < 0.8 < told["scores"]["model"]["accuracy"]
    assert set(told["scores"]["model"]) == {"accuracy", "log_loss", "calibration_error"}
    assert told["classes"] == ["Adelie", "Chinstrap", "Gentoo"]
    assert any("'id'" in note and "dropped" in note for note in told["notes"])
    assert any("is missing in" in note for note in told["notes"])


def test_the_model_loads_in_python_and_takes_the_same_table(folder):
    model = punn.load(folder / "penguins.punn.safetensors")
    frame = pd.read_csv(folder / "penguins.csv")
    X = features_of(model, frame)
    assert np.array_equal(X.to_numpy(), Columns.from_dict(model.table_).transform(frame))
    assert model.score(X, frame["species"]) > 0.8
    assert "Gentoo" in str(model.trace(X)[0])


def test_train_writes_a_screen_without_control_characters(folder, tmp_path):
    done = process(
        *("train", folder / "penguins.csv", "-t", "species", "--gates", "ball", "--epochs", "5"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "penguins.punn.safetensors").is_file()
    text = done.stdout + done.stderr
    assert all(character.isprintable() or character == "\n" for character in text)
    assert not set(text) & set("│─╭━┃")
    for word in ("majority class", "logistic regression", "accuracy", "log-loss", "calibration error", "what next"):
        assert word in done.stdout
    assert "Adelie: gate 1 of 2, ball" in done.stdout
    assert "filled with the median" in done.stderr
    assert "epoch" not in done.stderr


def test_the_commands_that_train_proposes_work(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("train", folder / "penguins.csv", "-t", "species", "--epochs", "2")
    proposed = done.stdout.split("what next")[1].strip().splitlines()
    assert [line.split()[1] for line in proposed] == ["info", "explain", "report", "predict"]
    for line in proposed:
        assert run(*line.split()[1:]).exit_code == 0


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(folder, tmp_path):
    names = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        names.append(tmp_path / f"{name}.safetensors")
        done = run("train", "iris", "--epochs", "3", "--hidden", "4", "--seed", seed, "-o", names[-1], "-q")
        assert (done.exit_code, done.output) == (0, "")
    first, again, other = (name.read_bytes() for name in names)
    assert first == again != other


def test_cross_validation_tells_means_and_learns_from_all_rows(tmp_path):
    out = tmp_path / "m.safetensors"
    options = ["--gates", "ball", "--epochs", "5", "--cv", "3", "-o", out]
    told = json.loads(run("train", "iris", *options, "--json").stdout)
    assert told["rows"]["train"] == 150
    assert [list(fold) for fold in told["scores_by_fold"]] == [list(told["scores"])] * 3
    mean = np.mean([fold["model"]["accuracy"] for fold in told["scores_by_fold"]])
    assert told["scores"]["model"]["accuracy"] == pytest.approx(mean)
    screen = run("train", "iris", *options).stdout
    assert "3 folds of 150 rows" in screen
    assert "±" in screen


@pytest.mark.parametrize(
    "options",
    [
        ["moons", "--gates", "fourier"],
        ["iris", "--gates", "ball,mlp", "--order", "virginica,setosa,versicolor"],
        ["xor", "--parts", "2", "--gates", "ellipsoid", "--activation", "bump"],
        ["wine", "--gates", "shared", "--order", "separable", "--test-share", "0"],
        ["wine", "--gates", "ball", "--balanced"],
    ],
)
def test_models_of_every_sort_are_trained_and_told(options, tmp_path):
    out = tmp_path / "m.safetensors"
    assert run("train", *options, "--epochs", "2", "-o", out).exit_code == 0
    shown = run("info", out)
    assert shown.exit_code == 0, shown.stderr
    assert "regions" in shown.stdout
    assert run("explain", out, options[0], "--row", "3").exit_code == 0


def test_rows_without_a_label_keep_the_numbers_of_the_others(tmp_path):
    frame = read_source("iris").frame
    frame.loc[:20, "class"] = None
    frame.to_csv(tmp_path / "iris.csv", index=False)
    done = run("train", tmp_path / "iris.csv", "-t", "class", "--epochs", "2", "-o", tmp_path / "m.safetensors")
    row = int(done.stdout.split("--row ")[1].split()[0])
    assert row > 20
    assert "is missing in 21 of 150 rows" in done.stderr


# errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "nowhere.csv", "-t", "x"], ["no such file"]),
        (["train", "irs"], ["did you mean 'iris'"]),
        (["train", "PENGUINS", "-t", "spezies"], ["did you mean 'species'"]),
        (["train", "PENGUINS", "-t", "bill_length_mm"], ["regression"]),
        (["train", "PENGUINS", "-t", "species", "--drop", "islnd"], ["did you mean 'island'"]),
        (["train", "PENGUINS", "-t", "species", "-o", "no/where"], ["there is no folder no"]),
        (["train", "PENGUINS", "-t", "species", "--order", "Adelie,Gentoo"], ["order", "Chinstrap"]),
        (["train", "iris", "--gates", "fourier"], ["2 features"]),
        (["train", "iris", "--cv", "51"], ["50 of 'setosa'", "50 folds or fewer"]),
        (["info", "nowhere"], ["nowhere"]),
        (["info", "PENGUINS"], ["not a model"]),
        (["predict", "MODEL", "nowhere.csv"], ["no such file"]),
        (["predict", "MODEL", "iris"], ["without", "'island'"]),
        (["predict", "MODEL", "PENGUINS", "-o", "x.xlsx"], [".csv, .tsv, .parquet"]),
        (["explain", "MODEL", "PENGUINS", "--row", "200"], ["0 to 199"]),
        (["explain", "MODEL", "PENGUINS", "--why-not", "gentoo"], ["did you mean 'Gentoo'"]),
        (["explain", "MODEL", "PENGUINS", "--plot", "x.doc"], [".png"]),
        (["export", "MODEL", "-o", "no/where.onnx"], ["there is no folder no"]),
    ],
)
def test_what_the_user_can_mend_is_one_message_and_exit_code_1(folder, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {"PENGUINS": folder / "penguins.csv", "MODEL": folder / "penguins.punn.safetensors"}
    one_message(run(*(places.get(argument, argument) for argument in arguments)), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["Usage"]),
        (["trian"], ["No such command"]),
        (["train"], ["TABLE"]),
        (["train", "iris", "--gates", "elipsoid"], ["did you mean 'ellipsoid'"]),
        (["train", "iris", "--activation", "tanh"], ["sigmoid"]),
        (["train", "iris", "--hidden", "8,x"], ["64,64"]),
        (["train", "iris", "--target", "x"], ["'class'"]),
        (["train", "iris", "--cv", "3", "--test-share", "0.3"], ["not both"]),
        (["train", "iris", "--seed", "-1"], ["--seed"]),
        (["data", "imagenet"], ["mnist"]),
        (["export", "x"], ["--out"]),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.output


def test_a_target_is_asked_for_with_the_columns_that_there_are(folder):
    result = run("train", folder / "penguins.csv")
    assert result.exit_code == 2
    assert "'species'" in result.stderr


def test_unseen_categories_are_refused_or_ignored(folder, tmp_path):
    text = (folder / "penguins.csv").read_text().replace("Torgersen", "Mars")
    (tmp_path / "mars.csv").write_text(text)
    arguments = ["predict", folder / "penguins.punn.safetensors", tmp_path / "mars.csv"]
    one_message(run(*arguments), "'Mars'", "--on-unseen ignore")
    assert run(*arguments, "--on-unseen", "ignore").exit_code == 0


def test_a_bug_is_shown_in_full_on_demand(folder, monkeypatch):
    monkeypatch.setenv("PUNN_DEBUG", "1")
    assert isinstance(run("info", folder / "penguins.csv").exception, ValueError)


# predict, explain, info, export


def test_predictions_agree_with_the_model(folder, tmp_path):
    out = tmp_path / "out.csv"
    model, table = folder / "penguins.punn.safetensors", folder / "penguins.csv"
    done = run("predict", model, table, "-o", out)
    assert done.exit_code == 0, done.stderr
    assert "labels predicted right" in done.stderr
    found, loaded = pd.read_csv(out), punn.load(model)
    X = features_of(loaded, pd.read_csv(table))
    assert found["label"].tolist() == loaded.predict(X).tolist()
    assert list(found) == ["label", "p(Adelie)", "p(Chinstrap)", "p(Gentoo)", "gate", "does", "value", "reached"]
    np.testing.assert_allclose(found.iloc[:, 1:4], loaded.predict_proba(X), atol=1e-5)
    assert run("predict", model, table).stdout == out.read_text()
    assert run("predict", model, table, "-o", tmp_path / "out.parquet").exit_code == 0
    assert pd.read_parquet(tmp_path / "out.parquet")["label"].tolist() == found["label"].tolist()


def test_the_deciding_gate_separates_the_two_most_probable_classes():
    p = np.array([[0.1, 0.3, 0.6], [0.5, 0.1, 0.4], [0.2, 0.7, 0.1], [1.0, 0.0, 0.0]])
    assert deciding(GateTrace.from_probabilities(p)).tolist() == [1, 0, 0, 0]
    q = np.array([[0.01, 0.01, 0.9, 0.5]])  # a, b, a again, b again, the rest is c
    trace = GateTrace(np.log(q), np.log1p(-q), class_of=[0, 1, 0, 1, 2])
    assert deciding(trace).tolist() == [2]


def test_a_row_is_explained_with_its_ledger_and_why_not(folder):
    model, table = folder / "penguins.punn.safetensors", folder / "penguins.csv"
    screen = run("explain", model, table, "--row", "17", "--why-not", "Adelie").stdout
    for part in ("row 17 of", "reached   gate", "why not Adelie", "lost because", "nats", "species is Gentoo"):
        assert part in screen
    told = json.loads(run("explain", model, table, "--row", "17", "--why-not", "Adelie", "--json").stdout)
    assert told["why_not"]["cls"] == "Adelie"
    assert sum(told["probabilities"].values()) == pytest.approx(1.0)
    nats = sum(entry["nats"] for entry in told["ledger"])
    assert np.exp(nats) == pytest.approx(told["probabilities"][told["label"]])
    assert told["trace"][-1]["gate"] is None
    assert "won with" in run("explain", model, table, "--row", "17", "--why-not", told["label"]).stdout


def test_a_trace_is_drawn_into_a_file(folder, tmp_path):
    pytest.importorskip("punn.displays")
    model, table = folder / "penguins.punn.safetensors", folder / "penguins.csv"
    done = run("explain", model, table, "--plot", tmp_path / "trace.png")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_info_tells_columns_scores_and_regions(folder):
    model = folder / "penguins.punn.safetensors"
    screen = run("info", model).stdout
    for part in ("species: 3 classes", "40 held-out rows", "logistic regression", "island", "counted over 160"):
        assert part in screen
    told = json.loads(run("info", model, "--json").stdout)
    assert told["table"]["target"] == "species"
    assert told["features"][0] == "island=Biscoe"


def test_info_of_a_model_that_python_saved(tmp_path):
    model = punn.PUNNClassifier(epochs=1, random_state=0).fit(np.arange(20.0)[:, None], [0, 1] * 10)
    from punn.persistence import save

    save(model, tmp_path / "m.safetensors", summary={"scores": 3, "rows": ["strange"]})
    assert run("info", tmp_path / "m.safetensors").exit_code == 0
    pd.DataFrame({"x": [1.0, 2.0]}).to_csv(tmp_path / "x.csv", index=False)
    assert run("predict", tmp_path / "m.safetensors", tmp_path / "x.csv").stdout.count("\n") == 3
    one_message(run("predict", tmp_path / "m.safetensors", "iris"), "numbers alone")


def test_export_writes_a_model_that_onnxruntime_reads(folder, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    done = run("export", folder / "penguins.punn.safetensors", "-o", tmp_path / "m.onnx")
    assert done.exit_code == 0, done.stderr
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    assert [output.name for output in session.get_outputs()] == ["label", "probabilities", "gates", "remaining"]


def test_data_says_where_the_sets_are(tmp_path, monkeypatch):
    monkeypatch.setattr("punn.readers.fetch", lambda names, folder: [folder / name for name in names])
    told = run("data", "mnist", "cifar100", "--folder", tmp_path, "--json")
    assert json.loads(told.stdout) == {"mnist": f"{tmp_path}/mnist", "cifar100": f"{tmp_path}/cifar100"}


# processes


def test_help_is_quick_and_has_examples():
    shown = process("train", "--help")
    assert shown.returncode == 0
    assert "punn train penguins.csv --target species" in shown.stdout
    code = "import sys; from punn.cli import app; print({'torch', 'sklearn', 'pandas', 'numpy'} & set(sys.modules))"
    heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.stdout.strip() == "set()"


def test_json_is_one_document_and_everything_else_is_on_standard_error(folder, tmp_path):
    done = process(
        *("train", folder / "penguins.csv", "-t", "species", "--epochs", "3", "--json", "--progress"), cwd=tmp_path
    )
    assert json.loads(done.stdout)["model"] == "penguins.punn.safetensors"
    assert "epoch 3/3" in done.stderr


@pytest.mark.parametrize("command", ["predict", "train"])
def test_a_reader_that_has_seen_enough_is_no_error(folder, tmp_path, command):
    predict = [folder / "penguins.punn.safetensors", folder / "penguins.csv"]
    arguments = predict if command == "predict" else ["iris", "--epochs", "2"]
    line = [sys.executable, "-m", "punn", command, *map(str, arguments)]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        errors = running.stderr.read()
        assert running.wait(timeout=300) == 0
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
    if command == "train":
        assert (tmp_path / "iris.punn.safetensors").is_file()


@pytest.mark.parametrize("cv", [False, True])
def test_ctrl_c_leaves_no_file(tmp_path, cv, listening):
    # Balls on few rows: nothing ends this fit early.
    command = [sys.executable, "-m", "punn", "train", "iris", "--gates", "ball", "--epochs", "100000", "--progress"]
    command += ["--cv", "2"] if cv else ["--checkpoint", "state"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams, **listening) as running:
        assert running.stdout.readline().startswith("iris")
        time.sleep(5 if cv else 3)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in errors
    assert {path.name for path in tmp_path.iterdir()} <= {"state"}


def test_an_interrupted_run_goes_on_to_the_same_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["train", "iris", "--hidden", "4", "--epochs", "60", "-q"]
    assert run(*options, "-o", "whole").exit_code == 0
    real, steps = training._epoch, []

    def stopped(*arguments):
        steps.append(1)
        if len(steps) > 20:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_epoch", stopped)
        assert run(*options, "-o", "again", "--checkpoint", "state").exit_code == 130
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "state"}
    assert run(*options, "-o", "again", "--checkpoint", "state").exit_code == 0
    assert not Path("state").exists()
    assert Path("whole").read_bytes() == Path("again").read_bytes()


# scores


def test_calibration_error_is_zero_for_honest_and_large_for_boastful_forecasts():
    assert calibration_error([1, 0, 1, 0], [0.5] * 4) == 0.0
    assert calibration_error([0, 0], [1.0, 1.0]) == 1.0
    assert calibration_error([1, 0], [0.95, 0.15]) == pytest.approx((0.05 + 0.15) / 2)


def test_held_out_rows_keep_the_shares_and_single_rows_stay():
    y = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 2 + ["d"])
    kept, held = hold_out(y, 0.2, seed=0)
    assert sorted([*kept, *held]) == list(range(len(y)))
    assert set(y[kept]) == set("abcd")
    assert "d" not in y[held]
    assert abs((y[held] == "a").mean() - 60 / 93) < 0.1
    assert len(hold_out(y, 0.0, seed=0)[1]) == 0
    assert len(hold_out(np.array(["a", "b"]), 0.2, seed=0)[1]) == 0


def test_scores_are_those_of_scikit_learn():
    X, y = np.arange(30.0)[:, None], np.repeat(["a", "b", "c"], 10)
    model = BASELINES["logistic regression"]().fit(X, y)
    found = scores(model, X, y)
    assert found.accuracy == model.score(X, y)
    true = np.searchsorted(model.classes_, y)
    assert found.log_loss == pytest.approx(-np.log(model.predict_proba(X)[np.arange(30), true]).mean())
    folds = list(cross_scores(model, X, y, folds=5, seed=0))
    assert len(folds) == 5
    with pytest.raises(ValueError, match="11 folds need at least 11 rows"):
        next(cross_scores(model, X, y, folds=11, seed=0))


def test_json_knows_no_infinity():
    content = {"a": float("inf"), "b": np.float32(1.5), "c": np.array([1, 2]), 3: Path("x"), "d": np.bool_(True)}
    assert _plain(content) == {"a": None, "b": 1.5, "c": [1, 2], "3": "x", "d": True}
