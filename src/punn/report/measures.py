"""How good the answers are, with intervals: accuracy, log-loss, calibration, and who is taken for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, sem
from sklearn.metrics import confusion_matrix

from punn.ledger import Array
from punn.report.answers import Answers
from punn.scoring import calibration_error

__all__ = ["calibration_bins", "confused", "confusion", "measures", "share_with_interval"]

BINS = 10
DRAWS = 200  # of a perfectly calibrated model, to see what chance alone does


def measures(answers: Answers, seed: int = 0) -> dict[str, Any] | None:
    """Scores over the rows whose label is known, or None if there are none.

    Arguments:
        answers: The answers.
        seed: Decides the draws that calibration is compared with.
    """
    known = answers.known
    n = int(known.sum())
    if n == 0:
        return None
    hit, sure = (answers.true == answers.winner)[known], answers.confidence[known]
    # A class that gets exactly nothing has an infinite loss; scikit-learn's log_loss stops at the same place.
    loss = -np.maximum(answers.log_true[known], np.log(np.finfo(np.float64).eps))
    half = 1.96 * float(sem(loss)) if n > 1 else None
    counts = np.bincount(answers.true[known])
    rng = np.random.default_rng(seed)
    chance = [calibration_error(rng.random(n) < sure, sure, BINS) for _ in range(DRAWS)]
    return {
        "rows": n,
        "accuracy": share_with_interval(int(hit.sum()), n),
        "majority": {"class": int(counts.argmax()), "share": float(counts.max() / n)},
        "log_loss": {"value": float(loss.mean()), "half": half},
        "calibration_error": calibration_error(hit, sure, BINS),
        "calibration_chance": np.quantile(chance, [0.025, 0.975]).tolist(),
        "bins": calibration_bins(hit, sure),
    }


def share_with_interval(hits: int, n: int) -> dict[str, float]:
    """A share and Wilson's 95% interval.

    Example:
        >>> {name: round(value, 3) for name, value in share_with_interval(9, 10).items()}
        {'value': 0.9, 'low': 0.596, 'high': 0.982}
    """
    low, high = binomtest(hits, n).proportion_ci(method="wilson")
    return {"value": hits / n, "low": float(low), "high": float(high)}


def calibration_bins(hit: NDArray[np.bool_], confidence: Array, bins: int = BINS) -> list[dict[str, float]]:
    """Accuracy with its interval beside mean confidence, for bins of equal width that hold rows.

    Example:
        >>> calibration_bins(np.array([True, False]), np.array([0.95, 0.97]))[0]["confidence"]
        0.96
    """
    index = np.clip((confidence * bins).astype(int), 0, bins - 1)
    found = []
    for b in np.unique(index).tolist():
        mine = index == b
        share = share_with_interval(int(hit[mine].sum()), int(mine.sum()))
        found.append({"confidence": float(confidence[mine].mean()), "rows": int(mine.sum()), **share})
    return found


def confusion(answers: Answers, order: list[int]) -> NDArray[np.int64]:
    """Rows by true class (down) and predicted class (across), both in the chain's order, shape (C, C)."""
    known = answers.known
    if len(order) == 1 or not known.any():  # of which scikit-learn warns
        return np.full((len(order), len(order)), known.sum(), dtype=np.int64)
    return np.asarray(confusion_matrix(answers.true[known], answers.winner[known], labels=order))


def confused(counts: NDArray[np.int64], order: list[int], most: int = 6) -> list[dict[str, float]]:
    """The pairs of classes that are confused most often.

    Example:
        >>> confused(np.array([[5, 2], [0, 7]]), [1, 0])
        [{'true': 1, 'predicted': 0, 'rows': 2, 'share': 0.2857142857142857}]
    """
    off = np.where(np.eye(len(order), dtype=bool), 0, counts)
    pairs = [divmod(int(i), len(order)) for i in np.argsort(-off, axis=None, kind="stable")[:most]]
    return [
        {"true": order[i], "predicted": order[j], "rows": int(off[i, j]), "share": float(off[i, j] / counts[i].sum())}
        for i, j in pairs
        if off[i, j]
    ]
