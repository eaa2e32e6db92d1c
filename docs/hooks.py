"""What the site needs beyond Markdown: figures of results/, and mathematics without any script.

Pages link figures as ../results/..., which a Git host shows; the site has copies of them beside its pages.
Docstrings write :math:`...`, which becomes MathML here: browsers draw it by themselves.
"""

import html
import re
from pathlib import Path

from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SHOWN = {".png", ".pdf", ".json"}


def on_files(files, config):
    """Take in the figures and numbers of every study."""
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in SHOWN:
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point at those copies; a link to a folder leads to the numbers in it."""
    markdown = re.sub(r"\]\(\.\./(results/[\w-]+)\)", r"](\1/results.json)", markdown)
    return markdown.replace("](../results/", "](results/")


def on_page_content(content, page, config, files):
    """Formulas as MathML, and long names that may break."""
    content = re.sub(r"(?<=<code>)[\w.:]{24,}(?=</code>)", long_names, content)
    inline = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
    block = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
    content = inline.sub(lambda found: mathml(found[1], "inline"), content)
    return block.sub(lambda found: mathml(found[1], "block"), content)


def long_names(found: re.Match) -> str:
    """A name that may be broken after dots, colons and underscores."""
    return re.sub(r"(::|\.|_)", r"\1<wbr>", found[0])


def mathml(formula: str, display: str) -> str:
    """LaTeX in HTML as MathML; the converter shows the backslash of an underscore."""
    return convert(html.unescape(formula).replace(r"\_", "_"), display=display)


class Mathematics(Extension):
    """Docstrings as Markdown: their formulas, their names, their examples."""

    def on_instance(self, *, node, obj: Object, **kwargs) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    r"""A docstring without reStructuredText.

    >>> as_markdown("A gate, :math:`q_i`, see :func:`~punn.load`.")
    'A gate, \\(q_i\\), see `punn.load`.'
    """
    docstring = re.sub(r"^( *)\.\. math:: *((?:.+\n?)+)", _block, docstring, flags=re.MULTILINE)
    docstring = re.sub(r":math:`([^`]*)`", r"\\(\1\\)", docstring)
    docstring = re.sub(r":(?:class|func|meth|mod|attr):`~?([^`]*)`", r"`\1`", docstring)
    return re.sub(r"^( *)Example:$", r"\1Examples:", docstring, flags=re.MULTILINE)


def _block(found: re.Match) -> str:
    indent, formula = found[1], " ".join(found[2].split())
    return f"{indent}\\[{formula}\\]\n"
