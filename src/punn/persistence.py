"""One safe file per model: tensors, and a checked description of what they are.

A model file is a safetensors file. Its metadata hold a :class:`~punn.description.Description` as JSON under ``punn``.
One of its tensors is a digest of the description and all others, so that a file that was damaged on its way does not
predict. Reading runs nothing: no pickle, no names but those of our own lists, no memory but for what the file holds.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

try:
    from pydantic import BaseModel, ValidationError
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save as to_bytes
except ImportError as error:
    raise ImportError("model files need safetensors and pydantic: pip install 'punn[files]'") from error

import punn
from punn.building import families_of
from punn.checkpoint import write_atomically
from punn.classifier import PUNNClassifier
from punn.description import Description, Family, Pairs, Past, build_network, describe, expected_tensors
from punn.network import PUNN
from punn.options import check_options
from punn.regions import Coverage
from punn.training import History

__all__ = ["FORMAT", "ModelFileError", "load", "read_description", "save"]

#: The newest format that is read, and the one that is written.
FORMAT = 1

_LARGEST_HEADER = 10_000_000
_DIGEST = "sha256"
# A path is a matter of the machine that fits: a file that came from elsewhere must not name one to write to.
_NOT_KEPT = ("checkpoint",)


class ModelFileError(ValueError):
    """A file that is no whole model of punn: foreign, damaged, of a newer version, or made to do harm."""


def save(
    model: PUNNClassifier,
    path: str | os.PathLike[str],
    table: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file, whole or not at all.

    A ``random_state`` that is no number, a ``checkpoint`` and a function for ``verbose`` are not kept. A function for
    ``gates`` that makes gates of punn comes back as a function that makes the same gates.

    Arguments:
        model: A fitted classifier, with gates and activations of punn.
        path: The file, by custom ``name.punn.safetensors``.
        table: The column schema of the table it was fitted to, as plain data; that of the model, if it was loaded.
        summary: More to tell about the training, as plain data.

    Raises:
        TypeError: A module or function of the user's own; its numbers are saved by ``state_dict``.

    Example:
        >>> import tempfile
        >>> model = PUNNClassifier(gates="ball", epochs=1).fit([[0.0], [1.0]], ["no", "yes"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(model, f"{folder}/model.punn.safetensors")
        ...     load(f"{folder}/model.punn.safetensors").predict([[1.0]])
        array(['yes'], dtype='<U3')
    """
    if isinstance(model, torch.nn.Module):
        raise TypeError(
            f"expected a fitted PUNNClassifier, got a torch module, {type(model).__name__}; the numbers of a network "
            "of your own are kept by torch.save(network.state_dict(), path)"
        )
    check_is_fitted(model, "network_")
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of the model file does not exist: {path.parent}")
    description = _described(model, table, summary)
    tensors = _tensors_of(model)
    if _held(tensors) != expected_tensors(description, build_network(description)):
        raise TypeError(
            "a model file holds gates of punn alone, and these have other tensors than the ones of punn: "
            "save their numbers with torch.save(model.network_.state_dict(), path)"
        )
    _check_numbers(tensors)
    text = description.model_dump_json()
    if len(text) > _LARGEST_HEADER // 2:
        raise ValueError(f"the description of the model has {len(text)} letters, more than {_LARGEST_HEADER // 2}")
    Description.model_validate_json(text)
    # With the digest as a second entry of the metadata, which have no order, equal models could have unequal files.
    write_atomically(path, to_bytes({**tensors, _DIGEST: _digest(text, tensors)}, {"punn": text}))


