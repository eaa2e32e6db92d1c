"""The nearest point at which other classes win, in the standardised features that gates see.

In closed form on the boundary of one ball or ellipsoid, by gradients and restarts otherwise.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor

from punn.gates import Ball, Ellipsoid
from punn.geometry import family_of
from punn.ledger import Array
from punn.network import PUNN

__all__ = ["Box", "UnreachableError", "nearest_on_shape", "search"]

STEPS = 250
POLISHED = 4  # the nearest candidates go on to the minimiser,
POLISHABLE = 200  # unless they have more features than this, for it needs a matrix of that size
RIVALS = 5  # classes that a candidate must keep below it
LEAD = 1e-6  # by which the winner must be ahead, in nats


class UnreachableError(Exception):
    """A shape's boundary does not meet the points that may be reached."""


@dataclass(frozen=True)
class Box:
    """A point, the limits of every feature, and which ones may change."""

    start: Array
    low: Array
    high: Array
    free: np.ndarray

    def holds(self, point: Array) -> bool:
        """Whether a point is within the limits, but for rounding."""
        slack = 1e-9 * (1 + np.abs(point))
        inside = (point >= self.low - slack) & (point <= self.high + slack)
        return bool((inside | ~self.free).all())


@torch.no_grad()
def nearest_on_shape(network: PUNN, box: Box, targets: list[int]) -> Array | None:
    r"""The nearest point on the boundary of the one shape that decides, or None if more than one gate does.

    The boundary is :math:`(z - c)^\top A (z - c) = 1`; with :math:`A = I / r^2` it is a ball's. Fixed features leave an
    ellipsoid in the free ones.
    """
    family, _ = family_of(network.gates, 0)
    if network.functions != 2 or network.activation.names != ["sigmoid"] or not isinstance(family, Ball | Ellipsoid):
        return None
    center = family.center[0].double().cpu().numpy()
    if isinstance(family, Ball):
        matrix = np.eye(len(center)) / float(family.radius[0]) ** 2
    else:
        matrix = family.matrix[0].double().cpu().numpy()
    free, held = box.free, (box.start - center)[~box.free]
    inner = matrix[np.ix_(free, free)]
    pull = matrix[np.ix_(free, ~free)] @ held
    middle = center[free] - np.linalg.solve(inner, pull)
    level = 1 - held @ matrix[np.ix_(~free, ~free)] @ held + pull @ np.linalg.solve(inner, pull)
    if level <= 0:
        raise UnreachableError
    point = box.start.copy()
    point[free] = middle + _on_ellipsoid(box.start[free] - middle, inner / level)
    return point


def _on_ellipsoid(y: Array, matrix: Array) -> Array:
    """The point of y' A y = 1 that is nearest to a point.

    Along the eigenvectors it is y / (1 + t a), where t makes it lie on the ellipsoid: positive from outside, and
    negative, though above -1 / a for the largest a, from inside.
    """
    growth, axes = np.linalg.eigh(matrix)
    along = axes.T @ y
    steepest = growth[-1]

    def excess(t: float) -> float:
        return float((growth * (along / (1 + t * growth)) ** 2).sum() - 1)

    if excess(0.0) > 0:
        far = (np.sqrt(len(y)) * np.abs(along * np.sqrt(growth)).max() + 1) / growth[0]
        return np.asarray(axes @ (along / (1 + brentq(excess, 0.0, far, xtol=1e-15, rtol=1e-14) * growth)))
    least = -(1 - 1e-12) / steepest
    if excess(least) > 0:
        return np.asarray(axes @ (along / (1 + brentq(excess, least, 0.0, xtol=1e-15, rtol=1e-14) * growth)))
    # In the middle of its shortest axis both ends are as near: the missing length goes along that axis.
    others = np.where(growth < steepest, along / (1 - np.minimum(growth / steepest, 1 - 1e-12)), 0.0)
    missing = max(1 - float((growth * others**2).sum()), 0.0) / steepest
    others[-1] = np.sqrt(missing) * (-1.0 if along[-1] < 0 else 1.0)
    return np.asarray(axes @ others)


def search(network: PUNN, box: Box, targets: list[int], restarts: int, seed: int) -> list[Array]:
    """Points in which a target wins, as near as gradients and a minimiser bring them; none, if none was found."""
    problem = _Problem(network, box, targets)
    found = problem.descend(problem.starts(restarts, seed))
    found.sort(key=problem.distance)
    polish = box.free.sum() <= POLISHABLE
    return [*found, *(problem.polish(point) for point in found[:POLISHED] if polish)]


