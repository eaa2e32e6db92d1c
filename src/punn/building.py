"""From names to a network: the chain of classes, the families of gates, their activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from punn.activations import Name
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
from punn.network import PUNN

__all__ = [
    "GATES",
    "build_network",
    "chain_order",
    "class_of_chain",
    "families_of",
    "parts_of_classes",
    "starts_from_data",
]

Family = str | Callable[[int, int], nn.Module]


def _shared(features: int, gates: int, hidden: tuple[int, ...], degree: int | None) -> nn.Module:
    # Coupled gates learn as fast as softmax; a gate of its own network has no need of it.
    width = hidden[-1] if hidden else features
    return Shared(mlp(features, hidden), gates, features=width, coupled=True)


def _shell(features: int, gates: int, hidden: tuple[int, ...], degree: int | None) -> nn.Module:
    return Shell(ConstantRadius(features, gates), ConstantRadius(features, gates))


def _fourier(features: int, gates: int, hidden: tuple[int, ...], degree: int | None) -> nn.Module:
    order = 5 if degree is None else degree
    return Shell(FourierRadius(order, gates, features), FourierRadius(order, gates, features))


def _harmonic(features: int, gates: int, hidden: tuple[int, ...], degree: int | None) -> nn.Module:
    return Shell(None, HarmonicRadius(features, 2 if degree is None else degree, gates))


#: Every family by its name: features, gates, hidden, degree -> module.
GATES: dict[str, Callable[[int, int, tuple[int, ...], int | None], nn.Module]] = {
    "mlp": lambda features, gates, hidden, degree: SeparateMLP(features, gates, hidden),
    "shared": _shared,
    "ball": lambda features, gates, hidden, degree: Ball(features, gates),
    "ellipsoid": lambda features, gates, hidden, degree: Ellipsoid(features, gates),
    "shell": _shell,
    "fourier": _fourier,
    "harmonic": _harmonic,
}

#: Functions that "auto" gives separate networks. A gate on its own must tell its class from all later ones at once,
#: which is hard even where planes part the classes; networks that share what they learn, and are coupled, have no
#: such trouble.
FEW = 2

NETWORKS = ("auto", "mlp", "shared")
SHELLS = ("shell", "fourier", "harmonic")
SHAPES = ("ball", "ellipsoid", *SHELLS)


def build_network(
    gates: Family | Sequence[Family],
    activation: Name | Sequence[Name],
    class_of: Sequence[int],
    features: int,
    hidden: Sequence[int],
    degree: int | None = None,
) -> PUNN:
    """A network for a chain of functions.

    Arguments:
        gates: ``"auto"`` (a network for a single gate, a shared one for more), a family's name,
            a function ``(features, gates) -> module``, or a list with one per gate.
        activation: ``"auto"`` (a window for shells, else a sigmoid), a name, a callable, or a list of them.
        class_of: The class of every partition function.
        features: The number of features.
        hidden: Widths of the hidden layers of networks.
        degree: Frequency or degree of radius functions.

    Example:
        >>> network = build_network(["ball", "mlp", "ball"], "auto", [0, 1, 2, 3], features=2, hidden=(8,))
        >>> network.gates.positions, network.activation.names
        ([[0, 2], [1]], ['sigmoid', 'sigmoid', 'sigmoid'])
    """
    names = families_of(gates, len(class_of) - 1)
    groups = {name: [i for i, other in enumerate(names) if other == name] for name in dict.fromkeys(names)}
    if "shared" in groups and len(groups) > 1:
        raise ValueError("shared gates stand or fall together: use gates='shared' alone, or 'mlp' in a list")
    modules = [_family(name, features, len(index), tuple(hidden), degree) for name, index in groups.items()]
    module = modules[0] if len(modules) == 1 else Hybrid(modules, list(groups.values()))
    return PUNN(module, _activations(activation, names), class_of)


def families_of(gates: Family | Sequence[Family], count: int) -> list[Family]:
    """The family of every gate, checked."""
    if isinstance(gates, str) and gates == "auto":
        gates = "mlp" if count < FEW else "shared"
    names = [gates] * count if isinstance(gates, str) or callable(gates) else list(gates)
    if len(names) != count:
        raise ValueError(f"gates must be one, or a list with one per gate ({count}), got {len(names)}")
    for name in names:
        if not callable(name) and name not in GATES:
            raise ValueError(f"unknown gates {name!r}: use auto, one of {', '.join(GATES)}, or a function")
    return names


def starts_from_data(gates: nn.Module) -> bool:
    """Whether all gates are of families that can start from data; a user's own module starts as it was made."""
    if isinstance(gates, Hybrid):
        return all(starts_from_data(family) for family in gates.families)
    return isinstance(gates, SeparateMLP | Shared | Ball | Ellipsoid | Shell)


