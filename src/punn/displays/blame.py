"""Where the mass of the true classes went, as a heatmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from punn.displays.style import axes_of, label_ticks
from punn.trace import GateTrace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BlameDisplay"]

NUMBERS = 14  # a heatmap up to this many rows has its numbers written in


class BlameDisplay:
    """A confusion matrix with reasons: see :meth:`punn.GateTrace.blame`.

    Arguments:
        blame: A row for every true class, a column for every cause.

    Example:
        >>> trace = GateTrace.from_probabilities([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]])
        >>> display = BlameDisplay.from_trace(trace, [0, 1]).plot()
        >>> display.ax_.get_ylabel()
        'true class'
    """

    def __init__(self, blame: pd.DataFrame) -> None:
        self.blame = blame

    @classmethod
    def from_trace(cls, trace: GateTrace, y: ArrayLike) -> Self:
        """The display of a trace and the true label of every row."""
        return cls(trace.blame(y))

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, y: ArrayLike) -> Self:
        """The display of a table with labels, by a fitted classifier."""
        return cls.from_trace(estimator.trace(X), y)

    def plot(self, ax: Axes | None = None, *, title: str | None = None, cmap: str = "cividis") -> Self:
        """Draw it.

        Arguments:
            ax: Where to draw; a new figure if None.
            title: A title instead of the usual one.
            cmap: A colour map.
        """
        values = self.blame.to_numpy(dtype=float)
        rows, causes = values.shape
        ax = axes_of(ax, float(np.clip(3.2 + 0.55 * causes, 5, 12)), float(np.clip(2.4 + 0.42 * rows, 3.4, 10)))
        image = ax.imshow(values, cmap=cmap, vmin=0, vmax=max(float(values.max(initial=0.0)), 1e-3), aspect="auto")
        bar = ax.figure.colorbar(image, ax=ax)
        bar.set_label("mean share of the mass lost")
        label_ticks(ax, ["own\ngate", *(str(cause) for cause in self.blame.columns[1:])])
        label_ticks(ax, [str(label) for label in self.blame.index], axis="y", longest=24)
        ax.set(
            xlabel="refused by its own gate, or taken before it\nby a class, in the chain's order", ylabel="true class"
        )
        # What the own gate refused is not the doing of one class: a line sets it apart.
        ax.axvline(0.5, color="white", linewidth=3)
        if rows <= NUMBERS and causes <= NUMBERS + 1:
            self._write(ax, values)
        ax.set_title(title or "where the mass of the true class went", fontsize="medium")
        ax.tick_params(length=0)
        self.ax_: Axes = ax
        self.figure_: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def _write(self, ax: Axes, values: np.ndarray) -> None:
        half = max(float(values.max(initial=0.0)), 1e-3) / 2
        for i, j in np.argwhere(values >= 0.0005):
            text = f"{values[i, j]:.3f}"[1:] if values[i, j] < 1 else "1"
            # The upper half of cividis, and of most maps that are even in lightness, is bright.
            color = "black" if values[i, j] > half else "white"
            ax.text(j, i, text, ha="center", va="center", fontsize="small", color=color)
