"""The README and the pages of docs/: their Python runs and prints what they show; names, links and commands exist.

`python tests/test_docs.py` runs the pages and writes what they print into them, with their figures; after a change
that is meant to change numbers, that is the way to tell the pages.
"""

import contextlib
import importlib
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
# A block of Python, and the text that it prints if the page shows it.
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?P<between>\n\n```text\n)?(?(between)(?P<shown>.*?)```)", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def run(page: Path, folder: Path) -> list[str]:
    """What every block prints, in one namespace, in a folder of its own."""
    (folder / "figures").mkdir(exist_ok=True)
    namespace, printed = {"__name__": page.stem}, []
    with contextlib.chdir(folder):
        for block in BLOCK.finditer(page.read_text()):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block["code"], str(page), "exec"), namespace)
            printed.append(out.getvalue())
    return printed


def words_and_numbers(text: str) -> tuple[list[str], list[float]]:
    """Numbers may differ a little between machines; all else may not, but the width of columns."""
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
    return NUMBER.sub("#", text).split(), numbers


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.stem
)
# dask warns of a port that another cluster on this machine has, and takes the next one.
@pytest.mark.filterwarnings("ignore:Port 8787 is already in use")
# torch's exporter warns of what torch itself does.
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_blocks_run_and_print_what_is_shown(page, tmp_path):
    import matplotlib.pyplot as plt

    try:
        printed = run(page, tmp_path)
    finally:
        plt.close("all")
    for block, text in zip(BLOCK.finditer(page.read_text()), printed, strict=True):
        if block["shown"] is not None:
            words, numbers = words_and_numbers(text)
            shown_words, shown_numbers = words_and_numbers(block["shown"])
            assert words == shown_words
            assert numbers == pytest.approx(shown_numbers, rel=0.1, abs=0.03)


def test_a_page_that_shows_something_else_is_found():
    assert words_and_numbers("p 0.25  <-\n") == (["p", "#", "<-"], [0.25])
    found = BLOCK.search("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    assert (found["code"], found["shown"]) == ("print(1)\n", "1\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in [slug(heading) for heading in headings], f"{page.name} links {link}"


def slug(heading: str) -> str:
    """The anchor of a heading, as Git hosts and the site make it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert all(f": {page.name}\n" in navigation for page in DOCS)


def commands() -> dict[str, set[str]]:
    """All options of every command of the command line."""
    from typer.main import get_command

    from punn.cli import app

    group = app if isinstance(app, click.Group) else get_command(app)
    context = click.Context(group)
    names = group.list_commands(context)
    found = {name: group.get_command(context, name) for name in names}
    return {
        name: {"--help", "-h", *(o for p in command.params for o in (*p.opts, *p.secondary_opts))}
        for name, command in found.items()
    }


def lines_of_shell(text: str) -> list[str]:
    """The commands of a page: in shell blocks, and between backquotes in the text."""
    blocks = re.findall(r"```shell\n(.*?)```", text.replace("\\\n", " "), re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [line.split(" #")[0].strip() for line in [*"\n".join(blocks).splitlines(), *inline]]


def test_commands_and_their_options_exist():
    known, seen = commands(), set()
    for page in PAGES:
        for line in lines_of_shell(page.read_text()):
            found = re.fullmatch(r"(?:.* -m )?punn ([a-z]+)\b(.*)", line)
            if found is None:
                continue
            name, rest = found.groups()
            assert name in known, f"{page.name} names punn {name}"
            for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest):
                assert option in known[name], f"{page.name} names punn {name} {option}"
            seen.add(name)
    assert {"train", "explain", "report", "explore", "export", "info", "predict", "reproduce"} <= seen


NAMES = (ROOT / "docs" / "paper-in-code.md").read_text()


def test_functions_of_the_paper_exist():
    names = set(re.findall(r"`(punn\.[\w.]+)`", NAMES))
    assert len(names) > 30
    for name in names:
        resolve(name)


def resolve(name: str) -> object:
    """An object by its dotted name: modules as far as there are any, attributes from there."""
    parts = name.split(".")
    found, rest = importlib.import_module(parts[0]), parts[1:]
    for i, part in enumerate(rest):
        module = ".".join(parts[: i + 2])
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(module)
    return found


def test_what_does_not_exist_is_found():
    with pytest.raises(ModuleNotFoundError):
        resolve("punn.partition.log_nonsense")


def test_tests_of_the_paper_exist():
    tests = set(re.findall(r"`(test_\w+)::(test_\w+)`", NAMES))
    assert len(tests) > 25
    for file, test in tests:
        source = (ROOT / "tests" / f"{file}.py").read_text()
        assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{file}.py has no {test}"


def update() -> None:
    """Write into the pages what their blocks print, and take their figures."""
    chosen = [page for page in PAGES if page.stem in sys.argv[1:]] or PAGES
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            printed = iter(run(page, Path(folder)))
            for figure in Path(folder, "figures").iterdir():
                (ROOT / "docs" / "figures").mkdir(exist_ok=True)
                shutil.copy(figure, ROOT / "docs" / "figures" / figure.name)

        def told(block: re.Match, printed=printed) -> str:
            text = "\n".join(line.rstrip() for line in next(printed).splitlines())
            shown = "" if block["shown"] is None else f"{block['between']}{text}\n```"
            return f"```python\n{block['code']}```{shown}"

        page.write_text(BLOCK.sub(told, page.read_text()))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
    update()
