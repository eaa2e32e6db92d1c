"""The page of results: it is what the script makes of the files, and it tells what they tell."""

import json
import re
from pathlib import Path

import pytest

from punn.experiments import MNIST_BEST, STUDIES
from punn.experiments.results import COMMANDS, MARKS, page, with_headlines
from punn.experiments.study import current_runs, stored_runs

ROOT = Path(__file__).parents[1]
FOLDERS = [path for path in sorted((ROOT / "results").glob("*")) if path.is_dir()]


def test_the_page_is_what_the_script_makes():
    assert (ROOT / "docs" / "results.md").read_text() == page(ROOT / "results"), "run `make results`"


def test_every_folder_is_on_the_page():
    assert {folder.name for folder in FOLDERS} <= COMMANDS.keys()
    assert COMMANDS.keys() >= {*STUDIES, MNIST_BEST.name}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_is_whole(folder):
    runs = stored_runs(folder)
    assert runs
    assert not any(run["quick"] for run in runs)
    assert (folder / "table.md").read_text().startswith("# ")
    pictures = {path.stem for path in folder.glob("*.png")}
    assert pictures
    assert pictures == {path.stem for path in folder.glob("*.pdf")}


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS if folder.name != "shapes"])
def test_the_table_has_the_numbers_of_the_runs(name):
    folder = ROOT / "results" / name  # the table of shapes fits some, which takes its time
    study = MNIST_BEST if name == MNIST_BEST.name else STUDIES[name]
    runs = current_runs(study.tasks(1, False), stored_runs(folder))
    assert (folder / "table.md").read_text() == study.table(runs).rstrip() + "\n"


def test_links_lead_to_files():
    text = (ROOT / "docs" / "results.md").read_text()
    links = re.findall(r"\]\((\.\./[^)]+)\)", text)
    assert len(links) >= 2 * len(FOLDERS)
    assert all((ROOT / "docs" / link).exists() for link in links)
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    heads = {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
    assert set(anchors) <= heads


def test_a_page_of_made_up_files(tmp_path):
    (tmp_path / "shapes").mkdir()
    run = {"model": "a", "dataset": "b", "seed": 0, "configuration": {}, "quick": False, "seconds": 120.0}
    runs = [{**run, "versions": {"punn": "1.0"}}, {**run, "seed": 1, "versions": {"punn": "1.1"}}]
    (tmp_path / "shapes" / "results.json").write_text(json.dumps({"runs": runs}))
    (tmp_path / "shapes" / "table.md").write_text("# Shapes: all of them\n\n| a | met |\n| b | missed |\n\n## More\n")
    (tmp_path / "shapes" / "circles.png").write_bytes(b"")
    text = page(tmp_path, "files")
    assert "| [shapes](#shapes-all-of-them) | 1 of 2 | 2 | 4 min |" in text
    assert "## Shapes: all of them\n\n`punn reproduce shapes` made this: 2 runs with punn 1.0 and 1.1." in text
    assert "\n### More\n" in text
    assert "](files/shapes/circles.png)" in text
    assert "[mnist]" not in text


def test_headlines_count_what_is_much_and_name_what_is_missing(tmp_path):
    for name, rows in {"shapes": 2, "synthetic": 7}.items():
        (tmp_path / name).mkdir()
        lines = ["| a | balls | 90.0 | 91.0 ± 0.5 | better (+1.0) | met |"] * rows
        lines.append("| a | softmax MLP | 99.0 | 98.0 | worse (-1.0) | - |")
        (tmp_path / name / "table.md").write_text(f"# Of {name}\n\n" + "\n".join(lines) + "\n")
    text = with_headlines("before\n" + "".join(MARKS) + "after\n", tmp_path)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("| [shapes](docs/results.md#of-shapes) | a, balls | 90.0 | 91.0 ± 0.5 | better (+1.0) |") == 2
    assert "| [synthetic](docs/results.md#of-synthetic) | 7 numbers |  |  | 7 better, 0 equal, 0 worse |" in text
    assert "softmax" not in text
    assert "Not in `results/` yet: `punn reproduce density`" in text
