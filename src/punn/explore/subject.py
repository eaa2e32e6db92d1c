"""What is explored: a model, the controls of its row, and the rows that come with it."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from punn.classifier import PUNNClassifier
from punn.explore.picture import Picture, picture_of
from punn.features import as_table, feature_names
from punn.ledger import Array
from punn.network import Standardize
from punn.table import Column, Columns

__all__ = ["Control", "Subject", "subject_of"]

STEPS = 200  # positions of a slider, about


@dataclass(frozen=True)
class Control:
    """What one column is set with: a slider, or a menu of choices.

    Arguments:
        column: The column.
        first: The number of its first feature.
        low: The least value in training. middle: A middle one. high: The largest one.
        choices: What a menu offers, None for a missing value; empty for a slider.
    """

    column: Column
    first: int
    low: float = 0.0
    middle: float = 0.0
    high: float = 1.0
    choices: tuple[str | None, ...] = ()

    @property
    def step(self) -> float:
        """A round step of a slider.

        Example:
            >>> Control(Column("x", "number"), 0, low=4.3, middle=5.8, high=7.9).step
            0.02
        """
        exact = max(self.high - self.low, 1e-9) / STEPS
        power = 10.0 ** math.floor(math.log10(exact))
        return float(f"{next(m for m in (1, 2, 5, 10) if m * power >= exact * 0.9999) * power:.1g}")

    @property
    def start(self) -> float | int | None:
        """Where it stands at first: a middle value, or the most frequent choice."""
        if not self.choices:
            return self.middle
        fill = self.column.fill
        usual = {"boolean": "true" if fill else "false", "presence": "present"}.get(self.column.kind, fill)
        return self.choices.index(str(usual))

    def cell(self, value: Any) -> float | str | None:
        """What stands in the table for a value of the control; a value that cannot be is refused."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if self.choices:
            if not whole or not 0 <= value < len(self.choices):
                raise ValueError(f"{self.column.name!r} has no choice {value!r}")
            choice = self.choices[value]
            return {"true": 1.0, "false": 0.0}[str(choice)] if self._told and choice else choice
        if value is None and self.column.indicator:
            return None
        if not (whole or isinstance(value, float)) or not math.isfinite(value):
            raise ValueError(f"{self.column.name!r}: expected a number, got {value!r}")
        return float(value)

    def value(self, features: Array) -> float | int | None:
        """The value of the control for a row of features, the inverse of what the table does with it."""
        own = features[self.first : self.first + len(self.column.feature_names)]
        missing = self.column.indicator and own[-1] > 0.5
        if not self.choices:
            return None if missing else float(own[0])
        if missing:
            return self.choices.index(None)
        if self._told:
            return int(own[0] < 0.5)
        return 0 if self.column.kind == "presence" else int(np.argmax(own[: len(self.column.categories)]))

    @property
    def _told(self) -> bool:
        return self.column.kind == "boolean"


