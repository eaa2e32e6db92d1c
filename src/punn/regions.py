"""What every partition function is: its shape in the user's units, and the rows it covers.

The *coverage* counts rows by their largest function; it is taken over the training rows when a model is fitted.
:class:`Regions` joins it with the outlines of shapes, and prints as a card per class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from punn.geometry import Outline, family_of, kind_of, outline_of, units_of
from punn.ledger import Array, columns, import_pandas, percent, show
from punn.network import PUNN
from punn.partition import log_class_sums, log_partition
from punn.trace import GateTrace
from punn.trace_input import check_y, class_index, positions_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Coverage", "Region", "Regions", "build_regions", "class_codes", "coverage_of", "edge_sentence"]

DEAD = 0.01  # a function that never takes more of a row than this is dead
FEATURES = 8  # features of a shape that a card shows
PARTS = 4  # parts of a class that a card shows with their shapes
LINES = 8  # parts of a class that a card lists
CLASSES = 30  # cards that are printed


class Coverage(NamedTuple):
    """Which rows every function covers: those in which no other function is larger.

    Attributes:
        rows: How many rows it covers, shape (k,).
        own: How many of these are of its own class, shape (k,).
        right: How many of these are predicted rightly, shape (k,).
        mass: Its mean over all rows, shape (k,).
        peak: Its largest value in any row, shape (k,).
        of_class: How many rows of every class there are, shape (C,).
    """

    rows: NDArray[np.int64]
    own: NDArray[np.int64]
    right: NDArray[np.int64]
    mass: Array
    peak: Array
    of_class: NDArray[np.int64]


@torch.inference_mode()
def coverage_of(network: PUNN, arguments: Iterable[Tensor], y: Tensor) -> tuple[Coverage, NDArray[np.int64]]:
    """The coverage of some rows, and the number of the function that covers each of them.

    Arguments:
        network: The network.
        arguments: The rows' gate arguments in pieces, each (n, k - 1) in double precision.
        y: The index of every row's class, shape (n,).
    """
    k, classes = network.functions, network.classes
    rows, own, right = (torch.zeros(k, dtype=torch.int64) for _ in range(3))
    class_of = network.class_of.cpu()
    mass, peak, covering, first = torch.zeros(k).double(), torch.zeros(k).double(), [], 0
    for theta in arguments:
        log_h = log_partition(*network.activation(theta))
        largest, true = log_h.argmax(-1).cpu(), y[first : first + len(theta)].cpu()
        hits = (log_class_sums(log_h, network.class_of, classes).argmax(-1).cpu() == true).long()
        for count, counted in ((rows, torch.ones_like(hits)), (own, (class_of[largest] == true).long()), (right, hits)):
            count.index_add_(0, largest, counted)
        h = log_h.exp().cpu().double()
        mass, peak = mass + h.sum(0), peak.maximum(h.amax(0))
        covering.append(largest.numpy())
        first += len(theta)
    of_class = torch.bincount(y.cpu(), minlength=classes)
    numbers = (rows, own, right, mass / first, peak, of_class)
    return Coverage(*(number.numpy() for number in numbers)), np.concatenate(covering)


def class_codes(y: ArrayLike, classes: NDArray[Any]) -> Tensor:
    """The index of every label among the classes, or an error that names a label that is none of them."""
    labels = np.asarray(y)
    return torch.from_numpy(check_y(labels, classes, len(labels)).astype(np.int64))


@dataclass(frozen=True)
class Region:
    """One partition function.

    Attributes:
        name: "setosa", or "setosa #2" if its class has several parts; `cls` is the label of the class.
        position: Its place in the chain, from 0.
        kind: "ball", "ellipsoid", "shell", "star" (a shell without a hole), "network", "shared network" or "rest".
        activation: The name of its gate's activation, or None for the rest.
        outline: The boundary of a shape in the user's units, else None: see :class:`~punn.geometry.Outline`.
        rows: How many rows it covers, that is in which it is the largest function; None if no rows are known.
        share: Those rows as a share of all.
        share_of_class: The rows of its own class that it covers, as a share of that class.
        accuracy: The share of the rows it covers that is predicted rightly; None if it covers none.
        mass: Its mean over all rows.
        peak: Its largest value in any row.
        dead: It takes less than 1% of every row.
    """

    name: str
    cls: Any
    position: int
    kind: str
    activation: str | None
    outline: Outline | None = None
    rows: int | None = None
    share: float | None = None
    share_of_class: float | None = None
    accuracy: float | None = None
    mass: float | None = None
    peak: float | None = None
    dead: bool | None = None


class Regions(Sequence[Region]):
    """All partition functions in the chain's order: what they are, and which rows they cover.

    Made by :meth:`punn.PUNNClassifier.regions`. Prints as a card per class.

    Attributes:
        classes: The labels. features: The features' names.
        coverage: Counts by function, or None: see :class:`Coverage`.
        function: The number of the function that covers every row, for rows that were given; else None.
        training: Whether the coverage is that of the training rows.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from punn import PUNNClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> regions = PUNNClassifier("ball", restarts=1, epochs=60, random_state=0).fit(X, y).regions()
        >>> regions[0].kind, regions[0].accuracy, [region.name for region in regions.of(2)]
        ('ball', 1.0, ['2'])
    """

    def __init__(
        self,
        regions: Sequence[Region],
        classes: NDArray[Any],
        features: Sequence[str],
        scale: Array,
        coverage: Coverage | None,
        function: NDArray[np.int64] | None = None,
    ) -> None:
        self._regions = tuple(regions)
        self.classes, self.features, self.scale = classes, tuple(features), scale
        self.coverage, self.function = coverage, function
        self.training = function is None

    def __len__(self) -> int:
        return len(self._regions)

    def __getitem__(self, position: Any) -> Any:
        return self._regions[position]

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def of(self, cls: Any) -> tuple[Region, ...]:
        """The functions of one class."""
        label = self.classes.tolist()[class_index(cls, positions_of(self.classes))]
        return tuple(region for region in self if region.cls == label)

    @property
    def dead(self) -> tuple[Region, ...]:
        """The functions that take less than 1% of every row."""
        return tuple(region for region in self if region.dead)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; infinite numbers become None."""
        rows = None if self.coverage is None else self.coverage.of_class.tolist()
        return {
            "features": list(self.features),
            "classes": self.classes.tolist(),
            "rows_of_classes": rows,
            "functions": [_plain(asdict(region)) for region in self],
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for every function; shapes have the columns "center", "low" and "high" of every feature."""
        records = []
        for region in self:
            record = {key: value for key, value in vars(region).items() if key != "outline"}
            outline = region.outline
            record["sharpness"] = None if outline is None else outline.sharpness
            if outline is not None:
                values = {"center": outline.center, "low": outline.outer[:, 0], "high": outline.outer[:, 1]}
                for what, numbers in values.items():
                    record |= {f"{what} {name}": v for name, v in zip(self.features, numbers, strict=True)}
            records.append(record)
        frame: pd.DataFrame = import_pandas().DataFrame.from_records(records)
        return frame.rename(columns={"name": "function", "cls": "class"})

    def __str__(self) -> str:
        lines = [self._headline()]
        shown = list(dict.fromkeys(region.cls for region in self))
        for cls in shown[:CLASSES]:
            lines += ["", *self._card(self.of(cls))]
        if len(shown) > CLASSES:
            lines += ["", f" ... {len(shown) - CLASSES:,} more classes; .of(cls) and .to_frame() have them all"]
        return "\n".join(lines)

    __repr__ = __str__

    def _headline(self) -> str:
        text = f" {len(self.classes):,} classes, {len(self):,} functions"
        if self.coverage is None:
            return text + "; no training rows are known, regions(X, y) counts those of a table"
        rows = f"{int(self.coverage.rows.sum()):,} {'training rows' if self.training else 'rows'}"
        return f"{text}; counted over {rows}, {_count(len(self.dead), 'dead function')}"

    def _card(self, parts: tuple[Region, ...]) -> list[str]:
        label = show(parts[0].cls)
        if len(parts) == 1:
            return [f" {label}: {self.sentence(parts[0])}", *self._shape(parts[0])]
        lines = [f" {label}: {len(parts)} parts"]
        few = len(parts) <= PARTS
        # Of many parts, those that cover rows are worth a line.
        top = parts if few else sorted(parts, key=lambda part: -(part.rows or 0))[:LINES]
        shown = [part for part in parts if few or (part in top and (part.rows or self.coverage is None))]
        for part in shown:
            lines.append(f"   {show(part.name)}: {self.sentence(part)}")
            lines += [f"  {line}" for line in self._shape(part)] if few else []
        hidden = [part for part in parts if part not in shown]
        if hidden and self.coverage is None:
            lines.append(f"   ... {len(hidden):,} more parts")
        elif hidden:
            covered = sum(part.rows or 0 for part in hidden)
            dead = sum(bool(part.dead) for part in hidden)
            lines.append(
                f"   ... {_count(len(hidden), 'more part')} covering {_count(covered, 'row')}, {dead} of them dead"
            )
        return lines

    def sentence(self, region: Region) -> str:
        """The sort of a function and what it covers, in half a line."""
        if region.kind == "rest":
            text = "the rest, what no gate takes"
        else:
            text = f"gate {region.position + 1} of {len(self) - 1}, {region.kind}, {region.activation}"
        if self.coverage is None:
            return text
        if region.dead:
            return f"{text}; dead, it takes less than 1% of every row"
        if not region.rows:
            return f"{text}; the largest function of no row, at most {percent(region.peak or 0.0)} of one"
        right = percent(region.accuracy or 0.0)
        return f"{text}; covers {_count(region.rows, 'row')} ({percent(region.share or 0.0)}), {right} right"

    def shape_cells(self, region: Region) -> list[list[str]]:
        """Center and extent of a shape as a table with a heading; none for networks and the rest.

        The features in which the region is narrow, as features go, say most about it: of many they are shown.
        """
        outline = region.outline
        if outline is None:
            return []
        head = ["feature", "center", "from", "to"] + ([] if outline.inner is None else ["hole from", "to"])
        width = (outline.outer[:, 1] - outline.outer[:, 0]) / self.scale
        cells = [head]
        for f in sorted(np.argsort(width.round(9), kind="stable")[:FEATURES].tolist()):
            numbers = [outline.center[f], *outline.outer[f], *([] if outline.inner is None else outline.inner[f])]
            cells.append([show(self.features[f], 32), *_numbers(numbers, self.scale[f])])
        return cells

    def _shape(self, region: Region) -> list[str]:
        outline, cells = region.outline, self.shape_cells(region)
        if outline is None:
            return []
        lines = [f"  {line}" for line in columns(cells, "l" + "r" * (len(cells[0]) - 1))]
        if len(cells) <= len(self.features):
            more = len(self.features) - len(cells) + 1
            lines.append(f"   ... {more:,} more features, in which it is wider or as wide")
        return [*lines, *self._axes(outline), f"   {edge_sentence(outline)}"]

    def _axes(self, outline: Outline) -> list[str]:
        if outline.axes is None or outline.semi_axes is None:
            return []
        lines = ["   turned; its semi-axes, in the units of the features:"]
        for length, axis in list(zip(outline.semi_axes, outline.axes, strict=True))[:FEATURES]:
            main = np.argsort(-np.abs(axis * length / self.scale), kind="stable")[:3].tolist()
            ends = ", ".join(f"{show(self.features[f], 32)} {axis[f] * length:+.3g}" for f in sorted(main))
            lines.append(f"     {ends}")
        return lines


def build_regions(
    network: PUNN,
    classes: NDArray[Any],
    features: Sequence[str],
    coverage: Coverage | None,
    function: NDArray[np.int64] | None = None,
) -> Regions:
    """The regions of a network, with the coverage of some rows."""
    class_of = network.class_of.cpu().numpy()
    none = np.empty((0, network.functions - 1))
    names, labels = GateTrace(none, none, class_of, classes).names, classes.tolist()
    regions = []
    for i, name in enumerate(names):
        rest = i == len(names) - 1
        activation: Any = None if rest else network.activation.names[i]
        regions.append(
            Region(
                name=name,
                cls=labels[class_of[i]],
                position=i,
                kind="rest" if rest else kind_of(family_of(network.gates, i)[0]),
                activation=getattr(activation, "__name__", activation),
                outline=None if rest else outline_of(network, i),
                **({} if coverage is None else _counts(coverage, i, int(class_of[i]))),
            )
        )
    return Regions(regions, classes, features, units_of(network, len(features))[1], coverage, function)


def _counts(coverage: Coverage, i: int, c: int) -> dict[str, Any]:
    rows, of_class = int(coverage.rows[i]), int(coverage.of_class[c])
    return {
        "rows": rows,
        "share": rows / max(int(coverage.rows.sum()), 1),
        "share_of_class": int(coverage.own[i]) / of_class if of_class else None,
        "accuracy": int(coverage.right[i]) / rows if rows else None,
        "mass": float(coverage.mass[i]),
        "peak": float(coverage.peak[i]),
        "dead": bool(coverage.peak[i] < DEAD),
    }


def edge_sentence(outline: Outline) -> str:
    """How soft the boundary of a shape is."""
    if not np.isfinite(outline.edge):
        return "it accepts a half there; outside it never closes"
    return f"it accepts a half on this boundary, 10% at {outline.edge:.3g} times the distance from the center"


def _count(number: int, what: str) -> str:
    return f"{f'{number:,}' if number else 'no'} {what}{'' if number == 1 else 's'}"


def _numbers(values: Sequence[float], scale: float) -> list[str]:
    """Numbers of one feature with the decimals that its scale asks for: three digits of it."""
    decimals = 2 - math.floor(math.log10(scale))
    if not 0 <= decimals <= 6 or max(abs(value) for value in values) >= 1e7:
        return [f"{value:.4g}" for value in values]
    return [f"{value:z.{decimals}f}" for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