def load(path: str | os.PathLike[str]) -> PUNNClassifier:
    """Read a model that predicts what the saved one predicted, bit for bit.

    Its column schema and summary, if there are any, are in ``table_`` and ``summary_``.

    Arguments:
        path: A file of :func:`save`.

    Raises:
        ModelFileError: The file is foreign, damaged, or of a newer version.
        FileNotFoundError: There is no such file.
    """
    path = Path(path)
    _check_header(path)
    try:
        with safe_open(path, "pt") as file:
            description, text = _described_in(file)
            network = build_network(description)
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            held = {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
            _check_tensors(held, {**expected_tensors(description, network), _DIGEST: ([32], "U8")})
            # A copy, for the file may change on the disk as long as the model lives.
            tensors = {name: file.get_tensor(name).clone() for name in held}
        if not torch.equal(tensors.pop(_DIGEST), _digest(text, tensors)):
            raise ValueError("it was changed after it was written: its content does not have its digest")
        _check_numbers(tensors)
        coverage = _coverage_of(tensors) if description.covered else None
        ranges = _ranges_of(tensors) if description.ranged else None
        network.load_state_dict({**tensors, "class_of": network.class_of}, assign=True)
        return _estimator(description, network, coverage, ranges)
    except ValidationError as error:
        raise _refused(path, _first_fault(error)) from error
    except (SafetensorError, ValueError, TypeError, KeyError, RuntimeError, OverflowError, RecursionError) as error:
        raise _refused(path, error) from error


def read_description(path: str | os.PathLike[str]) -> Description:
    """What a file says about its model, without its tensors."""
    path = Path(path)
    _check_header(path)
    try:
        with safe_open(path, "pt") as file:
            return _described_in(file)[0]
    except ValidationError as error:
        raise _refused(path, _first_fault(error)) from error
    except (SafetensorError, ValueError) as error:
        raise _refused(path, error) from error


def _described(
    model: PUNNClassifier, table: Mapping[str, Any] | None, summary: Mapping[str, Any] | None
) -> Description:
    names, past = vars(model).get("feature_names_in_"), vars(model).get("history_")
    classes = model.classes_
    labels: Any = {"U": "str", "O": "object"}.get(classes.dtype.kind, classes.dtype.name)
    table = vars(model).get("table_") if table is None else table
    summary = vars(model).get("summary_") if summary is None else summary
    return Description(
        **describe(model.network_),
        versions={
            "punn": punn.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        classes=classes.tolist(),
        labels=labels,
        covered=model.coverage_ is not None,
        ranged=vars(model).get("ranges_") is not None,
        order=model.order_.tolist(),
        features=model.n_features_in_,
        feature_names=None if names is None else names.tolist(),
        params=_plain_params(model),
        loss_curve=list(model.loss_curve_),
        history=None if past is None else Past(**asdict(past)),
        table=None if table is None else dict(table),
        summary=None if summary is None else dict(summary),
    )


def _plain_params(model: PUNNClassifier) -> dict[str, Any]:
    params = {name: _plain(value) for name, value in model.get_params().items() if name not in _NOT_KEPT}
    families = model.gates if isinstance(model.gates, list | tuple) else [model.gates]
    if any(callable(family) for family in families):
        del params["gates"]
    if isinstance(model.random_state, np.random.RandomState):
        del params["random_state"]
    if callable(model.verbose):
        del params["verbose"]
    return params


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return Pairs(pairs=[(_plain(key), _plain(entry)) for key, entry in value.items()])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value


def _tensors_of(model: PUNNClassifier) -> dict[str, Tensor]:
    tensors = {name: value.cpu().contiguous() for name, value in model.network_.state_dict().items()}
    del tensors["class_of"]
    if model.coverage_ is not None:
        counts = model.coverage_._asdict()
        tensors |= {f"coverage.{name}": torch.tensor(value) for name, value in counts.items()}
    if vars(model).get("ranges_") is not None:
        tensors["ranges"] = torch.from_numpy(model.ranges_).clone()
    return tensors


def _coverage_of(tensors: dict[str, Tensor]) -> Coverage:
    """Take the coverage out of the tensors: what is left is the network's."""
    coverage = Coverage(*(tensors.pop(f"coverage.{name}").numpy() for name in Coverage._fields))
    if min(count.min() for count in (coverage.rows, coverage.own, coverage.right, coverage.of_class)) < 0:
        raise ValueError("the rows that functions cover must not be fewer than none")
    return coverage


def _ranges_of(tensors: dict[str, Tensor]) -> np.ndarray:
    """Take the ranges of the features out of the tensors."""
    ranges: np.ndarray = tensors.pop("ranges").numpy()
    if (np.diff(ranges, axis=1) < 0).any():
        raise ValueError("the least, middle and largest value of a feature must stand in this order")
    return ranges


def _estimator(
    description: Description, network: PUNN, coverage: Coverage | None, ranges: np.ndarray | None
) -> PUNNClassifier:
    params: dict[str, Any] = {
        name: dict(value.pairs) if isinstance(value, Pairs) else value for name, value in description.params.items()
    }
    unknown = set(params) - set(PUNNClassifier().get_params()) | set(params) & set(_NOT_KEPT)
    if unknown:
        raise ValueError(f"it has an option that is not known, {min(unknown)!r}")
    if "hidden" in params:
        params["hidden"] = tuple(params["hidden"])
    model = PUNNClassifier(**{"gates": _builders(description), **params})
    check_options(model)
    families_of(model.gates, len(description.class_of) - 1)
    model.classes_ = description.label_array()
    model.order_ = model.classes_[list(dict.fromkeys(description.class_of))]
    model.network_, model.coverage_, model.ranges_ = network, coverage, ranges
    model.n_features_in_ = description.features
    if description.feature_names is not None:
        model.feature_names_in_ = np.array(description.feature_names, dtype=object)
    model.n_parameters_ = sum(p.numel() for p in network.parameters())
    model.loss_curve_, model.n_iter_ = description.loss_curve, len(description.loss_curve)
    if description.history is not None:
        model.history_ = History(**description.history.model_dump())
    model.table_, model.summary_ = description.table, description.summary
    return model


def _builders(description: Description) -> Any:
    """In the place of a function that was given for gates: functions that make gates of the same families."""
    chain: dict[int, Any] = {}
    for placed in description.families:
        chain |= dict.fromkeys(placed.positions, partial(_build_again, placed.gates))
    return chain[0] if len(description.families) == 1 else [chain[i] for i in sorted(chain)]


def _build_again(family: Family, features: int, gates: int) -> nn.Module:
    return family.model_copy(update={"features": features, "gates": gates}).build()


def _check_header(path: Path) -> None:
    """The first eight bytes say how long the header is: it must be there, and of sane length."""
    if not path.is_file():
        if not path.exists():
            raise FileNotFoundError(f"there is no model file {path}")
        raise _refused(path, "it is no regular file")
    with path.open("rb") as file:
        start, size = file.read(8), os.fstat(file.fileno()).st_size
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > size - 8:
        raise _refused(path, "it is cut off, or no safetensors file")
    if length > _LARGEST_HEADER:
        raise _refused(path, f"its header of {length} bytes is larger than {_LARGEST_HEADER}")


class _Version(BaseModel):
    """The one thing that all formats have."""

    format: int


def _described_in(file: Any) -> tuple[Description, str]:
    metadata = file.metadata() or {}
    if "punn_checkpoint" in metadata:
        raise ValueError("it is the checkpoint of a fit that was interrupted: fit again with checkpoint=... first")
    if "punn" not in metadata:
        raise ValueError("it is a safetensors file of something else")
    text = str(metadata["punn"])
    version = _Version.model_validate_json(text).format
    if version > FORMAT:
        raise ValueError(f"it was written by a newer punn (format {version}, this one reads up to {FORMAT}): upgrade")
    return Description.model_validate_json(text), text


def _held(tensors: Mapping[str, Tensor]) -> dict[str, tuple[list[int], str]]:
    kinds = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    return {name: (list(value.shape), kinds.get(value.dtype, str(value.dtype))) for name, value in tensors.items()}


def _check_tensors(held: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name in sorted(held.keys() | expected.keys()):
        if held.get(name) != expected.get(name):
            shape, kind = expected.get(name, ("none", ""))
            found, found_kind = held.get(name, ("none", ""))
            raise ValueError(f"its tensor {name!r} should be {shape} {kind}, and is {found} {found_kind}")


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"the tensor {name!r} holds numbers that are not finite: the fit went wrong, or the file")
    if "scaling.scale" in tensors and not bool((tensors["scaling.scale"] > 0).all()):
        raise ValueError("the scales of features must be positive")


def _digest(text: str, tensors: Mapping[str, Tensor]) -> Tensor:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"its description is wrong: {place + ': ' if place else ''}{fault['msg']}"


def _refused(path: Path, why: object) -> ModelFileError:
    # What comes from the file is shown without the characters that could steer a terminal.
    text = "".join(letter if letter.isprintable() else " " for letter in str(why)[:1000])
    return ModelFileError(f"{path} is not a model that can be read: {' '.join(text.split())[:300]}")
