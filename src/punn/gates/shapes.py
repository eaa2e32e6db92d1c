r"""Shapes: gate arguments from a few geometric numbers.

A shape has a center, a size and, where the activation has no scale of its own, a sharpness.
Positive parameters are stored raw and read in true units (``raw_radius`` / ``radius``).
All gates of a family are evaluated together, shape (n, gates).

``start(x, part, theta)`` places every gate on the rows of its partition function;
``resize(factor)`` makes it larger or smaller, so that it takes the share it should.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from punn.gates.radii import Radius, check_features, check_sizes, polar, softplus_inverse, weighted_mean

__all__ = ["Ball", "Ellipsoid", "Shell"]

# A squared distance stays finite in single precision up to here.
_FARTHEST = 1e15
# How sharp an ellipsoid starts: it accepts 95% of what reaches its center.
_SHARPNESS = 3.0


class Ball(nn.Module):
    r"""A soft ball per gate, :math:`\theta_i = s_i\,(r_i - \lVert x - c_i \rVert)`.

    Learns :math:`d + 2` numbers per gate: center, radius, sharpness.

    Arguments:
        features: The number of features :math:`d`.
        gates: The number of gates.

    Example:
        >>> ball = Ball(features=2, gates=1)
        >>> ball(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).detach()
        tensor([[  5.],
                [-20.]])
    """

    def __init__(self, features: int, gates: int) -> None:
        super().__init__()
        check_sizes(features=features, gates=gates)
        self.features, self.gates = features, gates
        self.center = nn.Parameter(torch.zeros(gates, features))
        self.raw_radius = nn.Parameter(softplus_inverse(torch.ones(gates)))
        self.raw_sharpness = nn.Parameter(softplus_inverse(torch.full((gates,), 5.0)))

    @property
    def radius(self) -> Tensor:
        """The distance from the center at which a sigmoid gate accepts a half."""
        return F.softplus(self.raw_radius)

    @property
    def sharpness(self) -> Tensor:
        """How fast the argument falls with the distance."""
        return F.softplus(self.raw_sharpness)

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        check_features(x, self.features)
        distance, _ = polar(x.unsqueeze(-2) - self.center)
        return self.sharpness * (self.radius - distance)

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Center and radius of the rows of every function; with a generator, somewhere near."""
        center, spread = _placed(x, part, self.gates, weight, generator)
        radius = torch.linalg.vector_norm(spread, dim=-1) * 1.25
        self.center.copy_(center)
        self.raw_radius.copy_(softplus_inverse(radius))
        self.raw_sharpness.copy_(softplus_inverse(5.0 / radius))

    @torch.no_grad()
    def resize(self, factor: Tensor) -> None:
        """Multiply every radius."""
        self.raw_radius.copy_(softplus_inverse(self.radius * factor))

    def extra_repr(self) -> str:
        """Sizes and true radii."""
        return f"features={self.features}, gates={self.gates}, radius={_short(self.radius)}"


