"""What a model file says about its model: plain data, checked, from which the network is built again.

Names stand for things in the dicts and classes of this file alone; nothing is looked up anywhere else. Every
size has a bound, and modules are built without memory, so that a description can claim nothing that the file's
tensors do not hold.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from torch import nn

from punn.activations import ACTIVATIONS
from punn.gates import (
    Ball,
    ConstantRadius,
    Ellipsoid,
    FourierRadius,
    HarmonicRadius,
    Hybrid,
    SeparateMLP,
    Shared,
    Shell,
)
from punn.gates.mlp import mlp
from punn.gates.radii import Radius
from punn.network import PUNN, Standardize

__all__ = ["Description", "build_network", "describe", "expected_tensors"]

Size = Annotated[int, Field(ge=1, le=10_000_000)]
Index = Annotated[int, Field(ge=0, le=10_000_000)]
Widths = Annotated[list[Size], Field(max_length=100)]
Whole = Annotated[int, Field(ge=-(2**63), le=2**64 - 1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Scalar = bool | Whole | Number | str | None
ActivationName = Literal["sigmoid", "gaussian", "bump", "window", "compact_window"]
LabelType = Literal[
    "str", "object", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64",
]  # fmt: skip

# Harmonics are computed from tables of this many numbers in all, at most: about 3 seconds.
_MOST_WORK = 100_000_000


class Plain(BaseModel):
    """Data of exactly these types and names."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_inf_nan="constants")


class MLPGates(Plain):
    """Separate networks."""

    family: Literal["mlp"] = "mlp"
    features: Size
    gates: Size
    hidden: Widths

    def build(self) -> nn.Module:
        """The module."""
        return SeparateMLP(self.features, self.gates, self.hidden)


class SharedGates(Plain):
    """One network of our own for all gates."""

    family: Literal["shared"] = "shared"
    features: Size
    gates: Size
    hidden: Widths
    coupled: bool

    def build(self) -> nn.Module:
        """The module."""
        width = self.hidden[-1] if self.hidden else self.features
        return Shared(mlp(self.features, self.hidden), self.gates, features=width, coupled=self.coupled)


class BallGates(Plain):
    """Balls."""

    family: Literal["ball"] = "ball"
    features: Size
    gates: Size

    def build(self) -> nn.Module:
        """The module."""
        return Ball(self.features, self.gates)


class EllipsoidGates(Plain):
    """Ellipsoids, axis-aligned or full."""

    family: Literal["ellipsoid"] = "ellipsoid"
    features: Size
    gates: Size
    full: bool

    def build(self) -> nn.Module:
        """The module."""
        return Ellipsoid(self.features, self.gates, self.full)


class RadiusKind(Plain):
    """A radius function; a constant one has degree 0."""

    kind: Literal["constant", "fourier", "harmonic"]
    degree: Annotated[int, Field(ge=0, le=1000)]

    def build(self, features: int, gates: int) -> Radius:
        """The module."""
        if self.kind == "constant":
            return ConstantRadius(features, gates)
        if self.kind == "fourier":
            return FourierRadius(self.degree, gates, features)
        return HarmonicRadius(features, self.degree, gates)

    def work(self, features: int) -> int:
        """How many numbers the largest table has that the module is computed from."""
        if self.kind != "harmonic":
            return 0
        # A basis of many features is large at degree 1 already; what lies beyond is not worth a long number.
        return features * math.comb(min(features, 1000) + self.degree - 1, self.degree) ** 2


class ShellGates(Plain):
    """Shells between radius functions."""

    family: Literal["shell"] = "shell"
    features: Size
    gates: Size
    inner: RadiusKind | None
    outer: RadiusKind

    def build(self) -> nn.Module:
        """The module."""
        inner = None if self.inner is None else self.inner.build(self.features, self.gates)
        return Shell(inner, self.outer.build(self.features, self.gates))

    def work(self) -> int:
        """How many numbers the tables of both radius functions have."""
        return sum(radius.work(self.features) for radius in (self.inner, self.outer) if radius is not None)


