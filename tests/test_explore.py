"""The explorer without a browser: rows and controls, files that are dropped, fits beside the page, who may ask."""

import base64
import gzip
import json
import socket
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import punn
from punn import PUNNClassifier
from punn.cli import app as cli
from punn.datasets import data_folder
from punn.explore import build_app, subject_of
from punn.explore.code import file_name, loading_code, row_code
from punn.explore.figures import best_pair, map_figure
from punn.explore.job import Job, Recipe, tell, told_to
from punn.explore.picture import data_uri, picture_of
from punn.explore.sessions import Session, Sessions
from punn.explore.upload import LARGEST, Table, read_upload
from punn.sources import Source, learnable, read_source
from punn.table import TableError

RNG = np.random.default_rng(0)
HTML = "<img src=x onerror=alert(1)>"


def mixed(rows=60):
    """A table with all kinds of columns, and missing values."""
    frame = pd.DataFrame(
        {
            "mass": np.where(np.arange(rows) % 7 == 0, np.nan, RNG.normal(4, 1, rows)),
            "length": RNG.normal(40, 5, rows),
            "island": np.where(
                np.arange(rows) % 9 == 0, None, np.array(["Biscoe", "Dream", HTML])[np.arange(rows) % 3]
            ),
            "alive": np.arange(rows) % 2 == 0,
            "tag": np.where(np.arange(rows) % 5 == 0, None, "tagged"),
        }
    )
    return frame.assign(species=np.where(frame.length > 40, "<b>long</b>", "short"))


