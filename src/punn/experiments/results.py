"""The page of all results, made from the folders of the studies and from nothing else.

``python -m punn.experiments.results`` (or ``make results``) in the repository writes ``docs/results.md``.
"""

from __future__ import annotations

import re
from pathlib import Path

from punn.checkpoint import write_atomically
from punn.experiments.study import Run, markdown, stored_runs

__all__ = ["page"]

#: Every study's folder, in the paper's order, and the command that fills it.
COMMANDS = {
    "synthetic": "punn reproduce synthetic",
    "density": "punn reproduce density",
    "mnist": "punn reproduce mnist",
    "mnist-best": "punn reproduce mnist --best",
    "cifar100": "punn reproduce cifar100",
    "shapes": "punn reproduce shapes",
}

#: What a figure shows, by study and name.
CAPTIONS = {
    "synthetic/partition": "The partition functions of sigmoid gates on the four sets, seed 42, with the test rows",
    "density/error": "Uniform error of sigmoid gates by width, separate and shared",
    "mnist/traces": "The gates of an uncertain right answer and of a confident mistake",
    "mnist-best/traces": "The gates of an uncertain right answer and of a confident mistake, with our own settings",
    "shapes/circles": "The partition functions of a ball on circles, and the boundary",
}

INTRODUCTION = """\
<!-- Made by `make results` from the files in results/: change those, not this. -->

# Results

Every table and figure of the paper, by one command each. The paper's number stands beside ours, which is marked
better or worse; a *bar* is what the study set out to reach, met or missed. Settings are chosen on training data
alone, never by test rows, and no seed is picked. The files behind a section are in its folder under `results/`:
`results.json` has every run with its settings, versions and time; running the command again does only the runs
that are missing."""


def page(results: Path, link: str = "../results") -> str:
    """All studies that a folder has, as one page of Markdown.

    Arguments:
        results: The folder with a folder for every study.
        link: Where that folder is, seen from the page.
    """
    studies = {name: results / name for name in COMMANDS if (results / name / "table.md").is_file()}
    sections = [_section(name, folder, f"{link}/{name}") for name, folder in studies.items()]
    return "\n\n".join([INTRODUCTION, _summary(studies), *sections]) + "\n"


def _summary(studies: dict[str, Path]) -> str:
    """A line for every study: how many bars it meets, and what it took."""
    rows = []
    for name, folder in studies.items():
        bars = re.findall(r"\| (met|missed) \|", (folder / "table.md").read_text())
        runs = stored_runs(folder)
        took = f"{sum(run['seconds'] for run in runs) / 60:,.0f} min"
        rows.append(
            [f"[{name}](#{_anchor(_text(folder))})", f"{bars.count('met')} of {len(bars)}", str(len(runs)), took]
        )
    return markdown(["study", "bars met", "runs", "time of all runs"], rows)


def _section(name: str, folder: Path, link: str) -> str:
    """A study: its table, its figures, and how it was made."""
    title, text = _text(folder).split("\n", 1)
    runs = stored_runs(folder)
    figures = [f"![{_caption(name, path.stem)}]({link}/{path.name})" for path in sorted(folder.glob("*.png"))]
    made = f"`{COMMANDS[name]}` made this: {len(runs)} runs with {_versions(runs)}. [Files]({link})"
    return "\n\n".join([title, made, text.strip(), *figures])


def _text(folder: Path) -> str:
    """A table's text, with headings one level lower."""
    return re.sub(r"^#", "##", (folder / "table.md").read_text(), flags=re.MULTILINE)


def _anchor(text: str) -> str:
    """The anchor that Markdown gives to the first heading.

    Example:
        >>> _anchor("## Shapes: test accuracy in percent")
        'shapes-test-accuracy-in-percent'
    """
    words = text.split("\n", 1)[0].lstrip("# ").lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def _caption(study: str, figure: str) -> str:
    return CAPTIONS.get(f"{study}/{figure}", f"{study}: {figure}")


def _versions(runs: list[Run]) -> str:
    """What the runs were made with, every version that occurs."""
    names = list(runs[0]["versions"])
    return ", ".join(f"{name} {' and '.join(sorted({run['versions'][name] for run in runs}))}" for name in names)


if __name__ == "__main__":
    write_atomically(Path("docs/results.md"), page(Path("results")).encode())