Family = Annotated[MLPGates | SharedGates | BallGates | EllipsoidGates | ShellGates, Field(discriminator="family")]


class Placed(Plain):
    """A family and where its gates stand in the chain."""

    gates: Family
    positions: Annotated[list[Index], Field(min_length=1)]


class Past(Plain):
    """What happened in training."""

    loss: list[float]
    validation_loss: list[float]
    best_epoch: Index
    stopped: Annotated[str, Field(max_length=1000)]


class Pairs(Plain):
    """A mapping whose keys are not only strings."""

    pairs: list[tuple[Scalar, Scalar]]


class Description(Plain):
    """All that a model is, but for its numbers.

    The labels of ``order`` follow from ``classes`` and ``class_of``; they are there for the reader of a file.
    """

    format: Literal[1] = 1
    versions: Annotated[dict[str, Annotated[str, Field(max_length=100)]], Field(max_length=20)]
    classes: Annotated[list[bool] | list[Whole] | list[Number] | list[str], Field(min_length=1)]
    labels: LabelType
    order: list[bool] | list[Whole] | list[Number] | list[str]
    class_of: Annotated[list[Index], Field(min_length=2)]
    features: Size
    feature_names: list[str] | None
    dtype: Literal["float32", "float64"]
    scaled: bool
    covered: bool
    ranged: bool = False  # files of before punn kept ranges have none
    families: Annotated[list[Placed], Field(min_length=1, max_length=32)]
    activation: ActivationName | list[ActivationName]
    params: dict[str, Scalar | list[Scalar] | Pairs]
    loss_curve: list[float]
    history: Past | None
    table: dict[str, JsonValue] | None
    summary: dict[str, JsonValue] | None

    @model_validator(mode="after")
    def _agrees(self) -> Description:
        labels, last = self.label_array(), len(self.classes) - 1
        unknown = self.params.get("rest") == "unknown"
        trained = labels[:-1] if unknown else labels
        _require(np.array_equal(np.unique(trained), trained), "the classes must be sorted, each of them once")
        _require(max(self.class_of) == last, f"class_of must name {last + 1} classes")
        _require(
            not unknown or self.class_of.index(last) == len(self.class_of) - 1, "the rest must be the last function"
        )
        _require([self.classes[c] for c in dict.fromkeys(self.class_of)] == self.order, "order and class_of must agree")
        gates = [placed.gates for placed in self.families]
        _require(all(family.features == self.features for family in gates), "all families must have the same features")
        _require(sum(family.gates for family in gates) == len(self.class_of) - 1, "gates and class_of must agree")
        names = self.feature_names
        _require(names is None or len(names) == self.features, "every feature must have a name")
        work = sum(family.work() for family in gates if isinstance(family, ShellGates))
        _require(work <= _MOST_WORK, "harmonics of this degree in so many features are too large for a file")
        return self

    def label_array(self) -> np.ndarray:
        """The classes as the estimator holds them."""
        kinds = {"str": str, "object": str, "bool": bool, "float32": float, "float64": float}
        kind = kinds.get(self.labels, int)
        _require(all(type(label) is kind for label in self.classes), f"the classes must be of type {self.labels}")
        # The width of strings is that of the longest one, which the file holds.
        try:
            labels = np.array(self.classes, dtype=None if self.labels == "str" else self.labels)
        except OverflowError:
            labels = np.array([])
        _require(labels.tolist() == self.classes, f"the classes must fit into {self.labels}")
        return labels


