"""The README: its shell lines run, its tables are what their commands make. tests/test_docs.py runs its Python."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from punn.cli import app
from punn.experiments.results import with_headlines

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DIFFERENCES = runpy.run_path(str(ROOT / "benchmarks" / "differences.py"))


def test_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = next(text for text in re.findall(r"```shell\n(.*?)```", README, re.DOTALL) if "punn train" in text)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [line[1] for line in lines] == ["train", "info", "predict", "explain", "report", "export", "explore"]
    for program, *words in lines[:-1]:  # the last one serves a page until it is stopped
        assert program == "punn"
        assert not app(words, prog_name="punn", standalone_mode=False)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("iris.punn.safetensors", "predictions.csv", "report.html", "iris.onnx")
    }
    assert "why not virginica" in capsys.readouterr().out


def test_results_are_those_of_the_files():
    assert with_headlines(README, ROOT / "results") == README, "run `make results`"


def test_differences():
    found = re.search(r"\| PUNN, ellipsoids \|.*\| (\S+) \| (\S+) \| (\S+)% \| (\S+) \|", README)
    error, numbers, accuracy, loss = (float(cell) for cell in found.groups())
    measured = DIFFERENCES["measure"](DIFFERENCES["Punn"])
    assert measured["numbers"] == numbers
    assert max(measured["error"], error) < 1e-15
    assert 100 * measured["accuracy"] == pytest.approx(accuracy, abs=1)
    assert measured["log_loss"] == pytest.approx(loss, abs=0.02)
    assert all(f"| {name} |" in README for name in DIFFERENCES["MODELS"])


def test_explanations_that_do_not_add_up_are_found():
    class Forgetful(DIFFERENCES["Punn"]):
        def told(self, X):
            return super().told(X) * [1, 1, 0.5]

    assert DIFFERENCES["measure"](Forgetful)["error"] > 0.4
