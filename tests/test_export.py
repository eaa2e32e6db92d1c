"""ONNX: a runtime without Python gives the same label, probabilities, gates and remaining."""

import json
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from torch import nn

from punn import PUNNClassifier
from punn.export import _logcumsumexp, _softplus, export_onnx
from punn.gates import Ellipsoid, Shared
from punn.persistence import save

RNG = np.random.default_rng(0)
CENTERS = np.array([[0.0, 1000.0], [0.3, 1000.0], [0.0, 1300.0]])
X = np.concatenate([center + RNG.normal(size=(30, 2)) * [0.1, 100] for center in CENTERS])
NAMES = np.repeat(["left", "middle", "ünknown 日"], 30)

# An export takes seconds, so that every case is tried in one precision only.
CASES = {
    "mlp": {"hidden": (8, 4), "activation": "sigmoid", "precision": "single"},
    "mlp, gaussian": {"hidden": (8,), "activation": "gaussian", "parts": 2},
    "linear, bump": {"hidden": (), "activation": "bump"},
    "shared": {"gates": "shared", "hidden": (8,), "parts": 3},
    "shared, many functions": {"gates": "shared", "hidden": (4,), "parts": 20, "precision": "single"},
    "ball": {"gates": "ball", "order": ["middle", "left", "ünknown 日"], "precision": "single"},
    "ellipsoid, unknown": {"gates": "ellipsoid", "rest": "unknown", "standardize": False},
    "full ellipsoid, bump": {"gates": lambda d, gates: Ellipsoid(d, gates, full=True), "activation": "bump"},
    "shell": {"gates": "shell", "activation": "window", "precision": "single"},
    "shell, compact": {"gates": "shell", "activation": "compact_window"},
    "fourier": {"gates": "fourier"},
    "harmonic": {"gates": "harmonic", "degree": 3, "activation": "window", "precision": "single"},
    "hybrid": {"gates": ["harmonic", "mlp"], "hidden": (8,), "activation": ["compact_window", "bump"]},
}


def fitted(labels=NAMES, rows=X, **options):
    settings = {"epochs": 30, "restarts": 1, "random_state": 0, "precision": "double", **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the gates of class")  # one start may be a bad one
        return PUNNClassifier(**settings).fit(rows, labels)


def exported(model, path):
    export_onnx(model, path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def scaled_rows(spread):
    return X.mean(0) + X.std(0) * np.random.default_rng(1).normal(size=(1000, 2)) * spread


@pytest.mark.parametrize("name", CASES)
def test_agrees(name, tmp_path):
    model = fitted(**CASES[name])
    session = exported(model, tmp_path / "model.onnx")
    for rows in (X, scaled_rows(1), scaled_rows(10), scaled_rows(1e4), X[:1]):
        label, probabilities, gates, remaining = session.run(None, {"x": rows})
        close = {"rtol": 0, "atol": 1e-9}
        np.testing.assert_allclose(probabilities, model.predict_proba(rows), **close)
        np.testing.assert_allclose(gates, model.trace(rows).gates, **close)
        np.testing.assert_allclose(remaining, model.trace(rows).remaining, **close)
        np.testing.assert_array_equal(label, model.predict(rows))


def test_inputs_outputs_and_metadata(tmp_path):
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = fitted(gates="ball", rows=frame, order=["middle", "left", "ünknown 日"])
    session = exported(model, tmp_path / "model.onnx")
    assert [(x.name, x.type, x.shape) for x in session.get_inputs()] == [("x", "tensor(double)", ["n", 2])]
    outputs = {y.name: (y.type, y.shape) for y in session.get_outputs()}
    assert outputs == {
        "label": ("tensor(string)", ["n"]),
        "probabilities": ("tensor(double)", ["n", 3]),
        "gates": ("tensor(double)", ["n", 2]),
        "remaining": ("tensor(double)", ["n", 3]),
    }
    about = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert about == {
        "classes": ["left", "middle", "ünknown 日"],
        "order": ["middle", "left", "ünknown 日"],
        "class_of": [1, 0, 2],
        "features": ["width", "height"],
    }


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (np.repeat([5, -3, 7], 30), np.int64),
        (np.repeat([True, False, True], 30), np.int64),
        (np.repeat([1.0, 2.0, 3.0], 30), np.float64),
        (NAMES.astype(object), object),
    ],
)
def test_labels(labels, kind, tmp_path):
    model = fitted(gates="ball", labels=labels, epochs=1)
    label = exported(model, tmp_path / "model.onnx").run(["label"], {"x": X})[0]
    assert label.dtype == kind
    np.testing.assert_array_equal(label, model.predict(X))


def test_modules_of_ones_own(tmp_path):
    model = fitted(gates=lambda d, gates: Shared(nn.Sequential(nn.Linear(d, 4), nn.Tanh()), gates, features=4))
    probabilities = exported(model, tmp_path / "model.onnx").run(["probabilities"], {"x": X})[0]
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-9)


def test_leaves_model_and_machine_alone(tmp_path, capfd):
    model = fitted(**CASES["hybrid"])
    before = model.predict_proba(X)
    export_onnx(model, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == [tmp_path / "model.onnx"]
    np.testing.assert_array_equal(model.predict_proba(X), before)
    content = (tmp_path / "model.onnx").read_bytes()
    assert b".py" not in content
    assert not any(node.metadata_props for node in onnx.load(tmp_path / "model.onnx").graph.node)


def test_refuses(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not fitted"):
        export_onnx(PUNNClassifier(), tmp_path / "model.onnx")
    model = fitted(gates="ball", epochs=1)
    with pytest.raises(FileNotFoundError, match="folder"):
        export_onnx(model, tmp_path / "nowhere" / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'punn\[onnx\]'"):
        export_onnx(model, tmp_path / "model.onnx")


def test_simpler_operators_say_the_same():
    x = torch.cat([torch.linspace(-50, 50, 1001), torch.tensor([-1e4, 0.0, 1e4])]).double()
    for threshold in (20.0, 40.0):
        torch.testing.assert_close(_softplus(x, 1.0, threshold), nn.functional.softplus(x, 1.0, threshold))
    for k in (1, 2, 3, 33, 64):
        scores = torch.randn(5, k, dtype=torch.float64) * torch.logspace(-1, 4, 5).double().unsqueeze(-1)
        torch.testing.assert_close(_logcumsumexp(scores, -1), scores.logcumsumexp(-1))
        torch.testing.assert_close(_logcumsumexp(scores, 0), scores.logcumsumexp(0))


def test_a_torch_network_is_told_how_to_go(tmp_path):
    with pytest.raises(TypeError, match=r"got a torch module, Linear; .* torch\.onnx\.export"):
        export_onnx(torch.nn.Linear(2, 2), tmp_path / "m.onnx")
    with pytest.raises(TypeError, match=r"got a torch module, Linear; .*state_dict"):
        save(torch.nn.Linear(2, 2), tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())
