r"""Where a shape's gate opens and closes, as distances from its center and in the user's own units.

Along a ray from its center a shape's gate argument only rises or only falls, so the points where the gate
accepts at least a given share lie between two distances. The network sees standardised features: a ball there is
an ellipsoid along the axes of the user's units, with center :math:`\mu + \sigma c` and semi-axes :math:`\sigma r`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from punn.activations import Name, argument_for
from punn.gates import Ball, Ellipsoid, Hybrid, Shared, Shell
from punn.gates.radii import ConstantRadius
from punn.network import PUNN, Standardize

__all__ = ["Outline", "Shape", "distances", "family_of", "kind_of", "outline_of", "units_of"]

Array = NDArray[np.float64]
Shape = Ball | Ellipsoid | Shell


@dataclass(frozen=True)
class Outline:
    """The boundary of a gate, where it accepts a half, in the user's units.

    Attributes:
        center: The center, shape (features,).
        outer: Where the line through the center along every feature leaves the region, (features, 2): below
            and above the center. Infinite for a gate that never closes.
        inner: The same for the hole in the middle, or None.
        semi_axes: Lengths of the semi-axes of an ellipsoid: by feature, or the longest first if it is turned;
            None where the radius depends on the direction.
        axes: Directions of the semi-axes of a turned ellipsoid as rows, shape (features, features), else None.
        sharpness: The gate's argument in the center of a ball or an ellipsoid, which has no unit: 3 is soft
            (it accepts 95% there), 30 is sharp. None for a shell.
        edge: How much farther out than the boundary the gate accepts only 10%, as a factor.
    """

    center: Array
    outer: Array
    inner: Array | None
    semi_axes: Array | None
    axes: Array | None
    sharpness: float | None
    edge: float


def family_of(gates: nn.Module, position: int) -> tuple[nn.Module, int]:
    """The family that holds the gate at a position of the chain, and the gate's number in it."""
    if not isinstance(gates, Hybrid):
        return gates, position
    for family, index in zip(gates.families, gates.positions, strict=True):
        if position in index:
            return family, index.index(position)
    raise IndexError(f"expected a gate from 0 to {gates.gates - 1}, got {position}")


def units_of(network: PUNN, features: int) -> tuple[Array, Array]:
    """Mean and scale of every feature, by which the network standardises; 0 and 1 if it does not."""
    if isinstance(network.scaling, Standardize):
        return network.scaling.mean.cpu().numpy(), network.scaling.scale.cpu().numpy()
    return np.zeros(features), np.ones(features)


@torch.no_grad()
def distances(network: PUNN, position: int, direction: Tensor, q: float = 0.5) -> tuple[Tensor, Tensor]:
    """Where a shape accepts at least q: from which to which distance from its center, in standardised units.

    Arguments:
        network: The network.
        position: The gate's place in the chain; it must be a shape.
        direction: Unit vectors, shape (n, features).
        q: The share that the gate accepts.

    Returns:
        Two tensors of shape (n,), zero where there is no hole and infinite where the gate never closes.

    Example:
        >>> network = PUNN(Ball(features=2, gates=1))
        >>> [d.tolist() for d in distances(network, 0, torch.eye(2))]
        [[0.0, 0.0], [1.0, 1.0]]
    """
    family, gate = family_of(network.gates, position)
    low, high = _arguments(network, position, q)
    direction = direction.double()
    if isinstance(family, Ball):
        radius, sharpness = float(family.radius[gate]), float(family.sharpness[gate])
        near, far = (torch.full((len(direction),), radius - theta / sharpness).double() for theta in (high, low))
    elif isinstance(family, Ellipsoid):
        sharpness = float(family.sharpness[gate])
        form = (direction @ family._factor()[gate].double()).square().sum(-1)
        near, far = (((1 - theta / sharpness) / form).clamp(min=0).sqrt() for theta in (high, low))
    elif isinstance(family, Shell):
        everywhere = direction.to(family.center).unsqueeze(1).expand(-1, family.gates, -1)
        inner, outer = (radius[:, gate].double() for radius in family.radii(everywhere))
        if family.inner is None:
            near, far = ((2 * theta - 1) * outer for theta in (low, high))
        else:
            near, far = (inner + theta * (outer - inner) for theta in (low, high))
    else:
        raise TypeError(f"only shapes have a boundary, the gate at position {position} is {type(family).__name__}")
    return near.clamp(min=0), far.clamp(min=0)


@torch.no_grad()
def outline_of(network: PUNN, position: int) -> Outline | None:
    """The boundary of a gate in the user's units; None for networks, which have no geometry."""
    family, gate = family_of(network.gates, position)
    if not isinstance(family, Ball | Ellipsoid | Shell):
        return None
    mean, scale = units_of(network, family.features)
    center = mean + scale * family.center[gate].double().cpu().numpy()
    unit = torch.eye(family.features).to(family.center.device)
    below, above = distances(network, position, -unit), distances(network, position, unit)
    near, far = (
        np.stack([center - scale * b.cpu().numpy(), center + scale * a.cpu().numpy()], 1)
        for b, a in zip(below, above, strict=True)
    )
    far_tenth = distances(network, position, unit, 0.1)[1].cpu().numpy()
    half = above[1].cpu().numpy()
    edge = np.divide(far_tenth, half, out=np.full_like(half, np.inf), where=(half > 0) & np.isfinite(half))
    semi_axes, axes = _semi_axes(family, gate, scale, half)
    hole = near if (near[:, 0] < near[:, 1]).any() else None
    return Outline(center, far, hole, semi_axes, axes, _sharpness(family, gate), float(edge.mean()))


def _arguments(network: PUNN, position: int, q: float) -> tuple[float, float]:
    """The arguments between which the gate accepts at least q."""
    name: Name = network.activation.names[position]
    theta = float(argument_for(name, torch.tensor(q, dtype=torch.float64)))
    if name == "gaussian":
        return -theta, theta
    if name == "bump":
        theta *= float(network.activation.width[network.activation.names[:position].count("bump")])
        return -theta, theta
    if name in ("window", "compact_window"):
        return 1 - theta, theta
    return theta, math.inf  # a sigmoid; of a user's own activation no more is known than its argument


def _semi_axes(family: Shape, gate: int, scale: Array, half: Array) -> tuple[Array | None, Array | None]:
    if isinstance(family, Shell):
        constant = all(isinstance(radius, ConstantRadius) for radius in (family.outer, family.inner or family.outer))
        return (scale * half, None) if constant else (None, None)
    if isinstance(family, Ball) or family.tilt is None:
        return scale * half, None
    # The ellipsoid is what scale * L^-T makes of the unit ball; how far out the half lies is the same on every axis.
    factor = family._factor()[gate].double().cpu().numpy()
    reach = half[0] * np.sqrt(factor[0] @ factor[0])
    directions, lengths, _ = np.linalg.svd(scale[:, None] * np.linalg.inv(factor).T * reach)
    return lengths, directions.T


def _sharpness(family: Shape, gate: int) -> float | None:
    if isinstance(family, Shell):
        return None
    radius = float(family.radius[gate]) if isinstance(family, Ball) else 1.0
    return float(family.sharpness[gate]) * radius


def kind_of(family: nn.Module) -> str:
    """What a family is, in a word."""
    if isinstance(family, Shell):
        return "shell" if family.inner is not None else "star"
    names = {Ball: "ball", Ellipsoid: "ellipsoid", Shared: "shared network"}
    return names.get(type(family), "network")