def fitted(frame, target="species", **options):
    """What explores a quick fit to a table."""
    examples = learnable(Source(frame, "birds"), target)
    model = PUNNClassifier(**{"gates": "ball", "epochs": 5, "restarts": 1, "random_state": 0} | options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the gates of class")  # five epochs are few
        model.fit(examples.X, examples.y)
    model.table_ = examples.columns.to_dict()
    return subject_of("birds", model, examples.X, examples.y)


@pytest.fixture(scope="module")
def birds():
    return fitted(mixed())


@pytest.fixture(scope="module")
def iris():
    return fitted(read_source("iris").frame, "class")


class TestRows:
    def test_every_row_of_a_table_can_be_set_by_the_controls(self, birds):
        for row in birds.X.to_numpy():
            asked = json.loads(json.dumps(birds.asked(row)))
            np.testing.assert_array_equal(birds.features(asked), row)

    def test_controls_are_what_the_columns_are(self, birds):
        kinds = {control.column.name: control.choices for control in birds.controls}
        assert kinds == {
            "mass": (),
            "length": (),
            "island": (HTML, "Biscoe", "Dream", None),
            "alive": ("true", "false"),
            "tag": ("present", None),
        }
        length = birds.controls[1]
        assert (length.low, length.high) == (birds.X["length"].min(), birds.X["length"].max())
        assert birds.numbers == [0, 1]
        assert [birds.X.columns[f] for f in birds.fixed] == [n for n in birds.X.columns if n not in ("mass", "length")]

    def test_the_middle_is_a_row(self, birds, iris):
        assert np.isfinite(birds.middle()).all()
        np.testing.assert_array_equal(iris.middle(), np.median(iris.X, axis=0))

    @pytest.mark.parametrize(
        "asked",
        [
            None,
            [],
            {},
            {"cells": None},
            {"cells": [1.0] * 4},
            {"cells": [1.0, None, 0, 0, 0]},
            {"cells": [1.0, "2", 0, 0, 0]},
            {"cells": [1.0, float("nan"), 0, 0, 0]},
            {"cells": [1.0, float("inf"), 0, 0, 0]},
            {"cells": [1.0, True, 0, 0, 0]},
            {"cells": [1.0, 2.0, 4, 0, 0]},
            {"cells": [1.0, 2.0, -1, 0, 0]},
            {"cells": [1.0, 2.0, "Dream", 0, 0]},
            {"cells": [1.0, 2.0, 0, 0.5, 0]},
        ],
    )
    def test_what_is_no_row_is_refused(self, birds, asked):
        with pytest.raises(ValueError, match=r"expected|no choice"):
            birds.features(asked)

    def test_a_file_without_ranges_has_those_of_the_rows_or_guesses(self, iris):
        model = iris.model
        ranges, model.ranges_ = model.ranges_, None
        try:
            np.testing.assert_array_equal(subject_of("old", model, iris.X).ranges, ranges)
            guess = subject_of("old", model)
        finally:
            model.ranges_ = ranges
        assert guess.guessed
        assert (guess.ranges[:, 0] < ranges[:, 1]).all()
        np.testing.assert_allclose(guess.ranges[:, 1], iris.X.mean())

    def test_a_model_without_a_table_is_set_by_its_features(self):
        X = RNG.normal(size=(40, 2))
        model = PUNNClassifier("ball", epochs=2, restarts=1, random_state=0).fit(X, X[:, 0] > 0)
        subject = subject_of("plain", model)
        assert [control.column.name for control in subject.controls] == ["x0", "x1"]
        np.testing.assert_array_equal(subject.features({"cells": [0.5, 1]}), [0.5, 1.0])

    @pytest.mark.parametrize(("low", "high", "step"), [(0, 1, 0.005), (4.3, 7.9, 0.02), (0, 1e6, 5000), (3, 3, 5e-12)])
    def test_steps_are_round(self, iris, low, high, step):
        from punn.explore.subject import Control

        assert Control(iris.controls[0].column, 0, low, low, high).step == pytest.approx(step)


class TestPicture:
    NAMES = tuple(f"pixel_{i}_{j}" for i in range(8) for j in range(8))

    def test_pixels_are_known_by_their_names_even_if_some_are_missing(self):
        kept = [i for i in range(64) if i not in (0, 32, 39)]
        picture = picture_of([self.NAMES[i] for i in kept], np.tile([0.0, 5.0, 16.0], (61, 1)))
        assert (picture.side, picture.ink, picture.places.tolist()) == (8, 16.0, kept)
        features = RNG.uniform(0, 16, 61)
        np.testing.assert_allclose(picture.features(picture.grid(features)), features, atol=1e-3)

    def test_784_features_are_a_picture_of_28(self):
        assert picture_of([f"x{i}" for i in range(784)], np.tile([0.0, 0.0, 255.0], (784, 1))).side == 28

    @pytest.mark.parametrize("names", [["a", "b"], [f"x{i}" for i in range(64)], [*NAMES[:63], "length"]])
    def test_other_features_are_none(self, names):
        assert picture_of(names, np.tile([0.0, 0.5, 1.0], (len(names), 1))) is None

    def test_negative_values_are_no_ink(self):
        assert picture_of(self.NAMES, np.tile([-1.0, 0.0, 1.0], (64, 1))) is None

    @pytest.mark.parametrize("grid", [None, "x", [0.0] * 63, [0.0] * 63 + [2], [0.0] * 63 + ["1"], [0.0] * 63 + [None]])
    def test_what_is_no_picture_is_refused(self, grid):
        with pytest.raises(ValueError, match="expected"):
            picture_of(self.NAMES, np.tile([0.0, 5.0, 16.0], (64, 1))).features(grid)

    def test_a_picture_is_ink_on_white(self):
        from PIL import Image

        uri = data_uri([0.0, 1.0, 0.5, 0.0], 2)
        import io

        image = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))
        assert np.asarray(image).tolist() == [[255, 0], [128, 255]]


def uri(content):
    return f"data:text/csv;base64,{base64.b64encode(content).decode()}"


class TestUpload:
    def test_a_table_is_read(self):
        table = read_upload(uri(b"a;b\n1,5;x\n2,5;y\n"), "my birds.csv")
        assert table.place == "my birds.csv"
        assert table.source.name == "my birds"
        assert table.source.frame.a.tolist() == [1.5, 2.5]

    def test_the_name_is_no_path(self, tmp_path):
        secret = tmp_path / "secret.csv"
        secret.write_text("a,b\n1,2\n")
        for name in (str(secret), f"../../..{secret}", "C:\\secret.csv"):
            table = read_upload(uri(b"x,y\n3,4\n"), name)
            assert table.place == "secret.csv"
            assert list(table.source.frame.columns) == ["x", "y"]

    @pytest.mark.parametrize(
        ("contents", "match"),
        [
            (None, "nothing came"),
            ("data:", "nothing came"),
            ("data:text/csv;base64,***", "did not come whole"),
            (uri(b""), "empty"),
            (uri(gzip.compress(b"a,b\n1,2\n", mtime=0)), "unpack it first"),
            (uri(b"PAR1xx"), "Parquet"),
            (uri(b"a,b\n1,2\n1\n"), "line 3"),
            ("data:," + "A" * int(LARGEST * 1.4), "larger than 20 MB"),
        ],
    )
    def test_what_is_no_table_is_refused_by_the_name_that_the_user_knows(self, contents, match):
        with pytest.raises(TableError, match=match) as error:
            read_upload(contents, "birds.csv")
        assert str(error.value).startswith("birds.csv")
        assert "punn-" not in str(error.value)


