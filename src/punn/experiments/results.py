"""The page of all results, made from the folders of the studies and from nothing else.

``python -m punn.experiments.results`` (or ``make results``) in the repository writes ``docs/results.md``, and the
short form of it into ``README.md``.
"""

from __future__ import annotations

import re
from pathlib import Path

from punn.checkpoint import write_atomically
from punn.experiments.study import Run, markdown, stored_runs

__all__ = ["headlines", "page", "with_headlines"]

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
    "cifar100/training": "Training loss by epoch, and the share that each of its parts has in a class's mass",
    "shapes/circles": "The partition functions of a ball on circles, and the boundary",
}

INTRODUCTION = """\
<!-- Made by `make results` from the files in results/: change those, not this. -->

# Results

Every table and figure of the paper, by one command each. The paper's number stands beside ours, which is marked
better or worse; a *bar* is what the study set out to reach, met or missed. Settings are chosen on training data
alone, never by test rows, but for what CIFAR-100 and shapes say of themselves, and no seed is picked. The files
behind a section are in its folder under `results/`: `results.json` has every run with its settings, versions and
time; running the command again does only the runs that are missing."""

#: Where the README has the short form.
MARKS = "<!-- by `make results` -->\n\n", "\n<!-- end of results -->\n"
#: Numbers of a study that the README has; more are counted.
MOST = 6


def page(results: Path, link: str = "../results") -> str:
    """All studies that a folder has, as one page of Markdown.

    Arguments:
        results: The folder with a folder for every study.
        link: Where that folder is, seen from the page.
    """
    studies = {name: results / name for name in COMMANDS if (results / name / "table.md").is_file()}
    sections = [_section(name, folder, f"{link}/{name}") for name, folder in studies.items()]
    return "\n\n".join([INTRODUCTION, _summary(studies), *sections]) + "\n"


def headlines(results: Path, link: str = "docs/results.md") -> str:
    """The paper's numbers for gates beside ours, counted where there are many, and which studies are not there yet.

    Arguments:
        results: The folder with a folder for every study.
        link: Where the page of results is.
    """
    rows, missing = [], []
    for name in COMMANDS:
        table = results / name / "table.md"
        if not table.is_file():
            missing.append(f"`{COMMANDS[name]}`")
            continue
        study = f"[{name}]({link}#{_anchor(table.read_text())})"
        found = [row for row in _compared(table.read_text()) if "softmax" not in row[0]]
        if len(found) <= MOST:
            rows += [[study, *row] for row in found]
        else:
            words = [row[3].split()[0] for row in found]
            counts = [f"{words.count(word)} {word}" for word in ("better", "equal", "worse")]
            rows.append([study, f"{len(found)} numbers", "", "", ", ".join(counts)])
    text = markdown(["study", "what", "paper", "ours", ""], rows) + "\n"
    return text + (f"\nNot in `results/` yet: {', '.join(missing)}.\n" if missing else "")


def with_headlines(readme: str, results: Path) -> str:
    """The text of the README, with the headlines between their marks."""
    begin, end = MARKS
    head, _, rest = readme.partition(begin)
    return head + begin + headlines(results) + end + rest.partition(end)[2]


def _compared(table: str) -> list[tuple[str, str, str, str]]:
    """What stands beside a number of the paper: its name, the paper's number, ours, and the verdict.

    Example:
        >>> _compared("| iris | balls | 95.3 | 96.13 ± 0.28 | better (+0.8) | met |")
        [('iris, balls', '95.3', '96.13 ± 0.28', 'better (+0.8)')]
    """
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        marks = [i for i, cell in enumerate(cells) if re.fullmatch(r"equal|(better|worse) \(.*\)", cell)]
        if marks and marks[0] >= 2:
            label = ", ".join(cell for cell in cells[:2] if re.search("[a-z]", cell))
            found.append((label, cells[marks[0] - 2], cells[marks[0] - 1], cells[marks[0]]))
    return found


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
    made = (
        f"`{COMMANDS[name]}` made this: {len(runs)} run{'s' * (len(runs) != 1)} with {_versions(runs)}. [Files]({link})"
    )
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
    write_atomically(Path("README.md"), with_headlines(Path("README.md").read_text(), Path("results")).encode())