class Ellipsoid(nn.Module):
    r"""A soft ellipsoid per gate, :math:`\theta_i = s_i\,(1 - (x - c_i)^\top A_i\, (x - c_i))`.

    Axis-aligned it learns :math:`2d + 1` numbers per gate: center, semi-axes, sharpness. With
    ``full=True`` it may turn: :math:`A_i = L_i L_i^\top` with a triangular :math:`L_i` of positive
    diagonal, positive definite for any value of the parameters.

    Arguments:
        features: The number of features :math:`d`.
        gates: The number of gates.
        full: Whether the axes may turn.

    Example:
        >>> Ellipsoid(features=2, gates=1).semi_axes.tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, features: int, gates: int, full: bool = False) -> None:
        super().__init__()
        check_sizes(features=features, gates=gates)
        self.features, self.gates, self.full = features, gates, full
        self.center = nn.Parameter(torch.zeros(gates, features))
        #: The diagonal of L: how fast the quadratic form grows along every axis.
        self.raw_growth = nn.Parameter(softplus_inverse(torch.ones(gates, features)))
        self.raw_sharpness = nn.Parameter(softplus_inverse(torch.full((gates,), _SHARPNESS)))
        below = features * (features - 1) // 2
        self.tilt = nn.Parameter(torch.zeros(gates, below)) if full and below else None

    @property
    def sharpness(self) -> Tensor:
        """How fast the argument falls with the quadratic form."""
        return F.softplus(self.raw_sharpness)

    @property
    def matrix(self) -> Tensor:
        r"""The positive definite :math:`A_i`, shape (gates, features, features)."""
        factor = self._factor()
        return factor @ factor.transpose(-1, -2)

    @property
    def semi_axes(self) -> Tensor:
        """Lengths of the semi-axes, shape (gates, features); by feature if axis-aligned, else the longest first."""
        if self.tilt is None:
            return F.softplus(self.raw_growth).reciprocal()
        growth: Tensor = torch.linalg.eigvalsh(self.matrix)
        return growth.rsqrt()

    @property
    def rotation(self) -> Tensor:
        """Directions of the semi-axes as columns, shape (gates, features, features)."""
        if self.tilt is None:
            return torch.eye(self.features).to(self.center).expand(self.gates, -1, -1)
        vectors: Tensor = torch.linalg.eigh(self.matrix).eigenvectors
        return vectors

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        check_features(x, self.features)
        offset = x.unsqueeze(-2) - self.center
        if self.tilt is None:
            offset = offset * F.softplus(self.raw_growth)
        else:
            offset = torch.einsum("...gi,gij->...gj", offset, self._factor())
        distance, _ = polar(offset)
        return self.sharpness * (1 - distance.clamp(max=_FARTHEST).square())

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Center and semi-axes of the rows of every function; with a generator, somewhere near."""
        center, spread = _placed(x, part, self.gates, weight, generator)
        self.center.copy_(center)
        self.raw_growth.copy_(softplus_inverse(1 / (1.25 * self.features**0.5 * spread)))
        self.raw_sharpness.copy_(softplus_inverse(torch.full_like(self.raw_sharpness, _SHARPNESS)))
        if self.tilt is not None:
            self.tilt.zero_()

    @torch.no_grad()
    def resize(self, factor: Tensor) -> None:
        """Multiply every semi-axis."""
        growth = F.softplus(self.raw_growth) / factor.unsqueeze(-1)
        self.raw_growth.copy_(softplus_inverse(growth))
        if self.tilt is not None:
            self.tilt.div_(factor.unsqueeze(-1))

    def extra_repr(self) -> str:
        """Sizes and true semi-axes."""
        axes = _short(self.semi_axes.flatten())
        return f"features={self.features}, gates={self.gates}, full={self.full}, semi_axes={axes}"

    def _factor(self) -> Tensor:
        diagonal = torch.diag_embed(F.softplus(self.raw_growth))
        if self.tilt is None:
            return diagonal
        row, column = torch.tril_indices(self.features, self.features, -1, device=self.tilt.device)
        # Adding to a copy, where an assignment would stop vmap.
        return diagonal.flatten(-2).index_add(-1, row * self.features + column, self.tilt).view_as(diagonal)