class TestSessions:
    def test_tabs_have_sessions_of_their_own(self, iris):
        sessions = Sessions(Session(iris))
        one, other = sessions.open(), sessions.open()
        sessions.find(one).subject = None
        assert sessions.find(other).subject is iris
        for key in (None, 1, "", "x", ["a"], {}):
            assert sessions.find(key) is None

    def test_the_most_silent_one_goes_and_its_fit_ends(self):
        sessions = Sessions(Session(), most=2)
        first, second = sessions.open(), sessions.open()
        sessions.find(second).job = job = Job(Recipe(Table(read_source("moons"), "moons"), "class"))
        sessions.find(first)
        sessions.open()
        assert sessions.find(second) is None
        assert sessions.find(first) is not None
        assert job.stopping


def job_of(target="class", place="moons", **options):
    return Job(Recipe(Table(read_source(place), place), target, options={"gates": "ball", "epochs": 4} | options))


class TestJob:
    def test_a_fit_ends_in_something_to_explore(self):
        job = job_of()
        job.start()
        job.join()
        assert job.error == ""
        assert (job.step.epoch, job.step.epochs) == (4, 4)
        assert job.subject.model.summary_["rows"] == {"train": 800, "test": 200}
        assert job.subject.model.verbose is False

    @pytest.mark.filterwarnings("ignore:interrupted in epoch")
    def test_a_fit_that_is_stopped_ends_with_what_it_has(self):
        job = job_of(epochs=10**5)
        job.stop()
        job.start()
        job.join()
        assert job.subject.model.history_.stopped == "interrupted"
        assert job.step.epoch == 1
        assert "stopped early" in job.subject.code

    def test_what_is_wrong_is_told(self):
        job = job_of(target="x")
        job.start()
        job.join()
        assert job.subject is None
        assert "regression target" in job.error

    def test_warnings_are_told_to_the_fit_of_their_thread(self, monkeypatch):
        monkeypatch.setattr(warnings, "showwarning", tell)
        lists = {name: [] for name in "ab"}
        meet = threading.Barrier(2)

        def warn(name):
            with told_to(lists[name]):
                meet.wait()
                warnings.warn(f"from {name}", UserWarning, stacklevel=1)
                warnings.warn("interrupted in epoch 3", UserWarning, stacklevel=1)

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", tell)
            threads = [threading.Thread(target=warn, args=(name,)) for name in lists]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert lists == {"a": ["From a."], "b": ["From b."]}


