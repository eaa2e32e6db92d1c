"""The gates of one row, as in the paper's figure of two digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from punn.displays.style import ACCENT, BAR, INK, axes_of, inches, label_ticks
from punn.ledger import VISIBLE, Array, largest, show
from punn.trace import GateTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TraceDisplay"]

MOST = 24  # functions that are drawn; of a longer chain, those that hold mass


class TraceDisplay:
    """One row's partition functions as bars, its gates and what remains before each as curves.

    The functions of the predicted class are hatched. A gate that nothing reaches is drawn hollow: it is not
    trained there. Of a long chain the functions with mass are drawn, and the rest are counted.

    Arguments:
        names: The names of the functions, in the chain's order.
        gates: Their gates, shape (k - 1,): the last function has none.
        remaining: The mass that reaches each, shape (k,).
        partition: The mass that each takes, shape (k,).
        winning: Whether each belongs to the predicted class, shape (k,).
        predicted: The label of the predicted class.
        probability: Its probability.

    Example:
        >>> trace = GateTrace.from_probabilities([[0.1, 0.2, 0.7]], ["ant", "bee", "cat"])
        >>> display = TraceDisplay.from_trace(trace).plot()
        >>> display.ax_.get_ylabel()
        'share of the mass'
    """

    def __init__(
        self,
        names: Sequence[str],
        gates: Array,
        remaining: Array,
        partition: Array,
        winning: NDArray[np.bool_],
        predicted: Any,
        probability: float,
    ) -> None:
        self.names, self.gates, self.remaining, self.partition = list(names), gates, remaining, partition
        self.winning, self.predicted, self.probability = winning, predicted, probability

    @classmethod
    def from_trace(cls, trace: GateTrace, row: int = 0) -> Self:
        """The display of one row of a trace."""
        one = trace[row]
        winner = int(np.flatnonzero(one.classes == one.predicted[0])[0])
        return cls(
            one.names,
            one.gates[0],
            one.remaining[0],
            one.partition[0],
            one.class_of == winner,
            one.predicted[0],
            float(one.probabilities[0, winner]),
        )

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, row: int = 0) -> Self:
        """The display of one row of a table, by a fitted classifier."""
        return cls.from_trace(estimator.trace(X), row)

    def plot(self, ax: Axes | None = None, *, most: int = MOST, title: str | None = None) -> Self:
        """Draw it.

        Arguments:
            ax: Where to draw; a new figure if None.
            most: How many functions to draw at most.
            title: A title instead of the prediction.
        """
        k = len(self.names)
        best = np.arange(k) == np.where(self.winning, self.partition, -1.0).argmax()
        shown = np.array(largest(self.partition, best.tolist(), most))
        # Mass that is spread thinly over a long chain is seen in the whole of it, on a logarithmic scale.
        thin = self.partition[shown].sum() < 0.5
        ax = axes_of(ax, 10.0 if thin else float(np.clip(2.5 + 0.45 * len(shown), 6.0, 12)), 4.2)
        if thin:
            self._chain(ax)
        else:
            self._bars(ax, shown)
            self._curves(ax, shown)
            label_ticks(ax, [self.names[i] for i in shown])
            ax.set(xlim=(-0.6, len(shown) - 0.4), ylim=(0, 1.05), xlabel=self._hidden(shown))
        ax.set_ylabel("share of the mass")
        ax.set_title(title or f"predicted: {show(self.predicted, 36)}, p = {self.probability:.3f}", fontsize="medium")
        columns = 4 if inches(ax) >= 4.8 else 2
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.09), ncols=columns, frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_: Axes = ax
        self.figure_: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def _bars(self, ax: Axes, shown: NDArray[np.intp]) -> None:
        bars = ax.bar(range(len(shown)), self.partition[shown], color=BAR, edgecolor=INK, linewidth=0.6, width=0.75)
        for bar, i in zip(bars, shown, strict=True):
            bar.set_hatch("////" if self.winning[i] else "")
        ax.bar([0], [0], color=BAR, edgecolor=INK, linewidth=0.6, label="h, taken")
        ax.bar([0], [0], color=BAR, edgecolor=INK, linewidth=0.6, hatch="////", label="h of the predicted class")

    def _curves(self, ax: Axes, shown: NDArray[np.intp]) -> None:
        places = np.arange(len(shown))
        marker = {"markersize": 3.5}
        ax.step(places, self.remaining[shown], where="mid", color=INK, linestyle=":", linewidth=1.2, label="remaining")
        gated = shown < len(self.gates)
        q = self.gates[shown[gated]]
        ax.plot(places[gated], q, color=ACCENT, linewidth=1.3, marker="o", label="q, gate", **marker)  # type: ignore[arg-type]
        unreached = self.remaining[shown[gated]] < VISIBLE
        hollow = {"color": ACCENT, "marker": "o", "markerfacecolor": "white", "linestyle": ""}
        ax.plot(places[gated][unreached], q[unreached], **hollow, **marker)  # type: ignore[arg-type]

    def _chain(self, ax: Axes) -> None:
        places = np.arange(1, len(self.names) + 1)
        least = max(float(self.partition.max()) / 100, 1e-12)
        for mine, color, width, label in (
            (~self.winning, BAR, 0.8, "h, taken"),
            (self.winning, INK, 1.4, "h of the predicted class"),
        ):
            tall = mine & (self.partition > least)
            ax.vlines(places[tall], least, self.partition[tall], color=color, linewidth=width, label=label)
        ax.plot(places, self.remaining, color=INK, linestyle=":", linewidth=1.4, label="remaining")
        seen = self.gates > least
        ax.plot(
            places[:-1][seen],
            self.gates[seen],
            color=ACCENT,
            linestyle="",
            marker=".",
            markersize=3,
            alpha=0.4,
            label="q, gate",
        )
        ax.set(yscale="log", ylim=(least, 1.3), xlim=(0, len(places) + 1))
        ax.set_xlabel(f"place of the {len(places):,} partition functions in the chain")

    def _hidden(self, shown: NDArray[np.intp]) -> str:
        text = "partition functions in the chain's order"
        count = len(self.names) - len(shown)
        if not count:
            return text
        held = np.delete(self.partition, shown).sum()
        return f"{text}\n{count:,} more are not drawn, with {held:.3f} of the mass together"
