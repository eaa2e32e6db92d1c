"""The rows that can be looked at on the page: their values or image, the answer, and its explanation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from punn.features import as_table, feature_names
from punn.ledger import Array, show
from punn.report.answers import Answers
from punn.report.choice import Choice
from punn.report.explanations import explained
from punn.report.images import Layout, packed

__all__ = ["Table", "shown_rows"]

BYTES = 1_500_000  # of all rows together
COLUMNS = 200  # columns of a row that are shown
LISTED = 2  # of them in the list of rows


@dataclass(frozen=True)
class Table:
    """The rows as the user knows them, and as numbers.

    Attributes:
        names: The names of the columns. frame: A table with these columns, or None for the numbers themselves.
        numbers: What the model takes, shape (n, features).
        parts: The column that every feature is made of, shape (features,).
    """

    names: list[str]
    frame: Any
    numbers: Array
    parts: NDArray[np.intp]

    @classmethod
    def of(cls, model: Any, numbers: Array, table: Any) -> Table:
        """All columns but the target of a table such as the model was trained on, or else the features."""
        features = feature_names(model)
        schema = getattr(model, "table_", None)
        if schema is None or not hasattr(table, "columns") or list(table.columns) == features:
            return cls(features, None, numbers, np.arange(len(features)))
        from punn.table import Columns

        names = [str(name) for name in table.columns if str(name) != schema["target"]]
        frame = table.loc[:, [str(name) != schema["target"] for name in table.columns]]
        places = {name: place for place, name in enumerate(names)}
        columns = Columns.from_dict(schema).columns
        parts = [places.get(column.name, -1) for column in columns for _ in column.feature_names]
        return cls(names, frame, numbers, np.array(parts))

    def texts(self, row: int) -> list[str]:
        """The values of one row."""
        if self.frame is None:
            return [_text(value) for value in self.numbers[row, :COLUMNS].tolist()]
        return [_text(self.frame.iat[row, place]) for place in range(min(len(self.names), COLUMNS))]

    def pixels(self, layout: Layout, rows: NDArray[np.intp]) -> Array:
        """The values of the pixels of some rows, shape (rows, pixels)."""
        if self.frame is None:
            return self.numbers[rows][:, layout.columns]
        values = self.frame.iloc[rows, layout.columns].to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(np.nan_to_num(values))

    def listed(self, moved: Array | None) -> list[int]:
        """The columns that say most about a row, by the influence of their features."""
        if moved is None:
            return []
        known = (self.parts >= 0) & (self.parts < COLUMNS)
        total = np.bincount(self.parts[known], moved[known], len(self.names))
        return [int(place) for place in np.argsort(-total, kind="stable")[:LISTED]]


def shown_rows(
    model: Any, table: Table, answers: Answers, choice: Choice, layout: Layout | None, moved: Array | None
) -> dict[str, Any]:
    """As many of the chosen rows as a page can hold, sorted by their numbers.

    Arguments:
        model: The classifier.
        table: The rows.
        answers: The answers to all rows.
        choice: Which rows to show, the most wanted first.
        layout: How pixels stand in an image, if rows are images: then they are shown instead of values.
        moved: The influence of every feature.
    """
    wanted = np.array(choice.rows)
    trace = model.trace(as_table(model, table.numbers[wanted]))
    images = None if layout is None else packed(layout, table.pixels(layout, wanted))
    entries: list[dict[str, Any]] = []
    used = 0
    for place, row in enumerate(wanted.tolist()):
        entry = {
            "row": row,
            "true": int(answers.true[row]),
            "winner": int(answers.winner[row]),
            "p": round(float(answers.confidence[row]), 6),
            "lead": round(float(answers.margin[row]), 6),
            **explained(trace, place, int(answers.true[row])),
        }
        entry |= {"values": table.texts(row)} if images is None else {"image": images[place]}
        used += len(json.dumps(entry))
        if used > BYTES and entries:
            break
        entries.append(entry)
    return {
        "columns": [] if images is not None else [show(name, 60) for name in table.names[:COLUMNS]],
        "hidden_columns": 0 if images is not None else max(len(table.names) - COLUMNS, 0),
        "listed": table.listed(moved),
        "image": None if layout is None else [layout.height, layout.width, layout.channels],
        "rows": sorted(entries, key=lambda entry: entry["row"]),
    }


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return "" if value is None or str(value) in ("<NA>", "NaT") else show(value, 60)
