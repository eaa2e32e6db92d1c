r"""Answers about one class of one row: the ledger of its log-probability, and why it did not win.

Both are plain data that prints as text; :class:`punn.GateTrace` makes them from its arrays. The small text
helpers that lay out columns, names and percentages stand here too, since traces and ledgers print alike.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

VISIBLE = 0.0005  # the smallest mass that three decimals show; below it nothing is said to reach a gate
LONGEST = 20  # lines of a printed table before it is shortened to what matters

REFUSED = "own gate refused"
TAKEN = "earlier gates took the mass"
WON = "won"


@dataclass(frozen=True)
class LedgerRow:
    """One factor of a probability: what the gate `name` does (`action`), as `factor` and in `nats`."""

    name: str
    action: str
    nats: float
    factor: float


@dataclass(frozen=True)
class LedgerPart:
    """One partition function: rows whose nats add up to `total`, and its `share` of the class."""

    name: str
    rows: tuple[LedgerRow, ...]
    total: float
    share: float


@dataclass(frozen=True)
class Ledger:
    r"""The log-probability of a class as an exact sum.

    .. math:: \log h_i = \sum_{j<i} \log(1 - q_j) + \log q_i

    A class of several parts is entered through its largest part, and one more row holds the factor
    :math:`1 / \text{share}` by which the other parts raise it: the rows always add up to `total`.

    Attributes:
        cls: The label of the class.
        rows: The factors, in the chain's order; iterating over the ledger gives them too.
        total: The log-probability in nats.
        parts: The own ledger of every partition function of the class, as :class:`LedgerPart`.

    Example:
        >>> from punn.trace import GateTrace
        >>> ledger = GateTrace.from_probabilities([[0.25, 0.375, 0.375]], ["a", "b", "c"]).ledger(0, "b")
        >>> print(ledger)
         gate  does     factor    nats
         a     rejects   0.750  -0.288
         b     accepts   0.500  -0.693
         p(b)            0.375  -0.981
        >>> [row.name for row in ledger]
        ['a', 'b']
    """

    cls: Any
    rows: tuple[LedgerRow, ...]
    total: float
    parts: tuple[LedgerPart, ...]

    def __iter__(self) -> Iterator[LedgerRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame with the columns name, action, nats, factor."""
        names = ("name", "action", "nats", "factor")
        columns = {name: [getattr(row, name) for row in self.rows] for name in names}
        frame: pd.DataFrame = import_pandas().DataFrame(columns)
        return frame

    def shortened(self) -> tuple[list[LedgerRow], list[LedgerRow]]:
        """The rows that matter, all of a short ledger, and those that are hidden when it is shown."""
        shown = largest([abs(row.nats) for row in self.rows], [row.action != "rejects" for row in self.rows])
        return [self.rows[i] for i in shown], [row for i, row in enumerate(self.rows) if i not in shown]

    def __str__(self) -> str:
        shown, hidden = self.shortened()
        cells = [["gate", "does", "factor", "nats"]]
        cells += [_ledger_cells(row.name, row.action, row.nats) for row in shown]
        if hidden:
            cells.append(_ledger_cells(f"{len(hidden):,} hidden", "reject", math.fsum(row.nats for row in hidden)))
        cells.append(_ledger_cells(f"p({show(self.cls)})", "", self.total))
        return "\n".join([*columns(cells, "llrr"), *self._part_lines()])

    __repr__ = __str__

    def _part_lines(self) -> list[str]:
        if len(self.parts) == 1:
            return []
        shares = [part.share for part in self.parts]
        shown = largest(shares, longest=5)
        hidden = [share for i, share in enumerate(shares) if i not in shown]
        cells = [["part", "share"]] + [[show(self.parts[i].name), f"{shares[i]:.3f}"] for i in shown]
        if hidden:
            cells.append([f"{len(hidden):,} hidden", f"{math.fsum(hidden):.3f}"])
        return ["", *columns(cells, "lr")]


