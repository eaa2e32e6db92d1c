"""Radius functions against closed forms, quadrature, numerical Laplacians and scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import sph_harm_y

from punn.gates import ConstantRadius, FourierRadius, HarmonicRadius, Shell
from punn.gates.radii import polar, softplus_inverse


def directions(n, features, seed=0):
    v = np.random.default_rng(seed).standard_normal((n, features))
    return torch.from_numpy(v / np.linalg.norm(v, axis=1, keepdims=True))


def basis(radius, direction):
    """The functions of a radius in double precision, shape (n, functions)."""
    return radius.double().basis(direction.unsqueeze(1))[:, 0]


def dimension(features, degree):
    """Number of harmonics of one degree, by the textbook formula."""
    lower = math.comb(features + degree - 3, features - 1) if degree >= 2 else 0
    return math.comb(features + degree - 1, features - 1) - lower


SPACES = [(d, degree) for d in range(2, 7) for degree in range(1, 5)]


def test_a_constant_radius_is_one_number():
    radius = ConstantRadius(features=3, gates=2)
    radius.start(torch.tensor([0.5, 4.0]))
    assert radius.coefficients.shape == (2, 1)
    torch.testing.assert_close(radius(torch.randn(7, 2, 3)), torch.tensor([[0.5, 4.0]]).expand(7, 2))
    assert "mean=[0.5, 4]" in repr(radius)


def test_a_fourier_radius_is_the_series_in_closed_form():
    order, gates = 5, 2
    radius = FourierRadius(order, gates).double()
    torch.nn.init.normal_(radius.coefficients)
    angle = torch.linspace(-4, 4, 41, dtype=torch.float64)
    series = torch.zeros(41, gates, dtype=torch.float64)
    for gate in range(gates):
        a = radius.coefficients[gate].detach()
        series[:, gate] = a[0]
        for m in range(1, order + 1):
            series[:, gate] += math.sqrt(2) * (a[2 * m - 1] * (m * angle).cos() + a[2 * m] * (m * angle).sin())
    direction = torch.stack([angle.cos(), angle.sin()], -1).unsqueeze(1).expand(-1, gates, -1)
    torch.testing.assert_close(radius(direction).detach(), series.exp().log1p(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("features", "degree"), SPACES)
def test_no_harmonic_is_missing_or_redundant(features, degree):
    radius = HarmonicRadius(features, degree)
    assert radius.degrees == [level for level in range(degree + 1) for _ in range(dimension(features, level))]
    assert radius.coefficients.shape == (1, len(radius.degrees))
    # As many independent functions as coefficients.
    assert np.linalg.matrix_rank(basis(radius, directions(4 * len(radius.degrees), features)).numpy()) == len(
        radius.degrees
    )


def test_the_number_of_harmonics_in_four_features_is_fourteen():
    assert HarmonicRadius(4, 2).coefficients.numel() == 1 + 4 + 9


@pytest.mark.parametrize(("features", "degree"), SPACES)
def test_harmonics_are_orthonormal(features, degree):
    # The sum of squares of an orthonormal basis of a degree is constant on the sphere: the number of its functions
    # (the addition theorem). With independence that is orthonormality, without any sampling error.
    radius = HarmonicRadius(features, degree)
    functions = basis(radius, directions(50, features))
    degrees = torch.tensor(radius.degrees)
    for level in range(degree + 1):
        squares = functions[:, degrees == level].square().sum(-1)
        expected = torch.full_like(squares, dimension(features, level))
        torch.testing.assert_close(squares, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("degree", [2, 4])
def test_harmonics_are_orthonormal_by_exact_quadrature(degree):
    # Gauss-Legendre in the height times equal angles integrates polynomials on the sphere of R^3 exactly.
    height, weight = np.polynomial.legendre.leggauss(degree + 2)
    angle = 2 * np.pi * np.arange(2 * degree + 2) / (2 * degree + 2)
    z, phi = np.meshgrid(height, angle, indexing="ij")
    side = np.sqrt(1 - z**2)
    points = torch.from_numpy(np.stack([side * np.cos(phi), side * np.sin(phi), z], -1).reshape(-1, 3))
    weights = torch.from_numpy(np.repeat(weight / 2, len(angle)) / len(angle))
    functions = basis(HarmonicRadius(3, degree), points)
    gram = functions.T @ (weights[:, None] * functions)
    torch.testing.assert_close(gram, torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("features", "degree"), [(2, 3), (3, 4), (4, 2), (5, 3)])
def test_harmonics_solve_laplaces_equation(features, degree):
    radius = HarmonicRadius(features, degree)
    degrees = torch.tensor(radius.degrees)
    # The polynomials are homogeneous: off the sphere they are the basis without dividing by the length.
    twice = torch.func.jacrev(torch.func.jacrev(lambda x: basis(radius, x[None])[0]))
    hessian = torch.func.vmap(twice)(directions(5, features))
    laplacian = hessian.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert laplacian.abs().max() <= 1e-6 * hessian.abs().max()
    assert (hessian.abs().amax((0, 2, 3))[degrees >= 2] > 0.1).all()


def test_in_space_they_are_the_spherical_harmonics():
    degree = 4
    points = directions(200, 3)
    x, y, z = points.numpy().T
    ours = basis(HarmonicRadius(3, degree), points).numpy()
    degrees = np.array(HarmonicRadius(3, degree).degrees)
    for level in range(degree + 1):
        complex_ones = [sph_harm_y(level, m, np.arccos(z), np.arctan2(y, x)) for m in range(level + 1)]
        theirs = np.stack([f.real for f in complex_ones] + [f.imag for f in complex_ones[1:]], 1)
        block = ours[:, degrees == level]
        assert block.shape[1] == theirs.shape[1] == 2 * level + 1
        coefficients, *_ = np.linalg.lstsq(theirs, block, rcond=None)
        assert np.abs(theirs @ coefficients - block).max() < 1e-6


@pytest.mark.parametrize(("features", "degree"), [(2, 12), (3, 8), (10, 3)])
def test_single_precision_is_enough(features, degree):
    radius = HarmonicRadius(features, degree)
    points = directions(100, features)
    single = radius.basis(points.float().unsqueeze(1))[:, 0]
    torch.testing.assert_close(single.double(), basis(radius, points.float().double()), rtol=0, atol=2e-4)


coefficient = st.floats(-(2.0**100), 2.0**100, width=32)


@given(st.lists(coefficient, min_size=14, max_size=14), st.sampled_from([torch.float32, torch.float64]))
def test_no_coefficients_turn_a_shell_inside_out(coefficients, dtype):
    shell = Shell(FourierRadius(3), FourierRadius(3)).to(dtype)
    with torch.no_grad():
        shell.inner.coefficients.copy_(torch.tensor(coefficients[:7]))
        shell.outer.coefficients.copy_(torch.tensor(coefficients[7:]))
    angle = torch.linspace(0, 6, 13, dtype=dtype)
    direction = torch.stack([angle.cos(), angle.sin()], -1).unsqueeze(1)
    inner, outer = shell.radii(torch.cat([direction, torch.zeros(1, 1, 2, dtype=dtype)]))
    assert (inner >= 0).all()
    assert (inner < outer).all()
    assert torch.isfinite(outer).all()


def test_roughness_is_the_mean_squared_slope_of_the_series():
    radius = FourierRadius(3).double()
    torch.nn.init.normal_(radius.coefficients)
    angle = torch.linspace(0, 2 * math.pi, 241, dtype=torch.float64)[:-1].requires_grad_()
    direction = torch.stack([angle.cos(), angle.sin()], -1).unsqueeze(1)
    series = (radius.basis(direction) * radius.coefficients).sum(-1)
    (slope,) = torch.autograd.grad(series.sum(), angle)
    torch.testing.assert_close(radius.roughness().detach(), slope.square().mean())
    assert ConstantRadius(3).roughness() == 0


@given(
    st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=3, max_size=3),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_polar_is_finite_for_any_vector(vector, dtype):
    offset = torch.tensor(vector, dtype=dtype, requires_grad=True)
    length, direction = polar(offset)
    exact = math.hypot(*offset.tolist())
    assert length.detach().item() == pytest.approx(exact, rel=1e-6, abs=0)
    if exact > 0:
        assert float(direction.detach().square().sum()) == pytest.approx(1, rel=1e-5)
    else:
        assert direction.tolist() == [0, 0, 0]
    for output in (length, *direction):
        (gradient,) = torch.autograd.grad(output, offset, retain_graph=True)
        assert not gradient.isnan().any()


def test_polar_passes_gradcheck():
    offset = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(polar, offset)


def test_a_positive_number_survives_its_raw_form():
    y = torch.tensor([1e-4, 0.01, 1.0, 20.0, 1e6])
    torch.testing.assert_close(torch.nn.functional.softplus(softplus_inverse(y)), y, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FourierRadius(3, features=3), "expected 2 features, got 3; use HarmonicRadius"),
        (lambda: FourierRadius(0), "order must be at least 1, got 0"),
        (lambda: HarmonicRadius(1, 2), "at least 2 features, got 1"),
        (lambda: HarmonicRadius(3, 0), "degree must be at least 1, got 0"),
        (lambda: HarmonicRadius(20, 5), "more than 1000"),
        (lambda: ConstantRadius(-1), "features must be a positive integer, got -1"),
        (lambda: ConstantRadius(2, 0), "gates must be a positive integer, got 0"),
    ],
)
def test_bad_sizes_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