@dataclass(frozen=True)
class Subject:
    """A model to explore.

    Arguments:
        name: What it is called.
        model: A fitted classifier.
        controls: One for every column of its table, or for every feature.
        columns: How a row of a table becomes features; None if it is features already.
        ranges: Least, middle and largest value of every feature, shape (features, 3).
        guessed: Whether the ranges were guessed, for the model does not know them.
        X: Rows to begin with, as features, or None; y: their labels, or None.
        picture: How the features are pixels, if they are.
        code: The lines of Python that make the model.
        key: Tells this subject from all others.
    """

    name: str
    model: PUNNClassifier
    controls: tuple[Control, ...]
    columns: Columns | None
    ranges: Array
    guessed: bool
    X: pd.DataFrame | None = None
    y: NDArray[Any] | None = None
    picture: Picture | None = None
    code: str = ""
    key: str = field(default_factory=lambda: secrets.token_hex(8))

    def features(self, asked: Any) -> Array:
        """The features of a row that a page asks about, shape (features,).

        Arguments:
            asked: What the browser sends, so that anything may be in it: ``{"cells": [...]}``, one value for every
                control, or ``{"grid": [...]}``, the grey levels of a picture from 0 to 1.

        Raises:
            ValueError: It is not a row of this model.
        """
        if not isinstance(asked, dict):
            raise ValueError("expected a row")
        if self.picture is not None:
            return self.picture.features(asked.get("grid"))
        values = asked.get("cells")
        if not isinstance(values, list) or len(values) != len(self.controls):
            raise ValueError(f"expected a value for each of {len(self.controls)} columns")
        cells = [control.cell(value) for control, value in zip(self.controls, values, strict=True)]
        if self.columns is None or all(not c.choices and not c.column.indicator for c in self.controls):
            return np.array(cells, dtype=np.float64)
        features: Array = self.columns.transform(self.frame(cells))[0]
        return features

    def frame(self, cells: list[Any]) -> pd.DataFrame:
        """One row of the table."""
        return pd.DataFrame(
            {
                control.column.name: pd.Series([cell], dtype=object if isinstance(cell, str | None) else float)
                for control, cell in zip(self.controls, cells, strict=True)
            }
        )

    def asked(self, features: Array) -> dict[str, Any]:
        """What a browser would send for a row of features."""
        if self.picture is not None:
            return {"grid": self.picture.grid(features)}
        return {"cells": [control.value(features) for control in self.controls]}

    def middle(self) -> Array:
        """A row in the middle of the training rows."""
        if self.picture is not None:
            return self.ranges[:, 1]
        return self.features({"cells": [control.start for control in self.controls]})

    def rows(self, features: Array) -> Any:
        """A row of features in the form that the model was fitted with."""
        return as_table(self.model, features[None])

    @property
    def numbers(self) -> list[int]:
        """The controls with sliders, which can span a map."""
        return [i for i, control in enumerate(self.controls) if not control.choices]

    @property
    def fixed(self) -> list[int]:
        """Features that a counterfactual leaves alone: there is nothing between two categories."""
        free = {self.controls[i].first for i in self.numbers}
        return [] if self.picture else [f for f in range(self.model.n_features_in_) if f not in free]


def subject_of(
    name: str,
    model: PUNNClassifier,
    X: pd.DataFrame | None = None,
    y: NDArray[Any] | None = None,
    code: str = "",
) -> Subject:
    """What is there to explore about a model.

    Arguments:
        name: What it is called.
        model: A fitted classifier; one that keeps the columns of a table is set by these.
        X: Rows to begin with, as features.
        y: Their labels.
        code: The lines of Python that make the model.
    """
    columns = None if model.table_ is None else Columns.from_dict(model.table_)
    ranges, guessed = _ranges(model, X)
    picture = picture_of(feature_names(model), ranges)
    controls = () if picture is not None else _controls(model, columns, ranges)
    return Subject(name, model, controls, columns, ranges, guessed, X, y, picture, code)


def _controls(model: PUNNClassifier, columns: Columns | None, ranges: Array) -> tuple[Control, ...]:
    used = [Column(name, "number") for name in feature_names(model)] if columns is None else columns.columns
    controls, first = [], 0
    for column in used:
        if column.kind == "number":
            low, middle, high = ranges[first].tolist()
            controls.append(Control(column, first, low, middle, high))
        else:
            named = {"boolean": ("true", "false"), "presence": ("present",)}.get(column.kind, column.categories)
            controls.append(Control(column, first, choices=(*named, None) if column.indicator else named))
        first += len(column.feature_names)
    return tuple(controls)


def _ranges(model: PUNNClassifier, X: pd.DataFrame | None) -> tuple[Array, bool]:
    """Ranges as the model knows them; of an older file, those of the rows at hand, or of three deviations."""
    if model.ranges_ is not None:
        return model.ranges_, False
    if X is not None:
        return np.percentile(X.to_numpy(dtype=np.float64), [0, 50, 100], axis=0).T, False
    scaling = model.network_.scaling
    if not isinstance(scaling, Standardize):
        return np.tile([-3.0, 0.0, 3.0], (model.n_features_in_, 1)), True
    mean, scale = scaling.mean.cpu().numpy(), scaling.scale.cpu().numpy()
    return np.stack([mean - 3 * scale, mean, mean + 3 * scale], axis=1), True