class _Problem:
    """How far targets are ahead, on a copy of the network in double precision."""

    def __init__(self, network: PUNN, box: Box, targets: list[int]) -> None:
        self.network, self.box, self.targets = copy.deepcopy(network).double().cpu().eval(), box, targets
        self.network.requires_grad_(False)
        self.others = [c for c in range(network.classes) if c not in targets]
        self.start = torch.from_numpy(box.start)
        limits = (np.where(box.free, end, box.start) for end in (box.low, box.high))
        self.low, self.high = (torch.from_numpy(end) for end in limits)

    def log_p(self, z: Tensor, continued: bool = True) -> Tensor:
        return self.network.log_probabilities(self.network.gates(z), continued)

    def lead(self, z: Tensor, continued: bool = True) -> Tensor:
        log_p = self.log_p(z, continued).clamp(min=-1e30)
        return log_p[:, self.targets].amax(-1) - log_p[:, self.others].amax(-1)

    def distance(self, point: Array) -> float:
        return float(np.linalg.norm(point - self.box.start))

    def inside(self, z: Tensor) -> Tensor:
        return z.maximum(self.low).minimum(self.high)

    def starts(self, count: int, seed: int) -> Tensor:
        """The point itself, points around it near and far, and the centers of the targets' shapes."""
        generator = torch.Generator().manual_seed(seed)
        spread = torch.logspace(-1, 0.7, count, dtype=torch.float64).unsqueeze(-1)
        spread[0] = 0.0
        points = [self.start + spread * torch.randn(count, len(self.start), generator=generator).double()]
        for i, c in enumerate(self.network.class_of.tolist()[:-1]):
            family, gate = family_of(self.network.gates, i)
            if c in self.targets and isinstance(family, Ball | Ellipsoid):
                points.append(family.center[gate].detach().unsqueeze(0))
        return self.inside(torch.cat(points))

    def descend(self, z: Tensor) -> list[Array]:
        """From every start the nearest point met on the way in which a target wins, drawn back as far as it does."""
        z = z.clone().requires_grad_(True)
        best, nearest = z.detach().clone(), torch.full((len(z),), torch.inf, dtype=torch.float64)
        optimizer = torch.optim.Adam([z], lr=0.05)
        for _ in range(STEPS):
            lead, length = self.lead(z), (z - self.start).norm(dim=-1)
            won = (lead.detach() > 0) & (length.detach() < nearest)
            best[won], nearest[won] = z.detach()[won], length.detach()[won]
            loss = length + 20 * torch.relu(0.01 - lead)
            optimizer.zero_grad()
            loss.sum().backward()
            optimizer.step()
            with torch.no_grad():
                z.copy_(self.inside(z))
        with torch.no_grad():
            return list(self._drawn_back(best[torch.isfinite(nearest)]).numpy())

    def _drawn_back(self, points: Tensor) -> Tensor:
        """Towards the start, as far as a target still wins: half by half."""
        loses, wins = torch.zeros(len(points), 1).double(), torch.ones(len(points), 1).double()
        for _ in range(45):
            share = (loses + wins) / 2
            won = (self.lead(self.start + share * (points - self.start), continued=False) > 0).unsqueeze(-1)
            loses, wins = torch.where(won, loses, share), torch.where(won, share, wins)
        return self.start + wins * (points - self.start)

    def polish(self, point: Array) -> Array:
        """A minimum of the distance under the condition that the winner stays ahead of its rivals."""
        free = np.flatnonzero(self.box.free)
        log_p = self.log_p(torch.from_numpy(point).unsqueeze(0))[0]
        winner = max(self.targets, key=lambda c: float(log_p[c]))
        rivals = [c for c in log_p.argsort(descending=True).tolist() if c != winner][:RIVALS]

        def leads(values: Array) -> tuple[Array, Array]:
            z = torch.from_numpy(self.box.start).clone()
            z[free] = torch.from_numpy(values)
            z.requires_grad_(True)
            now = self.log_p(z.unsqueeze(0))[0]
            ahead = now[winner] - now[rivals]
            slopes = [torch.autograd.grad(one, z, retain_graph=True)[0][free] for one in ahead]
            return ahead.detach().numpy() - LEAD, torch.stack(slopes).numpy()

        origin = self.box.start[free]
        result = minimize(
            lambda values: (0.5 * float(((values - origin) ** 2).sum()), values - origin),
            point[free],
            jac=True,
            method="SLSQP",
            bounds=list(zip(self.low.numpy()[free], self.high.numpy()[free], strict=True)),
            constraints={"type": "ineq", "fun": lambda v: leads(v)[0], "jac": lambda v: leads(v)[1]},
            options={"maxiter": 100, "ftol": 1e-12},
        )
        moved = self.box.start.copy()
        moved[free] = result.x if np.isfinite(result.x).all() else point[free]
        return moved