def describe(network: PUNN) -> dict[str, Any]:
    """The part of a description that is about the network.

    Example:
        >>> describe(PUNN(Ball(2, 1)))["families"]
        [Placed(gates=BallGates(family='ball', features=2, gates=1), positions=[0])]
    """
    gates = network.gates
    families = list(gates.families) if type(gates) is Hybrid else [gates]
    positions = gates.positions if type(gates) is Hybrid else [list(range(network.functions - 1))]
    names = network.activation.names
    for name in names:
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise _custom("activation", name)
    if type(network) is not PUNN or not (network.scaling is None or type(network.scaling) is Standardize):
        raise _custom("network", network)
    return {
        "families": [
            Placed(gates=_family(module), positions=index) for module, index in zip(families, positions, strict=True)
        ],
        "activation": names[0] if len(set(names)) == 1 else names,
        "class_of": network.class_of.tolist(),
        "dtype": str(next(network.parameters()).dtype).removeprefix("torch."),
        "scaled": network.scaling is not None,
    }


def build_network(description: Description) -> PUNN:
    """The network that a description means, its gates without memory: weights are to be put in place."""
    with torch.device("meta"):
        modules = [placed.gates.build() for placed in description.families]
        positions = [placed.positions for placed in description.families]
        gates = modules[0] if positions == [list(range(len(positions[0])))] else Hybrid(modules, positions)
    network = PUNN(gates, description.activation, description.class_of)
    if description.scaled:
        nothing = torch.empty(description.features, device="meta")
        network.scaling = Standardize(nothing, nothing)
    return network.eval()


def expected_tensors(description: Description, network: PUNN) -> dict[str, tuple[list[int], str]]:
    """Shape and type of every tensor in a file; ``class_of`` is in the description."""
    own = "F64" if description.dtype == "float64" else "F32"
    expected = {
        name: (list(value.shape), "F64" if name.startswith("scaling.") else own)
        for name, value in network.state_dict().items()
        if name != "class_of"
    }
    if description.covered:
        k, classes = network.functions, network.classes
        expected |= {f"coverage.{name}": ([k], "I64") for name in ("rows", "own", "right")}
        expected |= {"coverage.mass": ([k], "F64"), "coverage.peak": ([k], "F64")}
        expected["coverage.of_class"] = ([classes], "I64")
    if description.ranged:
        expected["ranges"] = ([description.features, 3], "F64")
    return expected


def _family(module: nn.Module) -> Family:
    """The description of a module of ours; a module that merely looks like one is refused later, by its tensors."""
    if type(module) is SeparateMLP:
        return MLPGates(features=module.features, gates=module.gates, hidden=list(module.hidden))
    if type(module) is Ball:
        return BallGates(features=module.features, gates=module.gates)
    if type(module) is Ellipsoid:
        return EllipsoidGates(features=module.features, gates=module.gates, full=module.full)
    if type(module) is Shell:
        inner = None if module.inner is None else _radius(module.inner)
        return ShellGates(features=module.features, gates=module.gates, inner=inner, outer=_radius(module.outer))
    if type(module) is Shared and module.output is not None and type(module.backbone) is nn.Sequential:
        layers = list(module.backbone)
        linears = [layer for layer in layers[::2] if type(layer) is nn.Linear]
        if 2 * len(linears) == len(layers) and all(type(layer) is nn.ReLU for layer in layers[1::2]):
            features = [*linears, module.output][0].in_features
            widths = [linear.out_features for linear in linears]
            return SharedGates(features=features, gates=module.gates, hidden=widths, coupled=module.coupled)
    raise _custom("gates", module)


def _radius(module: Radius) -> RadiusKind:
    if type(module) is ConstantRadius:
        return RadiusKind(kind="constant", degree=0)
    if type(module) is FourierRadius:
        return RadiusKind(kind="fourier", degree=module.order)
    if type(module) is HarmonicRadius:
        return RadiusKind(kind="harmonic", degree=max(module.degrees))
    raise _custom("radius", module)


def _custom(role: str, thing: object) -> TypeError:
    name = getattr(thing, "__name__", type(thing).__name__)
    return TypeError(
        f"a model file holds gates and activations of punn alone, and cannot hold the {role} {name}: keep the code "
        "that makes it, and save its numbers with torch.save(model.network_.state_dict(), path)"
    )


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)