def build_ledger(
    cls: Any, names: Sequence[str], log_accept: Array, log_reject: Array, positions: Sequence[int]
) -> Ledger:
    """The ledger of the class `cls`, whose functions stand at `positions` of one row's chain of gates."""
    before = [LedgerRow(n, "rejects", float(r), math.exp(r)) for n, r in zip(names, log_reject, strict=False)]
    chains = [(*before[:i], _own_row(names[i], i, log_accept)) for i in positions]
    totals = [math.fsum(row.nats for row in rows) for rows in chains]
    top = max(totals)
    if top == -math.inf:  # no mass to share out, and inf - inf is not a number
        shares, total = [0.0] * len(totals), top
    else:
        weights = [math.exp(t - top) for t in totals]
        shares = [w / math.fsum(weights) for w in weights]
        total = top + math.log(math.fsum(weights))
    parts = tuple(
        LedgerPart(names[i], rows, t, share)
        for i, rows, t, share in zip(positions, chains, totals, shares, strict=True)
    )
    rows = parts[totals.index(top)].rows
    if len(parts) > 1:
        gain = 0.0 if top == -math.inf else total - top
        rows = (*rows, LedgerRow("other parts", "add", gain, math.exp(gain)))
    return Ledger(cls, rows, total, parts)


def _own_row(name: str, i: int, log_accept: Array) -> LedgerRow:
    if i == len(log_accept):
        return LedgerRow(name, "is the rest", 0.0, 1.0)
    return LedgerRow(name, "accepts", float(log_accept[i]), math.exp(log_accept[i]))


def _ledger_cells(name: str, action: str, nats: float) -> list[str]:
    return [show(name), action, f"{math.exp(nats):.3f}", f"{nats:z.3f}"]


@dataclass(frozen=True)
class WhyNot:
    """Why a class did not win, as data; printed, one plain sentence.

    Its probability is `reached * accepted`, and all the other mass is what other classes took before it was
    reached and what its own gate refused: `probability + sum(mass for _, mass in taken) + refused == 1`.
    A class of several parts is reached where its largest part of this row stands.

    Attributes:
        cls: The label of the class, and `winner` that of the predicted class.
        probability: The probability of the class, and `winner_probability` that of the predicted class.
        reached: The mass that other classes left before it was reached.
        accepted: The share of `reached` that it accepted, 1 for the rest. Where nothing reaches it, what it
            would accept; mind that a gate is not trained on rows of classes before it.
        refused: The mass that it left to the classes after it.
        taken: Pairs of label and mass: the classes that took mass before it, largest first.
        cause: "own gate refused" or "earlier gates took the mass", whichever made the probability smaller
            (where nothing reaches the class, its gate is not to blame); or "won".
        parts: How many partition functions the class has.
        rest: Whether its largest function is the rest, which has no gate and takes all that reaches it.
    """

    cls: Any
    winner: Any
    probability: float
    winner_probability: float
    reached: float
    accepted: float
    refused: float
    taken: tuple[tuple[Any, float], ...]
    cause: str
    parts: int = 1
    rest: bool = False

    def __str__(self) -> str:
        subject = _the_class(self.cls)
        if self.cause == WON:
            return f"{subject} won with {percent(self.probability)}: {self._own('')}"
        won = f"; {_the_class(self.winner)} won with {percent(self.winner_probability)}"
        if self.cause == REFUSED:
            return f"{subject} lost because {self._own('only ')}{won}"
        # A winner that took most of the mass has been named already.
        won = "" if self.taken[0][0] == self.winner else won
        it = "it" if self.parts == 1 else "its largest part"
        return f"{subject} lost because {self._takers()} before {it} was reached; {self._own('')}{won}"

    def _own(self, only: str) -> str:
        """What the class did with the mass that reached it."""
        if self.reached < VISIBLE:
            return "nothing was left for it"
        reached = f"of the {percent(self.reached)} that reached it" if self.reached < 0.9995 else "of all the mass"
        if self.rest:
            rest = "it is the rest and" if self.parts == 1 else "its largest part is the rest, so it"
            return f"{rest} takes {percent(1.0)} {reached}"
        own = "its own gate" if self.parts == 1 else f"its {self.parts} parts"
        accepted = percent(self.accepted)
        only = "" if accepted.startswith("less") else only  # one of the two words is enough
        return f"{own} accepted {only}{accepted} {reached}"

    def _takers(self) -> str:
        named, others = self.taken[:3], self.taken[3:]
        if len(others) == 1:  # "1 other" is no shorter than its name
            named, others = self.taken, ()
        # What does not round to a per cent of the mass is no reason, unless nothing else is there.
        named = tuple(pair for i, pair in enumerate(named) if i == 0 or pair[1] >= 0.005)
        names = [show(label) if isinstance(label, str) else _the_class(label) for label, _ in named]
        said = [f"{name} {percent(mass)}" for name, (_, mass) in zip(names, named, strict=True)]
        said[0] = f"{names[0]} took {percent(named[0][1])}"
        mass = math.fsum(mass for _, mass in others)
        if mass >= 0.005:
            said.append(f"{len(others)} other classes {percent(mass)}")
        return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _the_class(label: Any) -> str:
    name = show(label)
    return name if name.lower().startswith("class") else f"class {name}"


