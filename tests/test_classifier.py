"""PUNNClassifier keeps scikit-learn's contract and its own."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine, make_moons
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from punn import PUNNClassifier, load
from punn.gates import Ball, Ellipsoid, SeparateMLP

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]


def quick(**options):
    settings = {"epochs": 30, "restarts": 1, "hidden": (8,), "learning_rate": 0.03, "random_state": 0}
    return PUNNClassifier(**{**settings, **options})


@parametrize_with_checks([PUNNClassifier(epochs=60), PUNNClassifier(gates="ellipsoid", epochs=60, restarts=2)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return PUNNClassifier(random_state=0).fit(X, NAMES)


# In the company of others


def test_grid_search_with_jobs():
    search = GridSearchCV(quick(), {"gates": ["mlp", "ellipsoid"], "weight_decay": [0.1, 1.0]}, cv=3, n_jobs=2)
    assert search.fit(X, NAMES).best_score_ > 0.85


def test_halving_grid_search():
    search = HalvingGridSearchCV(quick(), {"hidden": [(4,), (8,), (8, 8)]}, cv=3, random_state=0, n_jobs=2)
    assert search.fit(X, NAMES).best_estimator_.score(X, NAMES) > 0.85


def test_pipeline_and_cross_validation():
    scores = cross_val_score(make_pipeline(StandardScaler(), quick(epochs=100)), X, NAMES, cv=5)
    assert scores.mean() > 0.9


def test_pipeline_passes_frames_with_set_output():
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), quick()).set_output(transform="pandas").fit(frame, NAMES)
    assert pipeline[-1].feature_names_in_.tolist() == list("abcd")
    assert pipeline.predict(frame).shape == (150,)


def test_calibration():
    model = CalibratedClassifierCV(quick(), cv=3).fit(X, NAMES)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


def test_stacking():
    stack = StackingClassifier(
        [("punn", quick()), ("line", LogisticRegression(max_iter=1000))],
        final_estimator=LogisticRegression(max_iter=1000),
        cv=3,
    ).fit(X, NAMES)
    assert stack.score(X, NAMES) > 0.9


def test_conformal_sets_of_mapie_cover():
    from mapie.classification import SplitConformalClassifier

    rows = np.random.RandomState(0).permutation(150)
    fit, calibrate, test = rows[:70], rows[70:110], rows[110:]
    model = PUNNClassifier(random_state=0).fit(X[fit], Y[fit])
    conformal = SplitConformalClassifier(model, confidence_level=0.9, prefit=True).conformalize(
        X[calibrate], Y[calibrate]
    )
    _, sets = conformal.predict_set(X[test])
    assert sets[np.arange(40), Y[test], 0].mean() >= 0.8


@pytest.mark.parametrize("copy", [lambda m: pickle.loads(pickle.dumps(m)), lambda m: joblib_round_trip(m)])
def test_copies_predict_the_same_bits(fitted, copy):
    np.testing.assert_array_equal(copy(fitted).predict_proba(X), fitted.predict_proba(X))


def joblib_round_trip(model):
    import io

    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def test_clone_has_the_options_and_not_the_fit(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "network_")


def test_frames_of_other_columns_are_refused():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = quick().fit(frame, NAMES)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))


# What it takes


@pytest.mark.parametrize("gates", ["mlp", "shared", "ball", "ellipsoid", "shell", "harmonic", ["ball", "mlp"]])
def test_every_family_learns_iris(gates):
    model = PUNNClassifier(gates=gates, random_state=0, epochs=150, restarts=2).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, atol=1e-12)


def test_fourier_learns_moons():
    points, side = make_moons(300, noise=0.1, random_state=0)
    model = PUNNClassifier(gates="fourier", random_state=0).fit(points, side)
    assert model.n_parameters_ == 24
    assert model.score(points, side) > 0.97


@pytest.mark.parametrize("activation", ["gaussian", "bump"])
def test_localised_activations_learn(activation):
    assert PUNNClassifier(activation=activation, random_state=0).fit(X, NAMES).score(X, NAMES) > 0.93


def test_a_function_builds_the_gates():
    model = quick(gates=lambda features, gates: SeparateMLP(features, gates, (4,)), epochs=200).fit(X, NAMES)
    assert isinstance(model.network_.gates, SeparateMLP)
    assert model.score(X, NAMES) > 0.9


def test_a_function_may_build_our_own_shapes():
    model = PUNNClassifier(gates=lambda d, gates: Ellipsoid(d, gates, full=True), random_state=0).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.95


@pytest.mark.parametrize("labels", [Y == 0, Y, NAMES, NAMES.astype(object), Y * 10 - 7])
def test_labels_of_any_kind_come_back(labels):
    predicted = quick(epochs=150).fit(X, labels).predict(X)
    assert predicted.dtype == labels.dtype
    assert (predicted == labels).mean() > 0.9


def test_one_class_is_certain():
    model = quick().fit(X, ["only"] * 150)
    np.testing.assert_allclose(model.predict_proba(X), np.ones((150, 1)), rtol=1e-15)
    assert set(model.predict(X)) == {"only"}


def test_orders():
    labels = np.array(["b"] * 20 + ["a"] * 50 + ["c"] * 80)
    assert quick(order="given").fit(X, labels).order_.tolist() == ["a", "b", "c"]
    assert quick(order="frequency").fit(X, labels).order_.tolist() == ["c", "a", "b"]
    assert quick(order=["b", "c", "a"]).fit(X, labels).order_.tolist() == ["b", "c", "a"]
    assert quick(order="separable").fit(X, NAMES).order_[0] == "setosa"
    assert sorted(quick(order="random").fit(X, labels).order_) == ["a", "b", "c"]


def test_order_does_not_change_the_columns():
    p = PUNNClassifier(order=[2, 0, 1], random_state=0).fit(X, Y).predict_proba(X)
    assert (p.argmax(1) == Y).mean() > 0.95


def test_parts_by_class():
    model = quick(parts={"setosa": 1, "versicolor": 3}).fit(X, NAMES)
    assert model.network_.class_of.tolist() == [0, 1, 2, 1, 1]


def test_standardisation_is_inside_the_network():
    scale, shift = np.array([1e3, 1e-4, 1.0, 50.0]), np.array([1e6, 0, -3, 1e2])
    plain, scaled = (PUNNClassifier(random_state=0).fit(rows, NAMES) for rows in (X, X * scale + shift))
    np.testing.assert_allclose(plain.predict_proba(X), scaled.predict_proba(X * scale + shift), atol=1e-6)
    raw = torch.from_numpy(X * scale + shift)
    np.testing.assert_allclose(scaled.network_(raw).exp().detach(), scaled.predict_proba(X * scale + shift), atol=1e-12)


def test_zero_weights_equal_removal():
    weight = np.random.RandomState(0).randint(0, 2, 150)
    kept = weight > 0
    weighted = quick().fit(X, NAMES, sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(weighted, quick().fit(X[kept], NAMES[kept]).predict_proba(X), rtol=1e-9)


def test_class_weight_moves_the_border():
    few = np.r_[0:50, 50:60]
    rows, labels = X[few + 50], NAMES[few + 50]
    recall = [
        (quick(epochs=150, class_weight=w).fit(rows, labels).predict(X[100:]) == "virginica").mean()
        for w in (None, {"virginica": 30.0, "versicolor": 1.0})
    ]
    assert recall[1] > recall[0]


def test_early_stopping_restores_the_best_epoch():
    digits, labels = load_digits(return_X_y=True)
    model = PUNNClassifier(hidden=(32,), epochs=40, patience=3, weight_decay=0.0, learning_rate=0.02, random_state=0)
    model.set_params(early_stopping=True).fit(digits, labels)
    history = model.history_
    assert history.stopped == "no improvement"
    assert model.n_iter_ == history.best_epoch + 3
    assert min(history.validation_loss) == history.validation_loss[history.best_epoch - 1]


def test_warm_start_goes_on():
    model = quick(warm_start=True, schedule="constant").fit(X, NAMES)
    before = model.loss_curve_[-1]
    assert model.fit(X, NAMES).loss_curve_[-1] < before
    with pytest.raises(ValueError, match="classes of the last fit"):
        model.fit(X, NAMES == "setosa")


def test_partial_fit():
    model = quick(learning_rate=0.02)
    for _ in range(100):
        model.partial_fit(X, NAMES, classes=np.unique(NAMES))
    assert model.score(X, NAMES) > 0.9
    assert len(model.loss_curve_) == 100
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:2], ["setosa", "tulip"])
    with pytest.raises(ValueError, match="first call of partial_fit"):
        quick().partial_fit(X, NAMES)


def test_a_trace_adds_up_to_the_prediction(fitted):
    trace = fitted.trace(X)
    np.testing.assert_allclose(trace.log_probabilities, fitted.predict_log_proba(X), rtol=1e-12, atol=1e-12)
    assert trace.classes.tolist() == ["setosa", "versicolor", "virginica"]


def test_rest_unknown():
    model = PUNNClassifier(gates="ellipsoid", rest="unknown", random_state=0).fit(X, NAMES)
    assert model.classes_.tolist()[-1] == "unknown"
    assert set(model.predict(X + 100.0)) == {"unknown"}
    assert (model.predict(X) == NAMES).mean() > 0.85
    with pytest.raises(ValueError, match="extrapolates"):
        quick(rest="unknown").fit(X, NAMES)


# Any input is learned from, or told


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity"), (-np.inf, "contains infinity")]
)
def test_what_is_no_number_is_refused(fitted, value, message):
    rows = X.copy()
    rows[7, 2] = value
    with pytest.raises(ValueError, match=message):
        quick().fit(rows, NAMES)
    for ask in (fitted.predict, fitted.predict_proba, fitted.trace):
        with pytest.raises(ValueError, match=message):
            ask(rows)


@pytest.mark.parametrize("gates", ["mlp", "shared", "ball", "ellipsoid", "shell", "harmonic"])
@pytest.mark.parametrize("value", [1e30, -1e30, 1e300])
def test_huge_numbers_give_probabilities(fitted, gates, value):
    rows = X.copy()
    rows[7, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # dead gates are told, and may be
        model = quick(gates=gates, epochs=3).fit(rows, NAMES)
    for p in (model.predict_proba(rows), quick(gates=gates, epochs=3).fit(X, NAMES).predict_proba(rows)):
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)


def test_columns_that_say_nothing_and_rows_that_repeat():
    labels = np.arange(60) % 3
    constant = quick().fit(np.full((60, 2), 7.0), labels).predict_proba([[7.0, 7.0]])
    np.testing.assert_allclose(constant, 1 / 3, atol=0.05)
    repeated, own = np.repeat(X[[0, 60, 120]], 20, axis=0), np.repeat(labels[:3], 20)
    assert quick(epochs=60).fit(repeated, own).score(repeated, own) == 1.0


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_one_row_per_class():
    model = quick(epochs=300).fit(X[::10], np.arange(15))
    assert model.predict_proba(X).shape == (150, 15)
    with pytest.warns(UserWarning, match="too few to hold some out"):
        quick(epochs=1, early_stopping=True).fit(X[::10], np.arange(15))


def test_a_label_that_a_fold_lacks():
    labels = NAMES.astype(object).copy()
    labels[3] = "once"
    with pytest.warns(UserWarning, match="The least populated class"):
        scores = cross_val_score(quick(), X, labels, cv=3)
    assert scores.min() > 0.8
    assert quick().fit(X[10:], labels[10:]).classes_.tolist() == ["setosa", "versicolor", "virginica"]


# Nothing else is disturbed


def test_same_seed_same_bits():
    digits, labels = load_digits(return_X_y=True)
    fits = [quick(epochs=3).fit(digits, labels).network_.state_dict() for _ in range(2)]
    for name, value in fits[0].items():
        assert torch.equal(value, fits[1][name]), name


def test_global_state_is_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    quick().fit(X, NAMES).predict(X)
    with pytest.raises(ValueError, match="epochs"):
        quick(epochs=-1).fit(X, NAMES)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])
    assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())


def test_fits_in_threads_do_not_disturb_each_other():
    alone = quick().fit(X, NAMES).predict_proba(X)
    threads, results = torch.get_num_threads(), {}

    def work(number):
        results[number] = quick().fit(X, NAMES).predict_proba(X)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for p in results.values():
        np.testing.assert_array_equal(p, alone)
    assert torch.get_num_threads() == threads


def test_a_large_fit_and_small_ones_side_by_side():
    """Small fits ask for one thread, a large one does not; neither changes what the other learns."""
    digits, labels = load_digits(return_X_y=True)

    def large():
        model = quick(gates="shared", hidden=(256, 256), epochs=2, early_stopping=False, batch_size=256)
        return model.fit(digits, labels).predict_proba(digits)

    alone, done, threads = large(), threading.Event(), torch.get_num_threads()
    small = quick().fit(X, NAMES).predict_proba(X)
    others = []

    def work():
        while not done.is_set():
            others.append(np.array_equal(quick().fit(X, NAMES).predict_proba(X), small))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        together = large()
    finally:
        done.set()
        worker.join()
    np.testing.assert_array_equal(together, alone)
    assert others
    assert all(others)
    assert torch.get_num_threads() == threads


def test_predict_is_safe_from_many_threads(fitted):
    """As a server calls it: 16 threads, rows of any number, every method."""
    expected = fitted.predict_proba(X), fitted.predict(X), fitted.trace(X).gates
    separate = PUNNClassifier(gates="ball", epochs=5, restarts=1, random_state=0).fit(X, Y)

    def ask(number):
        rows = np.random.default_rng(number).integers(len(X), size=1 + number % 40)
        asked = X[rows]
        found = fitted.predict_proba(asked), fitted.predict(asked), fitted.trace(asked).gates
        early = separate.predict(asked, exact_early_exit=True)
        pairs = zip(found[::2], expected[::2], strict=True)
        agree = [np.allclose(mine, whole[rows], rtol=0, atol=1e-12) for mine, whole in pairs]
        return (
            all(agree)
            and np.array_equal(found[1], expected[1][rows])
            and np.array_equal(early, separate.predict(asked))
        )

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(160)))


def test_interruption_returns_a_usable_model(monkeypatch):
    calls = iter(range(1000))

    def interrupt(step):
        if next(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr("punn.progress.Progress.__call__", lambda self, step: interrupt(step))
    threads = torch.get_num_threads()
    with pytest.warns(UserWarning, match="interrupted in epoch"):
        model = quick(verbose=True).fit(X, NAMES)
    assert model.history_.stopped == "interrupted"
    assert model.predict(X).shape == (150,)
    assert torch.get_num_threads() == threads


def test_a_function_is_told_of_every_epoch_and_can_end_the_fit():
    told = []

    def listen(step):
        told.append(step.epoch)
        if step.epoch == 5:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted in epoch"):
        model = quick(verbose=listen).fit(X, NAMES)
    assert told == [1, 2, 3, 4, 5]
    assert model.history_.stopped == "interrupted"
    assert len(model.loss_curve_) == 5


def test_ranges_are_those_of_the_training_rows():
    np.testing.assert_array_equal(quick().fit(X, NAMES).ranges_, np.percentile(X, [0, 50, 100], axis=0).T)
    model = quick().partial_fit(X[:50], NAMES[:50], classes=np.unique(NAMES)).partial_fit(X[50:], NAMES[50:])
    np.testing.assert_array_equal(model.ranges_[:, [0, 2]], np.stack([X.min(0), X.max(0)], axis=1))


def test_control_c_in_a_real_process(tmp_path, listening):
    script = tmp_path / "fit.py"
    script.write_text(
        "import sys, warnings; from sklearn.datasets import load_iris; from punn import PUNNClassifier\n"
        "warnings.simplefilter('ignore'); X, y = load_iris(return_X_y=True)\n"
        "print('ready', flush=True)\n"
        "model = PUNNClassifier(epochs=10**6, random_state=0).fit(X, y)\n"
        "print('usable', model.predict(X).shape, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, **listening)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "usable (150,)\n"


def test_progress_goes_to_standard_error(capsys):
    quick(verbose=True).fit(X, NAMES)
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch 30/30" in err
    assert "accuracy" in err
    assert "left" in err
    assert "\033" not in err
    quick().fit(X, NAMES)
    assert capsys.readouterr() == ("", "")


# What is told


def test_a_loss_that_is_not_finite_is_told():
    def explode(theta):
        return theta.exp(), theta.exp()  # no activation, and soon infinite

    with pytest.warns(UserWarning, match="not finite") as warned:
        model = quick(activation=explode, learning_rate=1e4, schedule="constant", epochs=200).fit(X, NAMES)
    assert model.history_.stopped == "loss not finite"
    assert all(torch.isfinite(p).all() for p in model.network_.parameters())
    assert "learning_rate" in str(warned[0].message)


def test_dead_gates_are_named():
    class FarAway(torch.nn.Module):  # a module of the user's own starts as it was made
        def __init__(self, features, gates):
            super().__init__()
            self.balls = Ball(features, gates)
            self.balls.center.data += 1000.0

        def forward(self, x):
            return self.balls(x)

    with pytest.warns(UserWarning, match="are dead") as warned:
        quick(gates=FarAway, epochs=1, learning_rate=1e-9).fit(X, NAMES)
    dead = [str(warning.message) for warning in warned]
    assert len(dead) == 2  # virginica has the rest
    assert "class 'setosa' are dead: none of its 50 training rows" in dead[0]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("gates", "tree", "unknown gates .tree.: use auto, one of mlp"),
        ("gates", ["ball"], "one per gate"),
        ("activation", "relu", "unknown activation 'relu'"),
        ("hidden", (0,), "positive integers"),
        ("hidden", "64", "positive integers"),
        ("parts", 0, "positive integer"),
        ("parts", {"tulip": 2}, "'tulip'"),
        ("order", "sorted", "order must be"),
        ("order", ["setosa"], "every class once"),
        ("degree", 0, "degree"),
        ("rest", "none", "rest must be one of"),
        ("standardize", 1, "standardize must be True or False"),
        ("epochs", 1.5, "epochs must be an integer at least 1 or auto, got 1.5"),
        ("batch_size", 0, "batch_size"),
        ("learning_rate", 0, "learning_rate must be a number above 0"),
        ("learning_rate", float("nan"), "learning_rate"),
        ("schedule", "linear", "schedule must be one of"),
        ("weight_decay", -1, "weight_decay"),
        ("smoothness", -1, "smoothness"),
        ("early_stopping", "yes", "early_stopping"),
        ("validation_fraction", 1.0, "validation_fraction"),
        ("patience", 0, "patience"),
        ("label_smoothing", 1, "label_smoothing"),
        ("restarts", "many", "restarts"),
        ("precision", "half", "precision must be one of"),
        ("device", "toaster", "device"),
    ],
)
def test_options_are_checked(option, value, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PUNNClassifier(**{option: value}).fit(X, NAMES)


def test_wine_by_defaults():
    scores = cross_val_score(PUNNClassifier(random_state=0), *load_wine(return_X_y=True), cv=5)
    assert scores.mean() > 0.96


def test_ten_thousand_classes_with_a_row_each(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10_000, 4)), rng.permutation(10_000)
    regression, few = "could represent a regression problem", "too few to hold some out"
    with pytest.warns(UserWarning, match=regression), pytest.warns(UserWarning, match=few):
        model = PUNNClassifier(epochs=1, hidden=(16,), random_state=0).fit(X, y)
    assert len(model.classes_) == 10_000
    p = model.predict_proba(X[:50])
    assert p.shape == (50, 10_000)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    assert model.regions().coverage.rows.sum() == 10_000
    model.save(tmp_path / "many.punn")
    assert (tmp_path / "many.punn").stat().st_size < 10_000_000
    np.testing.assert_array_equal(load(tmp_path / "many.punn").predict_proba(X[:50]), p)