class TestCode:
    def test_the_lines_train_the_same_model(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        mixed().to_csv("birds.csv", index=False)
        table = read_upload(uri((tmp_path / "birds.csv").read_bytes()), "birds.csv")
        job = Job(Recipe(table, "species", ("tag",), {"gates": "ellipsoid", "epochs": 6}))
        job.start()
        job.join()
        subject = job.subject
        features = subject.X.to_numpy()[18]
        names = {}
        exec(row_code(subject, features), names)
        p = names["trace"].probabilities
        np.testing.assert_array_equal(p, subject.model.trace(subject.rows(features)).probabilities)
        assert "accuracy on held-out rows" in capsys.readouterr().out
        assert punn.load("birds.punn.safetensors").table_ == subject.model.table_

    def test_the_lines_load_a_model(self, tmp_path, birds, capsys):
        path = tmp_path / "birds.punn.safetensors"
        birds.model.save(path)
        subject = subject_of("birds", punn.load(path), birds.X, birds.y, loading_code(path))
        names = {}
        exec(row_code(subject, birds.X.to_numpy()[0]), names)
        np.testing.assert_array_equal(names["trace"].gates, birds.model.trace(birds.X.iloc[:1]).gates)
        assert "reached" in capsys.readouterr().out

    def test_names_of_files_are_plain(self):
        assert file_name("../../etc/<b>") == "_.._etc__b_.punn.safetensors"
        assert file_name("") == "model.punn.safetensors"


class TestMap:
    def test_the_ground_is_what_the_model_predicts(self, iris):
        features, pair = iris.X.to_numpy()[60], (2, 3)
        ground = map_figure(iris, features, pair)["data"][0]
        for i, j in [(0, 0), (10, 40), (25, 25), (49, 49)]:
            row = features.copy()
            row[[2, 3]] = ground["x"][j], ground["y"][i]
            p = iris.model.predict_proba(iris.rows(row))[0]
            assert int(ground["z"][i][j]) == p.argmax()
            assert ground["z"][i][j] % 1 == pytest.approx(0.001 + 0.998 * (p.max() - 1 / 3) * 1.5, abs=1e-3)

    def test_the_last_points_are_the_row(self, iris):
        features = iris.X.to_numpy()[60]
        *_, point = map_figure(iris, features, (2, 3))["data"]
        assert (point["x"], point["y"]) == ([features[2]], [features[3]])

    def test_names_are_text(self):
        frame = read_source("iris").frame.rename(columns={"petal width (cm)": "<b>width</b>"})
        figure = map_figure(subject := fitted(frame, "class"), subject.X.to_numpy()[0], (2, 3))
        assert figure["layout"]["yaxis"]["title"]["text"] == "&lt;b&gt;width&lt;/b&gt;"

    def test_it_begins_with_the_two_that_tell_the_classes_apart(self, iris, birds):
        assert best_pair(iris) == (2, 3)
        assert set(best_pair(birds)) == {0, 1}
        assert best_pair(fitted(mixed()[["length", "alive", "species"]])) is None


@pytest.fixture(scope="module")
def client(iris):
    return build_app(Sessions(Session(iris))).server.test_client()


class TestGuard:
    @pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "[::1]:8050", "LOCALHOST"])
    def test_our_own_names_are_answered(self, client, host):
        assert client.get("/", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.5", "[", ""])
    def test_no_other_name_is(self, client, host):
        assert client.get("/", headers={"Host": host}).status_code in (400, 403)
        assert client.post("/_dash-update-component", json={}, headers={"Host": host}).status_code in (400, 403)

    def test_a_machine_that_lets_others_in_answers_to_addresses_but_not_to_foreign_names(self, iris):
        client = build_app(Sessions(Session(iris)), "0.0.0.0").server.test_client()
        assert client.get("/", headers={"Host": "192.168.1.5:8050"}).status_code == 200
        assert client.get("/", headers={"Host": socket.gethostname()}).status_code == 200
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "http://localhost:9999"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
        ],
    )
    def test_another_site_may_not_ask(self, client, headers):
        headers = {"Host": "localhost:8050", **headers}
        assert client.post("/_dash-update-component", json={}, headers=headers).status_code == 403

    def test_pages_load_from_here_alone(self, client):
        response = client.get("/")
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe-inline" not in policy.split("style-src")[0]
        assert "http" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"

    def test_large_requests_are_refused(self, client):
        body = b" " * 40_000_001
        response = client.post("/_dash-update-component", data=body, content_type="application/json")
        assert response.status_code == 413

    @pytest.mark.parametrize(
        "path",
        [
            "/assets/../app.py",
            "/assets/%2e%2e/app.py",
            "/assets/..%2fapp.py",
            "/assets//etc/passwd",
            "/assets/%2fetc%2fpasswd",
            "/_dash-component-suites/punn/explore/app.py",
            "/_dash-component-suites/dash/../../../../etc/passwd",
            "/_mcp",
        ],
    )
    def test_no_file_of_the_machine_is_served(self, client, path):
        response = client.get(path)
        assert response.status_code in (400, 404, 405, 500) or b'id="react-entry-point"' in response.data
        assert b"build_app" not in response.data
        assert b"root:" not in response.data


def run(*arguments):
    return CliRunner().invoke(cli, ["explore", *map(str, arguments)])


class TestCommand:
    def test_a_port_that_is_taken_is_told(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            ended = run("--no-browser", "--port", taken.getsockname()[1])
        assert ended.exit_code == 1
        assert "--port 0 for any" in ended.stderr

    def test_a_model_that_is_not_there_is_told(self):
        ended = run("nothing.punn.safetensors")
        assert ended.exit_code == 1
        assert ended.stderr == "punn: there is no model file nothing.punn.safetensors\n"

    def test_the_demo_tells_how_to_get_its_data(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PUNN_DATA", str(tmp_path))
        ended = run("mnist-demo", "--no-browser")
        assert ended.exit_code == 1
        assert "punn data mnist" in ended.stderr
        assert data_folder() == tmp_path
