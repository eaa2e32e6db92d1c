"""ONNX: a model that runs without Python, and still explains itself.

The graph takes raw columns and gives, besides label and probabilities, the gates and what reaches them: a
probability can be formed again from its gates wherever the model runs.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from punn.checkpoint import write_atomically
from punn.network import PUNN
from punn.partition import log_partition, log_remaining

if TYPE_CHECKING:
    from punn.classifier import PUNNClassifier

__all__ = ["export_onnx"]

_OPSET = 20
_OUTPUTS = ["label", "probabilities", "gates", "remaining"]


def export_onnx(model: PUNNClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as an ONNX file, whole or not at all.

    Its input ``x`` holds the features in the user's units, doubles of shape (n, features); scaling is part of the
    graph. Its outputs are ``label`` (n,), ``probabilities`` (n, C), ``gates`` (n, k - 1) and ``remaining`` (n, k).
    Labels are strings, or int64 for integers and booleans. The file's metadata name ``classes``, ``order``,
    ``class_of`` and ``features``, each as JSON.

    All of it runs in double precision, as ``predict_proba`` does: they agree far better than 1e-5, on any input.

    Arguments:
        model: A fitted classifier.
        path: The file.

    Example:
        >>> from punn import PUNNClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = PUNNClassifier(gates="ball", epochs=1, random_state=0).fit(X, y)
        >>> export_onnx(model, "iris.onnx")  # doctest: +SKIP
        >>> session = onnxruntime.InferenceSession("iris.onnx")  # doctest: +SKIP
        >>> label, probabilities, gates, remaining = session.run(None, {"x": X})  # doctest: +SKIP
    """
    if isinstance(model, nn.Module):
        raise TypeError(
            f"expected a fitted PUNNClassifier, got a torch module, {type(model).__name__}; a network of your own is "
            "exported by torch.onnx.export(network, (x,), path, dynamo=True)"
        )
    check_is_fitted(model, "network_")
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError("the export needs onnx and onnxscript: pip install 'punn[onnx]'") from error
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of the ONNX file does not exist: {path.parent}")
    graph = _graph(_Deployed(model.network_), model.n_features_in_)
    _name_labels(graph, model.classes_)
    onnx.helper.set_model_props(graph, _about(model))
    onnx.checker.check_model(graph)
    write_atomically(path, graph.SerializeToString())


class _Deployed(nn.Module):
    """Raw rows to the number of the winner, probabilities, gates and what reaches them; as in ``predict_proba``."""

    def __init__(self, network: PUNN) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).cpu().eval()
        self.dtype = next(network.parameters()).dtype

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows = x if self.network.scaling is None else self.network.scaling(x)
        theta = self.network.gates(rows.to(self.dtype)).double()
        log_accept, log_reject = self.network.activation(theta)
        h = log_partition(log_accept, log_reject).exp()
        # Sums of doubles are as good as those of logs here, and need no lowest number, which the exporter rounds.
        nothing = torch.zeros_like(h[:, : self.network.classes])
        probabilities = nothing.scatter_add(-1, self.network.class_of.expand(h.shape), h)
        return probabilities.argmax(-1), probabilities, log_accept.exp(), log_remaining(log_reject).exp()


def _graph(module: nn.Module, features: int) -> Any:
    rows = torch.zeros(3, features, dtype=torch.float64)
    with _quiet(), torch.no_grad():
        program = torch.export.export(module.eval(), (rows,), dynamic_shapes=({0: torch.export.Dim("n")},))
        program = program.run_decompositions(_DECOMPOSITIONS)
        exported = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            opset_version=_OPSET,
            input_names=["x"],
            output_names=["winner", *_OUTPUTS[1:]],
            custom_translation_table={torch.ops.aten.scalar_tensor.default: _constant},
        )
    assert exported is not None  # torch gives None for its old exporter alone
    return _tidy(exported.model_proto)


def _tidy(model: Any) -> Any:
    """Without what the exporter notes: paths of this machine are no part of a model, nor its names for sizes."""
    graph = model.graph
    for part in [graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    rows = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in [*graph.value_info, *graph.input, *graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == rows:
                dim.dim_param = "n"
    return model


def _name_labels(graph: Any, classes: np.ndarray) -> None:
    """Let the graph give the label of the winner instead of its number."""
    from onnx import TensorProto, helper, numpy_helper

    if classes.dtype.kind in "OUT":
        kind, values = TensorProto.STRING, classes.astype(object)
    elif classes.dtype.kind == "f":
        kind, values = TensorProto.DOUBLE, classes.astype(np.float64)
    else:
        kind, values = TensorProto.INT64, classes.astype(np.int64)
    winner = graph.graph.output[0]
    graph.graph.initializer.append(numpy_helper.from_array(values, "classes"))
    graph.graph.node.append(helper.make_node("Gather", ["classes", winner.name], ["label"], "name_the_winner"))
    winner.CopyFrom(helper.make_tensor_value_info("label", kind, ["n"]))


def _about(model: PUNNClassifier) -> dict[str, str]:
    names = vars(model).get("feature_names_in_")
    about = {
        "classes": model.classes_.tolist(),
        "order": model.order_.tolist(),
        "class_of": model.network_.class_of.tolist(),
        "features": None if names is None else names.tolist(),
    }
    return {name: json.dumps(value) for name, value in about.items()}


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """The exporter makes an operator of softplus that onnxruntime does not have for doubles."""
    y = x * beta
    return torch.where(y > threshold, x, (y.relu() + (-y.abs()).exp().log1p()) / beta)


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """The exporter takes one maximum for the whole row, which leaves minus infinity far below it.

    Here every entry meets the ones before it, 1, 2, 4, ... places away at a time.
    """
    x = x.movedim(dim, -1)
    step, size = 1, x.shape[-1]
    while step < size:
        before, own = x[..., :-step], x[..., step:]
        met = torch.maximum(before, own) + (-(before - own).abs()).exp().log1p()
        x = torch.cat([x[..., :step], met], -1)
        step *= 2
    return x.movedim(-1, dim)


def _constant(s: float, dtype: int = -1, layout: str = "", device: str = "", pin_memory: bool = False) -> Any:
    """The exporter rounds every number in a formula to single precision, also where it is added to doubles."""
    from onnx import TensorProto, helper
    from onnxscript import opset20

    return opset20.Constant(value=helper.make_tensor("number", TensorProto.FLOAT if dtype == -1 else dtype, [], [s]))


#: What the exporter, or onnxruntime after it, gets wrong, said in simpler operators.
_DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.softplus.default: _softplus,
    torch.ops.aten.logcumsumexp.default: _logcumsumexp,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says about itself: operators of torchvision, what it cannot fold, old calls."""
    talkers = ("torch.onnx._internal.exporter._registration", "onnxscript.optimizer._constant_folding")
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in talkers}
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec\\)` is deprecated", FutureWarning)
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
