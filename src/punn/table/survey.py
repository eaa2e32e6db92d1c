"""One pass over a table that does not fit into memory: what its columns are, their means and deviations, its classes.

The pass keeps a sample: rows at even distances, and whatever a column has that no earlier row had (its smallest and
largest number, a missing value, a new text). By such a sample `Columns.fit` decides as it would by the whole table;
only medians and frequencies are those of the sample. Means and deviations are those of all rows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.table.cells import is_plain, parse_numbers, position_of, to_numbers, to_text
from punn.table.column import MANY_ROWS, MAX_CATEGORIES, Column
from punn.table.columns import Columns
from punn.table.target import check_classes, labels_of

__all__ = ["Summary", "Survey"]

MOST_FRAMES = 32  # a frame of a few rows takes a hundred times their memory: they are joined now and then

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class Summary:
    """What there is to know of a column: of its numbers in the rows to learn from, or of its texts.

    Example:
        >>> one, two = Summary(), Summary()
        >>> one.add(np.array([1.0, 2.0])), two.add(np.array([np.nan, 6.0]))
        (None, None)
        >>> one.merge(two)
        >>> one.count, one.mean, one.squares, one.missing
        (3, 3.0, 14.0, 1)
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # of the distances from the mean
    missing: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    numeric: bool = True
    rising: bool = True  # whole numbers, each larger than the one before
    last: float = -np.inf

    def add(self, numbers: Floats) -> None:
        """Take some more numbers into account, NaN where they are missing."""
        present = numbers[~np.isnan(numbers)]
        self.missing += len(numbers) - len(present)
        if len(present):
            mean = float(present.mean())
            self._pool(len(present), mean, float(((present - mean) ** 2).sum()))

    def merge(self, other: "Summary") -> None:
        """Take all that another one has seen into account, which comes later in the table."""
        self.missing += other.missing
        self._pool(other.count, other.mean, other.squares)
        self.texts.update(other.texts)
        self.numeric &= other.numeric
        self.rising &= other.rising

    def _pool(self, count: int, mean: float, squares: float) -> None:
        total = self.count + count
        if count:
            apart = mean - self.mean
            self.squares += squares + apart**2 * (self.count * count / total)
            self.mean += apart * count / total
            self.count = total

    def follow(self, numbers: Floats) -> None:
        """Note whether the numbers go on rising."""
        if self.rising:
            steps = np.diff(numbers, prepend=self.last)
            self.rising = bool((steps > 0).all() and (numbers == np.trunc(numbers)).all())
            self.last = float(numbers[-1])


