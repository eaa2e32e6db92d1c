r"""Radius functions: a positive radius for every direction.

The contract is ``direction (n, gates, features) -> radius (n, gates)``, a unit vector (or zero,
where there is no direction) to a positive number. A radius is the softplus of a series in the
direction, so that it is positive for any value of its coefficients:

.. math:: r(\hat n) = \log\bigl(1 + e^{\sum_b a_b Y_b(\hat n)}\bigr)

The functions :math:`Y_b` are orthonormal on the sphere and :math:`Y_0 = 1`.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["ConstantRadius", "FourierRadius", "HarmonicRadius", "Radius", "polar"]

_MOST_FUNCTIONS = 1000


def polar(offset: Tensor) -> tuple[Tensor, Tensor]:
    """Length and direction of vectors, ``(*, features) -> (*), (*, features)``.

    Where the length is zero so is the direction. Values and gradients are finite there and for any
    finite vector, because the largest component is taken out before squares are formed.

    Example:
        >>> polar(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        (tensor([5., 0.]), tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]]))
    """
    largest = offset.detach().abs().amax(-1, keepdim=True)
    scaled = offset / torch.where(largest > 0, largest, 1.0)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    direction = scaled / torch.where(length > 0, length, 1.0)
    return (length * largest).squeeze(-1), direction


class Radius(nn.Module):
    """What all radius functions share: coefficients of a series, and where they start.

    Subclasses say what functions the series has; they are final.
    """

    def __init__(self, features: int, gates: int, degrees: list[int]) -> None:
        super().__init__()
        check_sizes(features=features, gates=gates)
        self.features, self.gates = features, gates
        #: Degree of every function of the series: the first is constant, later ones wind faster.
        self.degrees = degrees
        self.coefficients = nn.Parameter(torch.zeros(gates, len(degrees)))
        self.start(torch.ones(gates))

    def basis(self, direction: Tensor) -> Tensor:
        """The functions of the series, shape (n, gates, functions)."""
        raise NotImplementedError

    def forward(self, direction: Tensor) -> Tensor:
        """The radius in every direction, shape (n, gates)."""
        return F.softplus((self.basis(direction) * self.coefficients).sum(-1))

    @property
    def mean(self) -> Tensor:
        """The radius that the constant function alone would give, one per gate."""
        return F.softplus(self.coefficients[:, 0])

    @torch.no_grad()
    def start(self, radius: Tensor) -> None:
        """Make the radius the given one in every direction."""
        self.coefficients.zero_()
        self.coefficients[:, 0] = softplus_inverse(radius)

    def roughness(self) -> Tensor:
        r"""The mean squared slope of the series over the sphere, :math:`\sum_b \ell_b (\ell_b + d - 2)\, a_b^2`."""
        slope = [degree * (degree + self.features - 2) for degree in self.degrees]
        return (self.coefficients.square() * self.coefficients.new_tensor(slope)).sum()

    def extra_repr(self) -> str:
        """Sizes and mean radius, in true units."""
        radii = ", ".join(f"{r:.3g}" for r in self.mean.tolist()[:8])
        return f"features={self.features}, degree={max(self.degrees)}, mean=[{radii}]"


class ConstantRadius(Radius):
    """The same radius in every direction: one number per gate.

    Example:
        >>> ConstantRadius(features=2, gates=3).mean.tolist()
        [1.0, 1.0, 1.0]
    """

    def __init__(self, features: int, gates: int = 1) -> None:
        super().__init__(features, gates, [0])

    def basis(self, direction: Tensor) -> Tensor:
        """One."""
        return torch.ones_like(direction[..., :1])


class FourierRadius(Radius):
    r"""A truncated Fourier series in the plane: :math:`1 + 2M` numbers per gate.

    The functions :math:`\sqrt 2 \cos m\varphi` and :math:`\sqrt 2 \sin m\varphi` are powers of the
    direction as a complex number; no angle is ever formed.

    Arguments:
        order: The largest frequency :math:`M`.
        gates: The number of gates.
        features: Must be 2; in other dimensions use :class:`HarmonicRadius`.
    """

    def __init__(self, order: int, gates: int = 1, features: int = 2) -> None:
        if features != 2:
            raise ValueError(
                f"a Fourier radius lives in the plane, expected 2 features, got {features}; "
                "use HarmonicRadius (gates='harmonic')"
            )
        if order < 1:
            raise ValueError(f"order must be at least 1, got {order}; use ConstantRadius for a circle")
        super().__init__(features, gates, [0, *(m for m in range(1, order + 1) for _ in range(2))])
        self.order = order

    def basis(self, direction: Tensor) -> Tensor:
        """1, cos, sin, cos 2, sin 2, ..."""
        cos, sin = direction[..., 0], direction[..., 1]
        real, imaginary = cos, sin
        functions = [torch.ones_like(cos)]
        for _ in range(self.order):
            functions += [math.sqrt(2) * real, math.sqrt(2) * imaginary]
            real, imaginary = real * cos - imaginary * sin, real * sin + imaginary * cos
        return torch.stack(functions, -1)


class HarmonicRadius(Radius):
    r"""Spherical harmonics up to a degree, in any number of features from 2 up.

    A true orthonormal basis without a redundant function: in four features, degree 2 has
    1 + 4 + 9 = 14. Harmonics are polynomials in the components of the direction.

    Arguments:
        features: The number of features :math:`d`.
        degree: The largest degree :math:`L`.
        gates: The number of gates.
    """

    matrix: Tensor

    def __init__(self, features: int, degree: int, gates: int = 1) -> None:
        if features < 2:
            raise ValueError(f"directions need at least 2 features, got {features}")
        if degree < 1:
            raise ValueError(f"degree must be at least 1, got {degree}; use ConstantRadius for a sphere")
        sizes = [math.comb(features + level - 1, level) for level in range(degree + 1)]
        if sum(sizes) > _MOST_FUNCTIONS:
            raise ValueError(
                f"degree {degree} in {features} features needs {sum(sizes)} polynomials, more than "
                f"{_MOST_FUNCTIONS}; use a lower degree or fewer features"
            )
        blocks = [_harmonics(features, level) for level in range(degree + 1)]
        super().__init__(features, gates, [level for level, b in enumerate(blocks) for _ in range(b.shape[1])])
        #: Factors of every monomial; index `features` stands for the factor one.
        self.factors = [
            [*factors, *[features] * (degree - level)]
            for level in range(degree + 1)
            for factors in combinations_with_replacement(range(features), level)
        ]
        matrix: Tensor = torch.block_diag(*(torch.from_numpy(block) for block in blocks))
        self.register_buffer("matrix", matrix.to(torch.get_default_dtype()))

    def basis(self, direction: Tensor) -> Tensor:
        """The harmonics of the direction."""
        padded = F.pad(direction, (0, 1), value=1.0)
        monomials = torch.ones_like(direction[..., :1])
        for index in zip(*self.factors, strict=True):
            monomials = monomials * padded[..., list(index)]
        return monomials @ self.matrix.to(direction.dtype)


def _harmonics(features: int, degree: int) -> np.ndarray:
    """Orthonormal harmonic polynomials of one degree, as columns over the monomials of that degree.

    A harmonic polynomial is known by its monomials with at most one factor of the first variable; the
    Laplace equation gives the others. That spans the space, and a Cholesky factor makes it orthonormal.
    """
    powers = _powers(features, degree)
    free = powers[:, 0] <= 1
    columns = np.zeros((len(powers), int(free.sum())))
    columns[free] = np.eye(int(free.sum()))
    if degree >= 2:
        laplace = _laplacian(powers, _powers(features, degree - 2))
        columns[~free] = np.linalg.solve(laplace[:, ~free], -laplace[:, free])
    gram = columns.T @ _sphere_mean(powers[:, None] + powers[None]) @ columns
    return np.asarray(np.linalg.solve(np.linalg.cholesky(gram), columns.T).T)


def _powers(features: int, degree: int) -> np.ndarray:
    """Exponents of all monomials of a degree, shape (monomials, features)."""
    monomials = list(combinations_with_replacement(range(features), degree))
    return np.array([np.bincount(np.array(m, dtype=int), minlength=features) for m in monomials])


def _laplacian(powers: np.ndarray, lower: np.ndarray) -> np.ndarray:
    row = {tuple(p): i for i, p in enumerate(lower)}
    matrix = np.zeros((len(lower), len(powers)))
    for column, power in enumerate(powers):
        for variable in np.flatnonzero(power >= 2):
            reduced = power.copy()
            reduced[variable] -= 2
            matrix[row[tuple(reduced)], column] = power[variable] * (power[variable] - 1)
    return matrix


def _sphere_mean(powers: np.ndarray) -> np.ndarray:
    """Mean of a monomial over the unit sphere: zero if a power is odd, else a ratio of double factorials."""
    degree, features = int(powers.reshape(-1, powers.shape[-1])[0].sum()), powers.shape[-1]
    odd_factorial = np.cumprod([1.0, *range(1, degree + 1, 2)])  # (2m - 1)!! at m
    numerator = odd_factorial[powers // 2].prod(-1)
    denominator = math.prod(range(features, features + degree, 2))
    return np.where((powers % 2 == 0).all(-1), numerator / denominator, 0.0)


def softplus_inverse(y: Tensor) -> Tensor:
    """The raw value of a positive parameter."""
    y = y.clamp(min=1e-4)
    return y + torch.log(-torch.expm1(-y))


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean over rows, each counted as often as its weight says."""
    if weight is None:
        return values.mean(0)
    return (values * weight.view(-1, *[1] * (values.ndim - 1))).sum(0) / weight.sum()


def check_features(x: Tensor, features: int) -> None:
    """Rows must have the width that a module was made for; broadcasting would hide a wrong one."""
    if x.ndim == 0 or x.shape[-1] != features:
        raise ValueError(f"expected rows of {features} features, shape (n, {features}), got {tuple(x.shape)}")


def check_sizes(**sizes: int) -> None:
    """Every size must be a positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")
