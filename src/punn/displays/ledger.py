"""A log-probability as a waterfall of nats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from punn.displays.style import ACCENT, BAR, INK, QUIET, axes_of
from punn.ledger import Ledger, largest, show
from punn.trace import GateTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LedgerDisplay"]

MOST = 16  # gates that are drawn; the smallest of more are drawn as one
DEEPEST = 1.25  # what is infinite is drawn as this times the finite sum, and said to be infinite


class LedgerDisplay:
    """The ledger of a class, gate by gate from probability 1 down to the class's own: see :class:`punn.ledger.Ledger`.

    Arguments:
        ledger: The ledger.

    Example:
        >>> trace = GateTrace.from_probabilities([[0.25, 0.375, 0.375]], ["a", "b", "c"])
        >>> display = LedgerDisplay.from_trace(trace, 0, "b").plot()
        >>> display.ax_.get_xlabel()
        'log-probability in nats'
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    @classmethod
    def from_trace(cls, trace: GateTrace, row: int, label: Any) -> Self:
        """The display of one class of one row of a trace."""
        return cls(trace.ledger(row, label))

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, row: int, label: Any) -> Self:
        """The display of one class of one row of a table, by a fitted classifier."""
        return cls.from_trace(estimator.trace(X), row, label)

    def plot(self, ax: Axes | None = None, *, most: int = MOST, title: str | None = None) -> Self:
        """Draw it.

        Arguments:
            ax: Where to draw; a new figure if None.
            most: How many gates to draw at most.
            title: A title instead of the usual one.
        """
        steps = self._steps(most)
        ax = axes_of(ax, 7.0, min(1.8 + 0.36 * (len(steps) + 1), 9.5))
        finite = math.fsum(abs(nats) for _, nats, _ in steps if math.isfinite(nats))
        deep = DEEPEST * max(finite, 1.0)
        level, low = 0.0, 0.0
        for place, (_, nats, own) in enumerate(steps):
            after = level + nats if math.isfinite(nats) else -deep
            self._step(ax, place, level, after, nats, own)
            level, low = after, min(low, after)
        place = len(steps)
        ax.barh(place, level, color=INK, height=0.62)
        self._label(ax, place, level, self.ledger.total)
        ax.set_yticks(range(place + 1), [name for name, _, _ in steps] + [f"p({show(self.ledger.cls, 24)})"])
        span = max(-low, 0.1)
        # Room on the left for the numbers of the longest bars.
        ax.set(xlim=(low - 0.42 * span, 0.04 * span), ylim=(place + 0.6, -0.6), xlabel="log-probability in nats")
        ax.axvline(0, color=INK, linewidth=0.8)
        name = f"why p({show(self.ledger.cls, 24)}) = {math.exp(self.ledger.total):.3g}"
        ax.set_title(title or name, fontsize="medium")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        self.ax_: Axes = ax
        self.figure_: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def _steps(self, most: int) -> list[tuple[str, float, bool]]:
        """Name, nats, and whether it is the class's own doing; what is hidden is added up where it begins."""
        rows = self.ledger.rows
        own = [row.action != "rejects" for row in rows]
        shown = largest([abs(row.nats) for row in rows], own, most)
        steps = [(f"{show(rows[i].name, 24)} {rows[i].action}", rows[i].nats, own[i]) for i in shown]
        hidden = [row.nats for i, row in enumerate(rows) if i not in set(shown)]
        if hidden:
            steps.insert(0, (f"{len(hidden):,} others reject", math.fsum(hidden), False))
        return steps

    def _step(self, ax: Axes, place: int, before: float, after: float, nats: float, own: bool) -> None:
        # The class's own gate is hatched, so that it is told from those before it in grey too.
        color, hatch = (ACCENT, "////") if own else (BAR, "")
        ax.barh(place, after - before, left=before, color=color, edgecolor=INK, linewidth=0.5, height=0.62, hatch=hatch)
        ax.plot([after, after], [place - 0.31, place + 1.31], color=INK, linewidth=0.6, linestyle=":")
        self._label(ax, place, min(before, after), nats)

    def _label(self, ax: Axes, place: int, left: float, nats: float) -> None:
        number = "-inf (x 0)" if math.isinf(nats) else f"{nats:z.3f} (x {math.exp(nats):.3g})"
        color = INK if abs(nats) >= 0.0005 else QUIET
        beside = {"xytext": (-5, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
        ax.annotate(number, (left, place), fontsize="small", color=color, **beside)  # type: ignore[arg-type]
