"""What all displays share: colours, markers, room for labels, and matplotlib itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from punn.ledger import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = [
    "ACCENT",
    "BAR",
    "INK",
    "MARKERS",
    "QUIET",
    "axes_of",
    "class_colors",
    "import_matplotlib",
    "inches",
    "label_ticks",
]

#: Okabe and Ito's colours, in an order in which neighbours differ in lightness as well.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
MARKERS = "osD^vPX*<>hp"
BAR, ACCENT, INK, QUIET = "#A9D6F2", "#D55E00", "#333333", "#999999"


def import_matplotlib() -> Any:
    """The module pyplot, or an error that says how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("a picture needs matplotlib, which is not installed: pip install punn[plot]") from error
    return pyplot


def axes_of(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or new ones in a figure of a size that suits; its layout makes room for labels."""
    if ax is not None:
        return ax
    _, new = import_matplotlib().subplots(figsize=(width, height), layout="constrained")
    axes: Axes = new
    return axes


def class_colors(count: int) -> list[Any]:
    """A colour for each class: distinct ones while there are enough, then steps of viridis."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    colors = import_matplotlib().get_cmap("viridis")
    return [colors(i / (count - 1)) for i in range(count)]


def inches(ax: Axes) -> float:
    """The width of axes, before a layout makes room for what is around them."""
    return float(ax.get_window_extent().width / ax.get_figure(root=True).dpi)  # type: ignore[union-attr]


def label_ticks(ax: Axes, names: Sequence[str], axis: str = "x", longest: int = 28, most: int = 40) -> None:
    """Names at 0, 1, 2, ...: shortened, turned where they would touch, and only every few of a great many."""
    step = -(-len(names) // most)
    places = list(range(0, len(names), step))
    texts = ["\n".join(show(line, longest) for line in names[i].split("\n")) for i in places]
    if axis == "y":
        ax.set_yticks(places, texts)
        return
    widest = max(len(line) for text in texts for line in text.split("\n"))
    fits = widest * 0.08 < inches(ax) / len(texts)
    if fits:
        ax.set_xticks(places, texts)
    else:
        ax.set_xticks(places, texts, rotation=40 if len(texts) <= 25 else 90, ha="right", rotation_mode="anchor")
        if len(texts) > 25:
            ax.tick_params(axis="x", labelsize="small")
            for text in ax.get_xticklabels():
                text.set_verticalalignment("center")