class Shell(nn.Module):
    r"""A shell per gate between two radius functions, with the normalised radial coordinate as argument.

    .. math:: t_i(x) = \frac{\lVert x - c_i \rVert - r_{in}(\hat n)}{r_{out}(\hat n) - r_{in}(\hat n)}

    It is 0 on the inner and 1 on the outer boundary: use it with the window activations. The outer
    radius is the inner one plus a thickness, so that :math:`0 \le r_{in} < r_{out}` in every direction,
    for any value of the parameters.

    Without an inner radius the shell has no hole: a star-shaped region, with the center as its middle,
    :math:`t = \tfrac12 (1 + \lVert x - c \rVert / r_{out})`.

    Arguments:
        inner: Radius function of the inner boundary, or None.
        outer: Radius function of the thickness, or of the outer boundary if there is no inner one.

    Example:
        >>> from punn.gates.radii import ConstantRadius
        >>> shell = Shell(ConstantRadius(2), ConstantRadius(2))
        >>> shell(torch.tensor([[1.0, 0.0], [2.0, 0.0]])).detach()
        tensor([[0.0000],
                [0.9989]])
    """

    def __init__(self, inner: Radius | None, outer: Radius) -> None:
        super().__init__()
        if not isinstance(outer, Radius) or not (inner is None or isinstance(inner, Radius)):
            raise TypeError(
                f"inner and outer must be radius functions, got {type(inner).__name__} and {type(outer).__name__}"
            )
        if inner is not None and (inner.features, inner.gates) != (outer.features, outer.gates):
            raise ValueError(
                f"inner and outer must agree, got {inner.gates} gates in {inner.features} features "
                f"and {outer.gates} gates in {outer.features} features"
            )
        self.features, self.gates = outer.features, outer.gates
        self.center = nn.Parameter(torch.zeros(self.gates, self.features))
        self.inner, self.outer = inner, outer

    def radii(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Inner and outer radius in given directions, (n, gates, features) -> two of (n, gates)."""
        inner, thickness = self._inner_and_thickness(direction)
        return inner, inner + thickness

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        check_features(x, self.features)
        distance, direction = polar(x.unsqueeze(-2) - self.center)
        inner, thickness = self._inner_and_thickness(direction)
        if self.inner is None:
            return (1 + distance / thickness) / 2
        return (distance - inner) / thickness

    def roughness(self) -> Tensor:
        """How fast the radius functions wind, for a smoothness penalty."""
        rough = self.outer.roughness()
        return rough if self.inner is None else rough + self.inner.roughness()

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Center of the rows of every function, boundaries around most of their distances."""
        center, _ = _placed(x, part, self.gates, weight, generator)
        self.center.copy_(center)
        distance, _ = polar(x.unsqueeze(-2) - center)
        middle, deviation = _moments(distance.unsqueeze(-1), part, self.gates, weight)
        # Two deviations hold nearly all rows, whatever their distribution.
        low, high = (middle - 2 * deviation).clamp(min=0).squeeze(-1), (middle + 2 * deviation).squeeze(-1)
        if self.inner is None:
            self.outer.start(high)
        else:
            self.inner.start(low)
            self.outer.start(high - low)

    @torch.no_grad()
    def resize(self, factor: Tensor) -> None:
        """Multiply every thickness, around the middle of the shell."""
        thickness = self.outer.mean
        self.outer.start(thickness * factor)
        if self.inner is not None:
            self.inner.start((self.inner.mean + thickness * (1 - factor) / 2).clamp(min=0))

    def extra_repr(self) -> str:
        """Sizes and mean radii, in true units; below, the module `outer` holds the thickness alone."""
        inner, outer = self.radii(self.center.new_zeros(1, self.gates, self.features))
        return f"features={self.features}, gates={self.gates}, inner={_short(inner[0])}, outer={_short(outer[0])}"

    def _inner_and_thickness(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        outer = self.outer(direction)
        inner = torch.zeros_like(outer) if self.inner is None else self.inner(direction)
        # Thinner than a thousandth of its radius a shell means nothing, and its slope has no bound.
        return inner, outer + 1e-3 * inner + 1e-4


def _placed(
    x: Tensor, part: Tensor, gates: int, weight: Tensor | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the rows of every function, shape (gates, features) each."""
    center, spread = _moments(x.unsqueeze(-2).expand(-1, gates, -1), part, gates, weight)
    if generator is not None:
        noise = torch.randn(2, gates, x.shape[1], generator=generator).to(x)
        center, spread = center + noise[0] * spread, spread * (0.5 * noise[1]).exp()
    return center, spread


def _moments(values: Tensor, part: Tensor, gates: int, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and deviation per gate of values (n, gates, m) over its rows; over all rows, if it has none."""
    means, deviations = [], []
    counted = torch.ones_like(part, dtype=torch.bool) if weight is None else weight > 0
    for gate in range(gates):
        column = values[:, gate]
        overall = weighted_mean((column - weighted_mean(column, weight)).square(), weight).clamp(min=1e-6)
        own = counted & (part == gate)
        own = own if bool(own.any()) else counted
        rows, share = column[own], None if weight is None else weight[own]
        mean = weighted_mean(rows, share)
        variance = weighted_mean((rows - mean).square(), share)
        means.append(mean)
        deviations.append(variance.maximum(0.0025 * overall).sqrt())
    return torch.stack(means), torch.stack(deviations)


def _short(values: Tensor) -> str:
    text = ", ".join(f"{value:.3g}" for value in values.tolist()[:8])
    return f"[{text}{', ...' if len(values) > 8 else ''}]"
