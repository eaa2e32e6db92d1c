"""Tables that are made up: small and large, narrow and wide, imbalanced, with useless columns.

Every table is drawn from a known rule, so that a comparison can be had on as many as one likes, none of them
looked at while the defaults were chosen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.datasets import make_blobs, make_classification

Table = tuple[np.ndarray, np.ndarray]


def petals() -> Table:
    """150 rows, 4 columns, 3 classes: overlapping clouds."""
    return make_blobs(150, 4, centers=3, cluster_std=2.5, center_box=(-4, 4), random_state=7)[:2]


def sparse_line() -> Table:
    """250 rows, 60 columns of which 5 count, 2 classes: a noisy plane."""
    rng = np.random.RandomState(11)
    X = rng.randn(250, 60)
    return X, (X[:, :5] @ [1.5, -1.0, 1.0, -0.7, 0.5] + rng.logistic(size=250) > 0).astype(int)


def rare_ring() -> Table:
    """600 rows, 10 columns of which 2 count, 2 classes, 1 to 7: a class around the other."""
    rng = np.random.RandomState(13)
    X = rng.randn(600, 10)
    return X, (np.hypot(X[:, 0], X[:, 1]) + 0.2 * rng.randn(600) > 2.0).astype(int)


def clusters() -> Table:
    """1,500 rows, 16 columns, 6 classes of two clusters each."""
    return make_classification(1500, 16, n_informative=8, n_redundant=4, n_classes=6, class_sep=1.5, random_state=17)


def wide() -> Table:
    """3,000 rows, 200 columns of which 25 count, 4 classes."""
    return make_classification(3000, 200, n_informative=15, n_redundant=10, n_classes=4, random_state=19)


def letters() -> Table:
    """8,000 rows, 16 columns of whole numbers, 26 classes, each in three styles."""
    rng = np.random.RandomState(23)
    style = rng.randint(78, size=8000)
    centers = rng.uniform(2, 13, (26, 16)).repeat(3, 0) + rng.randn(78, 16) * 1.5
    return np.clip(np.round(centers[style] + 2.0 * rng.randn(8000, 16)), 0, 15), style // 3


def forest() -> Table:
    """20,000 rows, 54 columns (10 skewed, 44 yes or no), 7 classes from 39% to 0.4%, told apart by trees."""
    rng = np.random.RandomState(29)
    X = np.hstack([np.exp(0.7 * rng.randn(20_000, 10)), rng.rand(20_000, 44) < rng.uniform(0.02, 0.5, 44)])
    score = np.zeros((20_000, 7))
    for _ in range(40):
        leaf = np.zeros(20_000, int)
        for column in rng.randint(0, 20, 3):  # the other 34 columns are useless
            leaf = 2 * leaf + (X[:, column] > rng.choice(X[:, column]))
        score += rng.randn(8, 7)[leaf]
    score += np.linspace(4, -4, 7) + 0.5 * rng.gumbel(size=score.shape)
    return X, score.argmax(1)


def waves() -> Table:
    """50,000 rows, 30 columns of which 8 count, 2 classes, 1 to 9: products and waves, with noise."""
    rng = np.random.RandomState(31)
    X = rng.rand(50_000, 30)
    z = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    z += 6 * np.cos(7 * X[:, 5]) * X[:, 6] + 4 * X[:, 7] + 1.5 * rng.randn(50_000)
    return X, (z > np.quantile(z, 0.9)).astype(int)


TABLES: dict[str, Callable[[], Table]] = {
    table.__name__: table for table in (petals, sparse_line, rare_ring, clusters, wide, letters, forest, waves)
}


def make(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = TABLES[name]()
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]), y