class Survey:
    """What one pass has found; pieces are added one by one.

    Arguments:
        target: The column that is predicted.
        drop: Columns to leave out.
        stride: Every so many rows, one is kept in the sample.

    Attributes:
        rows: Rows with a label. unlabelled: Rows without. classes: How many rows every class has.
        kept: Rows of the table by what they are kept for: the sample under `"sample"`, and what else was asked for.
    """

    def __init__(self, target: str, drop: Iterable[str] = (), stride: int = 1) -> None:
        self.target, self.drop, self.stride = target, [str(name) for name in drop], stride
        self.rows = self.unlabelled = 0
        self.classes: Counter[Any] = Counter()
        self.summaries: dict[str, Summary] = {}
        self.kept: dict[str, list[pd.DataFrame]] = {"sample": []}
        self.news: dict[tuple[str, str], tuple[tuple[float, int], pd.DataFrame]] = {}

    def add(self, frame: pd.DataFrame, kept: dict[str, Mask]) -> None:
        """Take a piece of the table into account.

        Arguments:
            frame: The piece, its index the numbers of its rows.
            kept: Rows to keep for another purpose than learning, by the name of that purpose.
        """
        place = position_of(frame, self.target)
        labelled = frame.iloc[:, place].notna().to_numpy()
        self.unlabelled += int((~labelled).sum())
        frame = frame[labelled]
        if len(frame) == 0:
            return
        self.rows += len(frame)
        labels = labels_of(self.target, frame.iloc[:, place])
        self.classes.update(pd.Series(labels).value_counts().to_dict())
        learned = np.ones(len(frame), bool)
        for purpose, rows in kept.items():
            self._keep(purpose, frame[rows[labelled]])
            learned &= ~rows[labelled]
        numbers = frame.index.to_numpy()
        self._keep("sample", frame[learned & (numbers % self.stride == 0)])
        for name in frame.columns:
            if str(name) not in (self.target, *self.drop):
                self._look(str(name), frame, frame[name], learned)

    def _keep(self, purpose: str, frame: pd.DataFrame) -> None:
        frames = self.kept.setdefault(purpose, [])
        frames.append(frame)
        if len(frames) >= MOST_FRAMES:
            frames[:] = [pd.concat(frames)]

    def _look(self, name: str, frame: pd.DataFrame, series: "pd.Series[Any]", learned: Mask) -> None:
        """One column of a piece."""
        summary = self.summaries.setdefault(name, Summary())
        if is_plain(series):
            numbers = to_numbers(name, series)
            summary.follow(numbers)
            summary.add(numbers[learned])
        else:
            text = to_text(series)
            numbers = parse_numbers(series)
            summary.rising = False
            summary.numeric &= bool((~np.isnan(numbers) | text.isna().to_numpy()).all())
            summary.add(numbers[learned])
            self._count_texts(name, frame, text, learned)
        missing = np.isnan(numbers) if is_plain(series) else text.isna().to_numpy()
        self._note(name, "missing", 1.0 if missing.any() else -np.inf, frame, int(missing.argmax()))
        if not np.isnan(numbers).all():
            for kind, sign in (("lowest", -1.0), ("highest", 1.0)):
                row = int(np.nanargmax(sign * numbers))
                self._note(name, kind, sign * numbers[row], frame, row)

    def _count_texts(self, name: str, frame: pd.DataFrame, text: "pd.Series[Any]", learned: Mask) -> None:
        summary = self.summaries[name]
        if len(summary.texts) > MAX_CATEGORIES:
            return  # free text, or numbers
        summary.texts.update(Counter(text[learned].dropna()))
        for value in text.dropna().unique()[: MAX_CATEGORIES + 1]:
            if (name, f"text {value}") not in self.news:
                self._note(name, f"text {value}", 0.0, frame, int((text == value).to_numpy().argmax()))

    def _note(self, name: str, kind: str, size: float, frame: pd.DataFrame, row: int) -> None:
        """Keep a row in which a column has something that no row before had."""
        # Of rows that are as good the first, in whatever order pieces come.
        worth = (size, -int(frame.index[row]))
        if size > -np.inf and ((name, kind) not in self.news or worth > self.news[name, kind][0]):
            self.news[name, kind] = (worth, frame.iloc[[row]])

    def merge(self, other: "Survey") -> None:
        """Take all that another survey has found into account, of rows that come later in the table."""
        self.rows += other.rows
        self.unlabelled += other.unlabelled
        self.classes.update(other.classes)
        for name, summary in other.summaries.items():
            self.summaries.setdefault(name, Summary()).merge(summary)
        for purpose, frames in other.kept.items():
            self.kept.setdefault(purpose, []).extend(frames)
        for key, (worth, frame) in other.news.items():
            if key not in self.news or worth > self.news[key][0]:
                self.news[key] = (worth, frame)

    def frame(self, purpose: str) -> pd.DataFrame:
        """The rows that were kept for a purpose, in the order of the table."""
        return pd.concat(self.kept[purpose]).sort_index()

    def check(self) -> tuple[str, ...]:
        """Refuse a target that is no column of classes; else what there is to tell."""
        labels, counts = list(self.classes), list(self.classes.values())
        check_classes(self.target, pd.Series(counts, index=labels), self.rows)
        if not self.unlabelled:
            return ()
        everything = self.rows + self.unlabelled
        return (f"{self.target!r} is missing in {self.unlabelled} of {everything} rows; they were dropped.",)

    def columns(self) -> Columns:
        """How the columns become numbers."""
        running = [name for name, summary in self.summaries.items() if summary.rising and self.rows >= MANY_ROWS]
        sample = pd.concat([*self.kept["sample"], *(frame for _, frame in self.news.values())])
        columns = Columns.fit(sample, self.target, [*self.drop, *running])
        notes = [f"{name!r} looks like a running number: dropped." for name in running]
        notes.append(f"What the columns are was found from a sample of {len(sample):,} rows.")
        return Columns(columns.columns, columns.target, (*columns.notes, *notes))

    def scaling(self, columns: Sequence[Column]) -> tuple[Floats, Floats]:
        """Mean and deviation of every feature, over all rows to learn from."""
        features = [pair for column in columns for pair in self._features(column)]
        means, variances = (np.array(values) for values in zip(*features, strict=True))
        return means, np.sqrt(np.maximum(variances, 0.0))

    def _features(self, column: Column) -> list[tuple[float, float]]:
        """Mean and variance of every feature of one column, with missing values filled in."""
        found = self.summaries[column.name]
        rows, missing = found.count + found.missing, found.missing
        features = []
        if column.kind == "category":
            rows = found.texts.total() + (missing := self._without_text(column.name))
            shares = [found.texts[text] + (missing if text == column.fill else 0) for text in column.categories]
            features = [(share / rows, share / rows * (1 - share / rows)) for share in shares]
        elif column.kind == "boolean" and found.texts:
            missing = self._without_text(column.name)
            rows = found.texts.total() + missing
            share = sum(count for text, count in found.texts.items() if text.lower() in ("true", "1")) / rows
            share += missing * float(column.fill) / rows
            features = [(share, share * (1 - share))]
        elif column.kind != "presence":
            fill = float(column.fill)
            mean = (found.count * found.mean + missing * fill) / rows
            squares = found.squares + found.count * (found.mean - mean) ** 2 + missing * (fill - mean) ** 2
            features = [(mean, squares / rows)]
        if column.indicator:
            features.append((missing / rows, missing / rows * (1 - missing / rows)))
        return features

    def _without_text(self, name: str) -> int:
        """Rows to learn from that have no text in a column."""
        found = self.summaries[name]
        return found.count + found.missing - found.texts.total()
