r"""The gate trace: how the mass of a row passes along the chain of gates.

Every probability of the model is an exact product of gates, so the explanation is the computation itself.
A :class:`GateTrace` holds :math:`\log q_i` and :math:`\log(1 - q_i)`; everything else is read from these two
arrays, in float64 and in log space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from punn.ledger import (
    REFUSED,
    TAKEN,
    VISIBLE,
    WON,
    Array,
    Ledger,
    WhyNot,
    build_ledger,
    columns,
    import_pandas,
    largest,
    show,
)
from punn.trace_input import (
    check_class_of,
    check_classes,
    check_logs,
    check_order,
    check_probabilities,
    check_row,
    check_rows,
    check_y,
    class_index,
    positions_of,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GateTrace"]

FEW = 10  # rows of a trace, and classes of its order, that a summary names


class GateTrace:
    r"""The gates of some rows, and all that follows from them.

    .. math:: h_i = q_i \prod_{j<i} (1 - q_j), \qquad h_k = \prod_{j<k} (1 - q_j), \qquad
              p_c = \sum_{i \,:\, \text{class\_of}(i) = c} h_i

    A gate is not trained on rows of classes before it, so its value there is extrapolation: read a gate
    together with the mass that reaches it. The print shows both, and marks gates that nothing reaches.

    Arguments:
        log_accept: :math:`\log q_i`, shape :math:`(n, k - 1)`; minus infinity where a gate is zero.
        log_reject: :math:`\log(1 - q_i)`, shape :math:`(n, k - 1)`; minus infinity where a gate is one.
        class_of: The class of every partition function as an index into `classes`, shape :math:`(k,)`.
            One function for every class if None.
        classes: The labels, shape :math:`(C,)`; 0 to C - 1 if None.
        derived: The gates were derived from given probabilities, not learned. The print says so.

    Example:
        >>> q = np.array([[0.004, 0.871]])
        >>> trace = GateTrace(np.log(q), np.log1p(-q), classes=["setosa", "versicolor", "virginica"])
        >>> print(trace)
         class        reached   gate      h
         setosa         1.000  0.004  0.004
         versicolor     0.996  0.871  0.868  <-
         virginica      0.128   rest  0.128
        >>> print(trace.why_not(0, "virginica"))
        class virginica lost because versicolor took 87% before it was reached;
        it is the rest and takes 100% of the 13% that reached it
    """

    def __init__(
        self,
        log_accept: ArrayLike,
        log_reject: ArrayLike,
        class_of: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        *,
        derived: bool = False,
    ):
        self.log_accept, self.log_reject = check_logs(log_accept, log_reject)
        self.class_of = check_class_of(class_of, self.log_accept.shape[1] + 1)
        self.classes = check_classes(classes, int(self.class_of.max()) + 1)
        self.derived = bool(derived)

    @classmethod
    def from_probabilities(
        cls, p: ArrayLike, classes: ArrayLike | None = None, order: ArrayLike | None = None
    ) -> GateTrace:
        r"""The exact trace of any probabilistic classifier: a softmax network, a forest.

        .. math:: q_i = \frac{p_i}{\sum_{j \geq i} p_j}, \qquad 0 \text{ where nothing remains}

        Arguments:
            p: Probabilities, shape :math:`(n, C)`; every row sums to one within 1e-4.
            classes: The labels of the columns, shape :math:`(C,)`; 0 to C - 1 if None.
            order: All labels in the order in which they shall stand in the chain; that of `classes` if None.

        Example:
            >>> print(GateTrace.from_probabilities([[0.2, 0.3, 0.5]], order=[2, 0, 1]))
             class   reached   gate      h
             2         1.000  0.500  0.500  <-
             0         0.500  0.400  0.200
             1         0.300   rest  0.300
             gates derived from given probabilities, not learned
        """
        values = check_probabilities(p)
        labels = check_classes(classes, values.shape[1])
        class_of = check_order(order, labels)
        return cls(*_log_gates(values[:, class_of]), class_of, labels, derived=True)

    def __len__(self) -> int:
        return len(self.log_accept)

    def __getitem__(self, rows: Any) -> GateTrace:
        """One row by its number, or several by a slice, a mask or a list of numbers; always a trace."""
        index = check_rows(rows, len(self))
        return GateTrace(
            self.log_accept[index], self.log_reject[index], self.class_of, self.classes, derived=self.derived
        )

    def __iter__(self) -> Iterator[GateTrace]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def gates(self) -> Array:
        r""":math:`q_i`, shape :math:`(n, k - 1)`."""
        return np.exp(self.log_accept)

    @cached_property
    def _log_remaining(self) -> Array:
        return np.cumsum(np.pad(self.log_reject, ((0, 0), (1, 0))), axis=1)

    @cached_property
    def remaining(self) -> Array:
        r"""The mass that reaches every function, :math:`\prod_{j<i} (1 - q_j)`, shape :math:`(n, k)`."""
        return np.exp(self._log_remaining)

    @cached_property
    def log_partition(self) -> Array:
        r""":math:`\log h_i`, shape :math:`(n, k)`."""
        return np.pad(self.log_accept, ((0, 0), (0, 1))) + self._log_remaining

    @cached_property
    def partition(self) -> Array:
        r""":math:`h_i`, shape :math:`(n, k)`; every row sums to one."""
        return np.exp(self.log_partition)

    @cached_property
    def log_probabilities(self) -> Array:
        r""":math:`\log p_c` in the order of `classes`, shape :math:`(n, C)`."""
        by_class = np.argsort(self.class_of, kind="stable")
        starts = np.searchsorted(self.class_of[by_class], np.arange(len(self.classes)))
        log_h = self.log_partition[:, by_class]
        top = np.maximum.reduceat(log_h, starts, axis=1)
        top = np.where(np.isneginf(top), 0.0, top)  # a class without mass: -inf - -inf is not a number
        total = np.add.reduceat(np.exp(log_h - top[:, self.class_of[by_class]]), starts, axis=1)
        return top + _log(total)

    @cached_property
    def probabilities(self) -> Array:
        r""":math:`p_c` in the order of `classes`, shape :math:`(n, C)`."""
        return np.exp(self.log_probabilities)

    @cached_property
    def predicted(self) -> NDArray[Any]:
        """The label of the most probable class, shape :math:`(n,)`; of equal ones the first in `classes`."""
        return self.classes[self._winner]

    @cached_property
    def _winner(self) -> NDArray[np.intp]:
        # Equal probabilities differ in the last bit after different products, hence the tolerance.
        log_p = self.log_probabilities
        return np.asarray(np.argmax(log_p >= log_p.max(axis=1, keepdims=True) - 1e-12, axis=1))

    @cached_property
    def order(self) -> NDArray[Any]:
        """The labels in the order in which the classes first appear in the chain, shape :math:`(C,)`."""
        return self.classes[list(dict.fromkeys(self.class_of.tolist()))]

    @cached_property
    def names(self) -> list[str]:
        """The name of every partition function: "setosa", or "setosa #2" if its class has several parts."""
        labels = [str(label) for label in self.classes.tolist()]
        parts, seen, names = Counter(self.class_of.tolist()), Counter[int](), []
        for c in self.class_of.tolist():
            seen[c] += 1
            names.append(labels[c] if parts[c] == 1 else f"{labels[c]} #{seen[c]}")
        return names

    def ledger(self, row: int, cls: Any) -> Ledger:
        """The log-probability of the class `cls` as a sum over gates, see :class:`~punn.ledger.Ledger`."""
        i, c = check_row(row, len(self)), class_index(cls, positions_of(self.classes))
        positions = np.flatnonzero(self.class_of == c).tolist()
        label = self.classes.tolist()[c]
        return build_ledger(label, self.names, self.log_accept[i], self.log_reject[i], positions)

    def why_not(self, row: int, cls: Any) -> WhyNot:
        """Why the class `cls` did not win: its own gate refused, or gates before it took the mass.

        Returns:
            A :class:`~punn.ledger.WhyNot`, which prints as one sentence.

        Example:
            >>> print(GateTrace.from_probabilities([[0.01, 0.02, 0.97]]).why_not(0, 1))
            class 1 lost because its own gate accepted only 2.0% of the 99% that reached it;
            class 2 won with 97%
        """
        i, c = check_row(row, len(self)), class_index(cls, positions_of(self.classes))
        labels, winner, own = self.classes.tolist(), int(self._winner[i]), self.class_of == c
        part = int(self._largest_part(c, np.array([i]))[0])
        taken, refused = self._losses(c, np.array([i]))
        falling = [j for j in np.argsort(-taken, kind="stable").tolist() if taken[j] > 0]
        p = float(self.probabilities[i, c])
        reached, accepted = p + refused, 1.0
        if part < len(own) - 1:
            would = -np.expm1(self.log_reject[i, own[:-1]].sum())
            accepted = p / reached if reached > np.finfo(np.float64).tiny else float(would)
        # The smaller of the two factors of p is to blame, but no gate for a value where nothing reaches it.
        cause = REFUSED if reached >= max(accepted, VISIBLE) else TAKEN
        return WhyNot(
            cls=labels[c],
            winner=labels[winner],
            probability=p,
            winner_probability=float(self.probabilities[i, winner]),
            reached=reached,
            accepted=accepted,
            refused=refused,
            taken=tuple((labels[j], float(taken[j])) for j in falling),
            cause=WON if c == winner else cause,
            parts=int(own.sum()),
            rest=part == len(own) - 1,
        )

    def _largest_part(self, c: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        own = np.flatnonzero(self.class_of == c)
        return np.asarray(own[np.argmax(self.log_partition[np.ix_(rows, own)], axis=1)])

    def _losses(self, c: int, rows: NDArray[np.intp]) -> tuple[Array, float]:
        """Mean mass that each other class took before the largest part of class c, and all of them after."""
        mass = np.where(self.class_of == c, 0.0, self.partition[rows])
        before = np.arange(mass.shape[1]) < self._largest_part(c, rows)[:, None]
        taken = np.zeros(len(self.classes))
        np.add.at(taken, self.class_of, np.where(before, mass, 0.0).mean(axis=0))
        return taken, float(np.where(before, 0.0, mass).sum(axis=1).mean())

    def blame(self, y: ArrayLike) -> pd.DataFrame:
        r"""Where the mass of the true classes went: a confusion matrix with reasons.

        In a row of class c, what other classes take before the gate of c is reached stands under their
        labels, and what they get after it is what the gate of c refused: together, all of the mass but the
        probability of c. Of several parts of c, the largest one of that row divides before and after.

        Arguments:
            y: The true label of every row, shape :math:`(n,)`.

        Returns:
            A DataFrame of means: a row for every class in `y`, a column "own gate refused" and one for every
            class, in the chain's order. Every row adds up to one minus the mean probability of its class.

        Example:
            >>> GateTrace.from_probabilities([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]]).blame([0, 1])
            cause       own gate refused     0    1    2
            true class
            0                       0.30  0.00  0.0  0.0
            1                       0.25  0.25  0.0  0.0
        """
        pandas = import_pandas()
        true = check_y(y, self.classes, len(self))
        chain = list(dict.fromkeys(self.class_of.tolist()))
        present = [c for c in chain if np.any(true == c)]
        rows = []
        for c in present:
            taken, refused = self._losses(c, np.flatnonzero(true == c))
            rows.append([refused, *taken[chain]])
        frame: pd.DataFrame = pandas.DataFrame(
            np.array(rows).reshape(len(present), len(chain) + 1),
            index=pandas.Index(self.classes[present], name="true class"),
            columns=pandas.Index([REFUSED, *self.order.tolist()], dtype=object, name="cause"),
        )
        return frame

    def to_frame(self) -> pd.DataFrame:
        """All rows as a tidy DataFrame: row, position in the chain, function, class, reached, gate, h.

        The rest has no gate: there the gate is missing.
        """
        n, k = self.partition.shape
        frame: pd.DataFrame = import_pandas().DataFrame(
            {
                "row": np.repeat(np.arange(n), k),
                "position": np.tile(np.arange(k), n),
                "function": self.names * n,
                "class": np.tile(self.classes[self.class_of], n),
                "reached": self.remaining.ravel(),
                "gate": np.pad(self.gates, ((0, 0), (0, 1)), constant_values=np.nan).ravel(),
                "h": self.partition.ravel(),
            }
        )
        return frame

    def __str__(self) -> str:
        lines = self._chain_lines() if len(self) == 1 else self._summary_lines()
        if self.derived:
            lines.append(" gates derived from given probabilities, not learned")
        return "\n".join(lines)

    __repr__ = __str__

    def _chain_lines(self) -> list[str]:
        """The one row as a table in the chain's order, and the class sums if classes have several parts."""
        h, several = self.partition[0], len(self.names) > len(self.classes)
        own = np.where(self.class_of == self._winner[0], h, -1.0)
        best = np.arange(len(h)) == own.argmax()
        shown = largest(h, best.tolist())
        cells = [["function" if several else "class", " reached", "gate", "h", ""]]
        cells += [[*self._function_cells(i), "<-" if best[i] else ""] for i in shown]
        lines = columns(cells, "lrrrl") + _hidden(h, shown, "functions")
        if any(row[2] == "-" for row in cells):
            lines.append(" -  nothing reaches this gate, so its value would say nothing")
        if several:
            p, won = self.probabilities[0], np.arange(len(self.classes)) == self._winner[0]
            shown = largest(p, won.tolist(), FEW)
            sums = [[show(self.classes[c]), f"{p[c]:.3f}", "<-" if won[c] else ""] for c in shown]
            lines += ["", *columns([["class", " p", ""], *sums], "lrl"), *_hidden(p, shown, "classes")]
        return lines

    def _function_cells(self, i: int) -> list[str]:
        reached, gate = self.remaining[0, i], "rest"
        if i < len(self.names) - 1:
            gate = "-" if reached < VISIBLE else f"{self.gates[0, i]:.3f}"
        return [show(self.names[i]), f"{reached:.3f}", gate, f"{self.partition[0, i]:.3f}"]

    def _summary_lines(self) -> list[str]:
        """A line for each of the first rows: the prediction, and the largest functions."""
        order = [show(label, 20) for label in self.order.tolist()]
        chain = ", ".join(order if len(order) <= FEW else [*order[:3], "...", order[-1]])
        lines = [f" {len(self):,} rows, {len(self.names):,} functions, {len(order):,} classes in the order {chain}"]
        cells = [["row", "predicted", "p", "the largest functions, in the chain's order"]]
        for i in range(min(len(self), FEW)):
            top = sorted(np.argsort(-self.partition[i], kind="stable")[:3].tolist())
            path = [f"{show(self.names[j], 20)} {self.partition[i, j]:.3f}" for j in top]
            p = self.probabilities[i, self._winner[i]]
            cells.append([str(i), show(self.predicted[i], 20), f"{p:.3f}", ", ".join(path)])
        if len(self) > 0:
            lines += columns(cells, "rlrl")
        if len(self) > FEW:
            lines.append(f" ... {len(self) - FEW:,} more rows; print(trace[i]) shows row i in full")
        return lines


def _hidden(mass: Array, shown: list[int], what: str) -> list[str]:
    count = len(mass) - len(shown)
    held = np.delete(mass, shown).sum()
    return [f" ... {count:,} {what} hidden, with {held:.3f} of the mass together"] if count else []


def _log(x: Array) -> Array:
    """The logarithm, minus infinity at zero and without a warning."""
    return np.log(x, where=x > 0, out=np.full_like(x, -np.inf))


def _log_gates(p: Array) -> tuple[Array, Array]:
    """Log q and log(1 - q) of the chain that gives the probabilities `p`."""
    tail = np.cumsum(p[:, ::-1], axis=1)[:, ::-1]  # summed from the back, so that small tails are exact
    here, after = tail[:, :-1], tail[:, 1:]
    q = np.divide(p[:, :-1], here, where=here > 0, out=np.zeros_like(here))
    left = np.divide(after, here, where=here > 0, out=np.ones_like(here))
    # 1 - q loses its digits near q = 1 and the quotient of tails near q = 0: each where it is exact.
    return _log(q), np.where(q < 0.5, np.log1p(-np.minimum(q, 0.5)), _log(np.minimum(left, 1.0)))
