"""How good a classifier is, next to what is easily had: the majority class and a logistic regression.

Everything is measured on rows that were not learned from: a held-out share, or the folds of a cross-validation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

__all__ = ["BASELINES", "Scores", "baselines", "calibration_error", "cross_scores", "hold_out", "scores"]

Rows = NDArray[np.intp]

#: What every model is compared with, by the name that tables show.
BASELINES: dict[str, Callable[[], Any]] = {
    "majority class": lambda: DummyClassifier(strategy="prior"),
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}


class Scores(NamedTuple):
    """Accuracy (more is better), log-loss in nats and calibration error (less is better)."""

    accuracy: float
    log_loss: float
    calibration_error: float


def calibration_error(hit: ArrayLike, confidence: ArrayLike, bins: int = 10) -> float:
    r"""Expected calibration error: how far confidence and accuracy lie apart.

    Predictions are put into bins of equal width by their confidence, the probability of the predicted class.

    .. math:: \sum_b \frac{n_b}{n} \, | \text{accuracy}_b - \text{confidence}_b |

    Arguments:
        hit: Whether every prediction was right, shape :math:`(n,)`.
        confidence: Its probability, shape :math:`(n,)`.
        bins: The number of bins.

    Example:
        >>> round(calibration_error(hit=[1, 1, 1, 0], confidence=[0.95, 0.95, 0.55, 0.55]), 3)
        0.05
    """
    right, sure = np.asarray(hit, float), np.asarray(confidence, float)
    index = np.clip((sure * bins).astype(int), 0, bins - 1)
    gaps = np.bincount(index, right - sure, bins)
    return float(np.abs(gaps).sum() / len(right))


def scores(model: Any, X: Any, y: NDArray[Any]) -> Scores:
    """The scores of a fitted classifier on rows that it has not seen.

    Arguments:
        model: Any scikit-learn classifier with probabilities.
        X: Features, shape :math:`(n, features)`.
        y: The true labels, shape :math:`(n,)`; none that the model does not know.

    Example:
        >>> X, y = np.zeros((4, 1)), np.array(["a", "a", "a", "b"])
        >>> scores(BASELINES["majority class"]().fit(X, y), X, y)
        Scores(accuracy=0.75, log_loss=0.5623351446188083, calibration_error=0.0)
    """
    p = model.predict_proba(X)
    predicted = model.classes_[p.argmax(1)]
    return Scores(
        float(accuracy_score(y, predicted)),
        float(log_loss(y, p, labels=model.classes_)),
        calibration_error(predicted == y, p.max(1)),
    )


def hold_out(y: NDArray[Any], share: float, seed: int) -> tuple[Rows, Rows]:
    """Numbers of rows to learn from and to judge by, the classes in the same shares in both.

    A class with a single row stays where it is learned from. Where there are too few rows, none is held out.

    Arguments:
        y: The labels, shape :math:`(n,)`.
        share: The share to hold out, from 0 to below 1.
        seed: The same seed gives the same rows.

    Example:
        >>> kept, held = hold_out(np.array(["a", "b"] * 10), share=0.2, seed=0)
        >>> len(kept), len(held)
        (16, 4)
    """
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[codes] > 1)
    held = max(round(share * len(y)), int((counts > 1).sum()))
    if share <= 0 or not 0 < held <= len(several) - int((counts > 1).sum()):
        return np.arange(len(y)), np.arange(0)
    _, out = train_test_split(several, test_size=held, stratify=codes[several], random_state=seed)
    kept = np.ones(len(y), bool)
    kept[out] = False
    return np.flatnonzero(kept), np.sort(out)


def cross_scores(model: Any, X: Any, y: NDArray[Any], folds: int, seed: int) -> Iterator[dict[str, Scores]]:
    """The scores of a model and of the baselines, fold by fold.

    Arguments:
        model: A classifier, which itself stays as it is.
        X: Features, a data frame or an array, shape :math:`(n, features)`.
        y: Labels, shape :math:`(n,)`.
        folds: How many.
        seed: Decides the folds.

    Example:
        >>> X, y = np.arange(20.0)[:, None], np.arange(20) > 9
        >>> for fold in cross_scores(BASELINES["logistic regression"](), X, y, folds=2, seed=0):
        ...     print(fold["majority class"].accuracy, fold["model"].accuracy)
        0.5 1.0
        0.5 1.0
    """
    labels, counts = np.unique(y, return_counts=True)
    if counts.min() < folds:
        few, count = labels[counts.argmin()], counts.min()
        raise ValueError(
            f"{folds} folds need at least {folds} rows of every class, got {count} of {few!r}; "
            f"take {max(2, count)} folds or fewer, or leave out classes with so few rows"
        )
    for kept, held in StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y):
        inside, outside = _safe_indexing(X, kept), _safe_indexing(X, held)
        fitted = clone(model).fit(inside, y[kept])
        yield baselines(inside, y[kept], outside, y[held]) | {"model": scores(fitted, outside, y[held])}


def baselines(X: Any, y: NDArray[Any], X_held: Any, y_held: NDArray[Any]) -> dict[str, Scores]:
    """The scores of everything in `BASELINES`, learned from X and judged by the held-out rows."""
    found = {}
    for name, make in BASELINES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a baseline that has not quite converged is one still
            found[name] = scores(make().fit(X, y), X_held, y_held)
    return found