def _family(name: Family, features: int, gates: int, hidden: tuple[int, ...], degree: int | None) -> nn.Module:
    if isinstance(name, str):
        return GATES[name](features, gates, hidden, degree)
    module = name(features, gates)
    if not isinstance(module, nn.Module):
        raise TypeError(f"the function for gates must build a torch module, got {type(module).__name__}")
    return module


def _activations(activation: Name | Sequence[Name], families: list[Family]) -> list[Name]:
    single = isinstance(activation, str) or callable(activation)
    names: list[Name] = [activation] * len(families) if single else list(activation)  # type: ignore[arg-type, list-item]
    if len(names) != len(families):
        raise ValueError(f"activation must be one, or a list with one per gate ({len(families)}), got {len(names)}")
    fitting = ["window" if family in SHELLS else "sigmoid" for family in families]
    return [fit if name == "auto" else name for name, fit in zip(names, fitting, strict=True)]


def parts_of_classes(parts: int | Mapping[Any, int], classes: np.ndarray) -> list[int]:
    """How many partition functions every class has, checked."""
    if isinstance(parts, Mapping):
        unknown = [label for label in parts if label not in classes.tolist()]
        if unknown:
            raise ValueError(f"parts names the class {unknown[0]!r}, which is not one of {classes.tolist()}")
        numbers = [parts.get(label, 1) for label in classes.tolist()]
    else:
        numbers = [parts] * len(classes)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"parts must be a positive integer, or a mapping from class to one, got {number!r}")
    return [int(number) for number in numbers]


def class_of_chain(order: Sequence[int], parts: Sequence[int]) -> list[int]:
    """The class of every function: rounds of all classes that still have a part, in order.

    Example:
        >>> class_of_chain([2, 0, 1], parts=[1, 2, 1])
        [2, 0, 1, 1]
    """
    return [c for turn in range(max(parts)) for c in order if parts[c] > turn]


def chain_order(
    order: str | Sequence[Any], classes: np.ndarray, x: torch.Tensor, y: torch.Tensor, rng: np.random.RandomState
) -> list[int]:
    """The classes (as indices) in the order in which they stand in the chain."""
    if not isinstance(order, str):
        wanted = list(order)
        if sorted(map(str, wanted)) != sorted(map(str, classes.tolist())):
            raise ValueError(f"order must name every class once, expected {classes.tolist()}, got {wanted}")
        labels = [str(label) for label in classes.tolist()]
        return [labels.index(str(label)) for label in wanted]
    if order == "given":
        return list(range(len(classes)))
    if order == "random":
        return [int(c) for c in rng.permutation(len(classes))]
    if order == "frequency":
        counts = torch.bincount(y, minlength=len(classes)).numpy()
        return [int(c) for c in np.argsort(-counts, kind="stable")]
    if order == "separable":
        return _separable(classes, x, y)
    raise ValueError(f"order must be 'given', 'frequency', 'random', 'separable' or a list of classes, got {order!r}")


def _separable(classes: np.ndarray, x: torch.Tensor, y: torch.Tensor, most: int = 3000) -> list[int]:
    """The class that its neighbours tell apart best comes first, so that explanations are short."""
    from sklearn.metrics import f1_score
    from sklearn.neighbors import KNeighborsClassifier

    stride = len(x) // most + 1
    rows, labels = x[::stride].numpy(), y[::stride].numpy()
    near = KNeighborsClassifier(min(6, len(rows))).fit(rows, labels).kneighbors(rows, return_distance=False)[:, 1:]
    votes = np.stack([(labels[near] == c).mean(1) for c in range(len(classes))], 1)
    clarity = f1_score(labels, votes.argmax(1), labels=range(len(classes)), average=None, zero_division=0)
    return [int(c) for c in np.argsort(-clarity, kind="stable")]
