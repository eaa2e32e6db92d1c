"""The page on speed and accuracy says what the files of measurements say."""

import copy
import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
PERFORMANCE = runpy.run_path(str(ROOT / "benchmarks" / "performance.py"))
page, ratios = PERFORMANCE["page"], PERFORMANCE["ratios"]


def test_the_page_is_made_from_the_measurements():
    assert (ROOT / "docs" / "performance.md").read_text() == page(ROOT / "benchmarks" / "results")


def test_a_bar_that_is_missed_is_told():
    several = json.loads((ROOT / "benchmarks" / "results" / "speed" / "threads.json").read_text())
    several["results"] = [r for r in several["results"] if r["bound"] is not None][:1]
    slow = copy.deepcopy(several)
    slow["results"][0]["ratio"] = slow["results"][0]["bound"] + 1
    assert "1 of 2 bars are met" in ratios(slow, several)
    assert ratios(slow, several).count("**missed**") == 1
