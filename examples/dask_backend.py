"""Cross-validation, a search and restarts over seeds on a dask cluster, by naming it to joblib.

    pip install dask distributed
    python examples/dask_backend.py                        # a cluster on this machine
    python examples/dask_backend.py tcp://scheduler:8786   # one that is already there

Whatever goes through joblib goes to the workers: scikit-learn's searches and cross-validation, and the studies of
`punn.experiments.reproduce` with `jobs=2` or more. Ray has a backend of the same kind (`ray.util.joblib.register_ray()`
and the name "ray"), which our tests do not run.
"""

import sys

import joblib
from dask.distributed import Client, LocalCluster
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

from punn import PUNNClassifier


def fit(seed, X, y):
    return PUNNClassifier(gates="ellipsoid", epochs=60, random_state=seed).fit(X, y)


def main(address=None):
    X, y = load_iris(return_X_y=True)
    model = PUNNClassifier(gates="ellipsoid", epochs=60, random_state=0)
    # One thread per worker: a fit of a small table is best left to one.
    cluster = address or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(cluster) as client, joblib.parallel_config("dask"):
        print(f"{len(client.scheduler_info()['workers'])} workers")
        scores = cross_val_score(model, X, y, cv=4, n_jobs=-1)
        print(f"cross-validation: {scores.mean():.1%}")
        search = GridSearchCV(model, {"gates": ["ball", "ellipsoid"]}, cv=3, n_jobs=-1).fit(X, y)
        print(f"search: {search.best_params_}")
        fits = joblib.Parallel(n_jobs=-1)(joblib.delayed(fit)(seed, X, y) for seed in range(4))
        best = min(fits, key=lambda fitted: fitted.loss_curve_[-1])
        print(f"the best of {len(fits)} seeds: {best.score(X, y):.1%}")
    if address is None:
        cluster.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
