"""Accuracy with untouched defaults, beside the peers, in the same folds.

    python -m benchmarks.accuracy                     # iris, wine, breast cancer, digits
    python -m benchmarks.accuracy --tables            # tables that are made up, see benchmarks/tables.py
    python -m benchmarks.accuracy letters.csv --out results/accuracy

A CSV file has its target in the last column; categories and missing values are allowed. All models
see the same folds and the same preprocessing (imputation, one-hot, standardised features).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler

from benchmarks.tables import TABLES, make
from punn import PUNNClassifier
from punn.scoring import calibration_error

BUILT_IN = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}

LARGE = 5000


def models(names: list[str] | None) -> dict:
    every = {
        "punn": PUNNClassifier(random_state=0),
        "logistic": LogisticRegression(max_iter=1000),
        "mlp": MLPClassifier(random_state=0),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }
    if importlib.util.find_spec("interpret"):
        from interpret.glassbox import ExplainableBoostingClassifier

        every["ebm"] = ExplainableBoostingClassifier(random_state=0)
    if importlib.util.find_spec("neural_trees"):
        from neural_trees import SoftDecisionTree

        every["soft_tree"] = SoftDecisionTree(random_state=0)
    return {name: every[name] for name in names} if names else every


def read(source: str) -> tuple[pd.DataFrame, np.ndarray]:
    if source in BUILT_IN:
        data = BUILT_IN[source](as_frame=True)
        return data.data, data.target.to_numpy()
    if source in TABLES:
        return make(source)
    frame = pd.read_csv(source)
    return frame.iloc[:, :-1], LabelEncoder().fit_transform(frame.iloc[:, -1].astype(str))


def preprocessing():
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False, max_categories=50),
    )
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (words, make_column_selector(dtype_exclude="number")),
    )


def one_fold(model, X, y, train, test) -> dict[str, float]:
    table = preprocessing()
    X_train, X_test = table.fit_transform(X.iloc[train]), table.transform(X.iloc[test])
    model = clone(model)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLPClassifier's defaults often stop before they have converged
        model.fit(X_train, y[train])
    seconds = time.perf_counter() - began
    p = model.predict_proba(X_test)
    return {
        "accuracy": 100 * accuracy_score(y[test], model.classes_[p.argmax(1)]),
        "log_loss": log_loss(y[test], p, labels=model.classes_),
        "calibration_error": calibration_error(model.classes_[p.argmax(1)] == y[test], p.max(1)),
        "seconds": seconds,
    }


def compare(sources: list[str], folds: int, repeats: int, names: list[str] | None) -> dict:
    results: dict = {}
    for source in sources:
        X, y = read(source)
        # One round of folds tells enough of a large table.
        rounds = repeats if len(X) <= LARGE else 1
        splits = list(RepeatedStratifiedKFold(n_splits=folds, n_repeats=rounds, random_state=0).split(X, y))
        rows = {name: [one_fold(model, X, y, *split) for split in splits] for name, model in models(names).items()}
        results[Path(source).stem] = {
            name: {
                key: {"mean": float(np.mean([s[key] for s in scores])), "std": float(np.std([s[key] for s in scores]))}
                for key in scores[0]
            }
            for name, scores in rows.items()
        }
        show(Path(source).stem, results[Path(source).stem])
    return results


def show(source: str, table: dict) -> None:
    print(f"\n{source:16}{'accuracy':>16}{'log-loss':>18}{'calibration':>14}{'seconds':>10}")
    for name, scores in table.items():
        a, loss, ece, s = (scores[key] for key in ("accuracy", "log_loss", "calibration_error", "seconds"))
        print(
            f"  {name:14}{a['mean']:9.2f} ± {a['std']:4.2f}{loss['mean']:11.4f} ± {loss['std']:.4f}"
            f"{ece['mean']:13.4f}{s['mean']:10.2f}",
            flush=True,
        )


def means(results: dict) -> dict[str, tuple[float, float, float]]:
    """Accuracy, log-loss and rank (by accuracy, ties shared) of every model, each the mean over the sets."""
    names = list(next(iter(results.values())))
    accuracy, loss = (
        np.array([[table[name][key]["mean"] for name in names] for table in results.values()])
        for key in ("accuracy", "log_loss")
    )
    ranks = rankdata(-accuracy, axis=1)
    return {
        name: (float(a), float(b), float(c))
        for name, a, b, c in zip(names, accuracy.mean(0), loss.mean(0), ranks.mean(0), strict=True)
    }


def summary(results: dict) -> None:
    print(f"\n{'mean over sets':16}{'accuracy':>10}{'log-loss':>10}{'rank':>8}")
    for name, (accuracy, loss, rank) in means(results).items():
        print(f"  {name:14}{accuracy:10.2f}{loss:10.4f}{rank:8.2f}")


def markdown(results: dict) -> str:
    """Accuracy in percent, log-loss and seconds of a fit, one row per set."""
    names = list(next(iter(results.values())))
    lines = ["| accuracy / log-loss / seconds | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for source, table in results.items():
        cells = [[table[name][key]["mean"] for key in ("accuracy", "log_loss", "seconds")] for name in names]
        lines.append(f"| {source} | " + " | ".join(f"{a:.2f} / {b:.3f} / {c:.1f}" for a, b, c in cells) + " |")
    total = " | ".join(f"{a:.2f} / {b:.3f}, rank {c:.1f}" for a, b, c in means(results).values())
    return "\n".join([*lines, f"| mean | {total} |"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", help="CSV files, or names of sets")
    parser.add_argument("--tables", action="store_true", help="the tables of benchmarks/tables.py")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--out", type=Path, help="a folder for results.json and table.md")
    options = parser.parse_args()
    sources = options.sources or list(TABLES if options.tables else BUILT_IN)
    results = compare(sources, options.folds, options.repeats, options.models)
    summary(results)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (options.out / "table.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
