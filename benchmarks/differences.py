"""How an answer can be told again from its explanation: a PUNN beside a softmax MLP, an EBM, a soft tree and TabNet.

    pip install interpret-core neural-trees pytorch-tabnet
    python -m benchmarks.differences            # prints the table
    python -m benchmarks.differences --write    # and puts it into README.md

All see the same five folds of iris, scaled alike. Each explains every held-out flower by its own means, and from that
explanation alone the probability of its answer is formed again. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from punn import PUNNClassifier

README = Path(__file__).parents[1] / "README.md"
MARKS = "<!-- by `python -m benchmarks.differences --write` -->\n\n", "\n<!-- end -->\n"
HEADER = ["", "an explanation is", "its probability is off by", "learned numbers", "accuracy", "log-loss"]


class Punn:
    """Ellipsoids: a product of gates."""

    explanation = "the gates, multiplied"

    def fit(self, X, y):
        self.model = PUNNClassifier("ellipsoid", random_state=0).fit(X, y)
        return self.model, self.model.n_parameters_

    def told(self, X):
        q = self.model.trace(X).gates
        passed = np.cumprod(1 - q, axis=1)
        return np.column_stack([q[:, 0], q[:, 1] * passed[:, 0], passed[:, 1]])


class Softmax:
    """A network with two hidden layers: its logits are all there is, and they explain nothing."""

    explanation = "none of its own"

    def fit(self, X, y):
        model = MLPClassifier((32, 32), max_iter=1000, random_state=0).fit(X, y)
        return model, sum(w.size for w in [*model.coefs_, *model.intercepts_])

    told = None


class Boosting:
    """Curves that are added; without pairs, as its authors advise for more than two classes."""

    explanation = "a curve per feature, added, then softmax"

    def fit(self, X, y):
        from interpret.glassbox import ExplainableBoostingClassifier

        self.model = ExplainableBoostingClassifier(interactions=0, n_jobs=1, random_state=0).fit(X, y)
        return self.model, sum(scores.size for scores in self.model.term_scores_) + self.model.intercept_.size

    def told(self, X):
        found = self.model.explain_local(X)
        curves = np.array([found.data(i)["scores"] for i in range(len(X))])
        return softmax(curves.sum(axis=1) + self.model.intercept_, axis=1)


class SoftTree:
    """A tree of soft gates: it shows the path to the leaf that most of the row reaches."""

    explanation = "the path to the heaviest leaf"

    def fit(self, X, y):
        from neural_trees import SoftDecisionTree

        self.model = SoftDecisionTree(random_state=0).fit(X, y)
        return self.model, sum(w.numel() for w in self.model.model_.parameters())

    def told(self, X):
        found = self.model.explain(X, counterfactual=False)
        leaves = [list(one.leaf_distribution.values()) for one in found]
        return np.array(leaves) * np.array([[one.leaf_probability] for one in found])


class TabNet:
    """Attention over features. Its default batch of 1,024 rows would drop all of a table of 120."""

    explanation = "a weight per feature, no probability"

    def fit(self, X, y):
        from pytorch_tabnet.tab_model import TabNetClassifier

        model = TabNetClassifier(seed=0, verbose=0)
        model.fit(X, y, batch_size=32, virtual_batch_size=32)
        return model, sum(w.numel() for w in model.network.parameters())

    told = None


MODELS: dict[str, Callable[[], Any]] = {
    "PUNN, ellipsoids": Punn,
    "softmax MLP (scikit-learn)": Softmax,
    "EBM (interpret)": Boosting,
    "soft tree (neural-trees)": SoftTree,
    "TabNet (pytorch-tabnet)": TabNet,
}


def measure(build: Callable[[], Any]) -> dict[str, Any]:
    """Accuracy and log-loss over all folds, the size of a model, and how far its explanations are from its answers."""
    X, y = load_iris(return_X_y=True)
    p, error = np.zeros((len(y), 3)), 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        scaler, peer = StandardScaler().fit(X[train]), build()
        model, numbers = peer.fit(scaler.transform(X[train]), y[train])
        rows = scaler.transform(X[test])
        p[test] = model.predict_proba(rows)
        if peer.told:
            winner = np.arange(len(test)), p[test].argmax(1)
            error = max(error, float(np.abs(peer.told(rows)[winner] - p[test][winner]).max()))
    return {
        "explanation": build.explanation,
        "error": error if build.told else None,
        "numbers": numbers,
        "accuracy": float(accuracy_score(y, p.argmax(1))),
        "log_loss": float(log_loss(y, p)),
    }


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table.

    >>> row("a", {"explanation": "b", "error": 2e-16, "numbers": 1300, "accuracy": 0.953, "log_loss": 0.123})
    '| a | b | 2e-16 | 1,300 | 95.3% | 0.123 |'
    """
    error = (
        "-"
        if found["error"] is None
        else f"{found['error']:.0e}"
        if found["error"] < 0.001
        else f"{found['error']:.2f}"
    )
    cells = [name, found["explanation"], error, f"{found['numbers']:,}", f"{found['accuracy']:.1%}"]
    return "| " + " | ".join([*cells, f"{found['log_loss']:.3f}"]) + " |"


def table() -> str:
    """The whole table, of those that are installed."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for name, build in MODELS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines.append(row(name, measure(build)))
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    made = table()
    print(made, end="")
    if options.write:
        begin, end = MARKS
        text = README.read_text()
        README.write_text(re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", begin + made + end, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
