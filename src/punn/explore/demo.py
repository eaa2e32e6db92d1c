"""A small model of MNIST, trained while one waits, so that there is something to draw on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from punn.classifier import PUNNClassifier
from punn.datasets import mnist
from punn.explore.subject import Subject, subject_of

__all__ = ["NAME", "mnist_demo"]

NAME = "mnist-demo"
TRAINED, SHOWN = 12_000, 500  # rows
CODE = """\
import pandas as pd

from punn import PUNNClassifier
from punn.datasets import mnist

X_train, y_train, X_test, y_test = mnist()
model = PUNNClassifier(gates="shared", hidden=(128,), epochs=6, random_state=0)
model.fit(X_train[:{rows}].reshape(-1, 784).astype("float32"), y_train[:{rows}].astype(int))
"""


def mnist_demo(verbose: bool = False) -> Subject:
    """Train on some of MNIST's digits, which must be there: see :func:`punn.datasets.mnist`."""
    X_train, y_train, X_test, y_test = mnist()
    model = PUNNClassifier(gates="shared", hidden=(128,), epochs=6, random_state=0, verbose=verbose)
    model.fit(_flat(X_train[:TRAINED]), y_train[:TRAINED].astype(int))
    model.set_params(verbose=False)
    rows, labels = _flat(X_test), y_test.astype(int)
    hits = float((model.predict(rows) == labels).mean())
    model.summary_ = {
        "table": "MNIST",
        "rows": {"train": min(TRAINED, len(y_train)), "test": len(labels)},
        "scores": {"model": {"accuracy": hits}},
    }
    shown = pd.DataFrame(rows[:SHOWN])
    return subject_of(NAME, model, shown, labels[:SHOWN], CODE.format(rows=TRAINED).rstrip())


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32)