def percent(share: float) -> str:
    """A share as a percentage in about two digits.

    Example:
        >>> [percent(p) for p in (1.0, 0.997, 0.98, 0.0234, 0.00013, 1e-9, 0.0)]
        ['100%', '99.7%', '98%', '2.3%', '0.013%', 'less than 0.01%', '0%']
    """
    value = 100.0 * share
    if value < 0.01:
        return "less than 0.01%" if value > 0 else "0%"
    if value < 0.995:
        return f"{value:.2g}%"
    # One decimal where the whole number would read as all or hide a third of the value.
    return f"{value:.1f}%" if value < 9.95 or 99.5 <= value < 99.95 else f"{value:.0f}%"


def largest(mass: Sequence[float] | Array, keep: Sequence[bool] | None = None, longest: int = LONGEST) -> list[int]:
    """Positions to print, in order: all of a short table, else the largest visible ones and those to `keep`.

    Example:
        >>> largest([0.0, 1.0])
        [0, 1]
        >>> largest([0.3, *[0.0] * 50, 0.7])
        [0, 51]
    """
    if len(mass) <= longest:
        return list(range(len(mass)))
    kept = [] if keep is None else [i for i, k in enumerate(keep) if k]
    falling = np.argsort(-np.asarray(mass), kind="stable")[:longest].tolist()
    room = max(longest - len(kept), 0)
    return sorted({*kept, *[i for i in falling if mass[i] >= VISIBLE and i not in kept][:room]})


def show(label: Any, longest: int = 48) -> str:
    """A label fit for a table: one line, and the middle of a very long one left out.

    Example:
        >>> show("a name that goes on and on #12", longest=20)
        'a name t...d on #12'
    """
    text = "".join(c if c.isprintable() else " " for c in str(label))
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def columns(cells: Sequence[Sequence[str]], align: str) -> list[str]:
    """Lines of a table with two blanks between the columns; `align` has an l or r for each column.

    Example:
        >>> columns([["class", "h"], ["a", "0.25"]], "lr")
        [' class     h', ' a      0.25']
    """
    widths = [max(_width(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        pads = [" " * (w - _width(cell)) for cell, w in zip(row, widths, strict=True)]
        parts = [cell + pad if a == "l" else pad + cell for cell, pad, a in zip(row, pads, align, strict=True)]
        lines.append((" " + "  ".join(parts)).rstrip())
    return lines


def _width(text: str) -> int:
    """Cells that a text fills in a terminal: wide characters fill two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def import_pandas() -> Any:
    """Pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a DataFrame needs pandas, which is not installed: pip install punn[table]") from error
    return pandas
