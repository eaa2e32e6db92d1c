"""Shapes against their formulas, and what can be read off them."""

import math

import pytest
import torch

from punn.gates import Ball, ConstantRadius, Ellipsoid, FourierRadius, HarmonicRadius, Shell


def randomize(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.double()


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("gates", "numbers"),
    [
        (Shell(ConstantRadius(2), ConstantRadius(2)), 4),
        (Shell(FourierRadius(5), FourierRadius(5)), 24),
        (Shell(ConstantRadius(2, 2), ConstantRadius(2, 2)), 8),
        (Ball(2, 1), 4),
        (Ellipsoid(4, 2), 18),
        (Ellipsoid(4, 2, full=True), 30),
        (Shell(None, HarmonicRadius(4, 2, 2)), 36),
    ],
)
def test_numbers_to_learn(gates, numbers):
    assert count(gates) == numbers


def test_a_ball_is_its_formula():
    ball = randomize(Ball(3, 2))
    x = torch.randn(6, 3, dtype=torch.float64)
    for i in range(2):
        distance = (x - ball.center[i]).square().sum(-1).sqrt()
        expected = ball.raw_sharpness[i].exp().log1p() * (ball.raw_radius[i].exp().log1p() - distance)
        torch.testing.assert_close(ball(x)[:, i], expected)
    assert (ball.radius > 0).all()
    assert (ball.sharpness > 0).all()


@pytest.mark.parametrize("full", [False, True])
def test_an_ellipsoid_is_its_quadratic_form(full):
    ellipsoid = randomize(Ellipsoid(3, 2, full))
    x = torch.randn(6, 3, dtype=torch.float64)
    for i in range(2):
        offset = x - ellipsoid.center[i]
        form = torch.einsum("ni,ij,nj->n", offset, ellipsoid.matrix[i], offset)
        torch.testing.assert_close(ellipsoid(x)[:, i], ellipsoid.sharpness[i] * (1 - form))


@pytest.mark.parametrize("full", [False, True])
def test_axes_and_rotation_rebuild_the_matrix(full):
    ellipsoid = randomize(Ellipsoid(4, 3, full))
    matrix = ellipsoid.matrix
    assert (torch.linalg.eigvalsh(matrix) > 0).all()
    turned = ellipsoid.rotation @ torch.diag_embed(ellipsoid.semi_axes**-2) @ ellipsoid.rotation.mT
    torch.testing.assert_close(turned, matrix)
    eye = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    torch.testing.assert_close(ellipsoid.rotation @ ellipsoid.rotation.mT, eye)
    # The end of every semi-axis lies on the boundary, where the argument is zero.
    for j in range(4):
        ends = ellipsoid.center + ellipsoid.semi_axes[:, j : j + 1] * ellipsoid.rotation[:, :, j]
        on_edge = ellipsoid(ends).diagonal()
        torch.testing.assert_close(on_edge, torch.zeros_like(on_edge), rtol=0, atol=1e-10)


def test_a_full_ellipsoid_is_really_turned():
    assert randomize(Ellipsoid(2, 1, full=True)).matrix[0, 0, 1].abs() > 0.01
    assert randomize(Ellipsoid(2, 1)).matrix[0, 0, 1] == 0


def test_a_shell_counts_from_its_inner_to_its_outer_boundary():
    shell = randomize(Shell(FourierRadius(3, 2), FourierRadius(3, 2)))
    angle = torch.linspace(0, 2 * math.pi, 9, dtype=torch.float64)
    direction = torch.stack([angle.cos(), angle.sin()], -1).unsqueeze(1).expand(-1, 2, -1)
    inner, outer = shell.radii(direction)
    for share in (0.0, 0.25, 1.0, 1.5):
        radius = inner + share * (outer - inner)
        for i in range(2):
            x = shell.center[i] + radius[:, i : i + 1] * direction[:, i]
            torch.testing.assert_close(shell(x)[:, i], torch.full((9,), share).double(), rtol=0, atol=1e-9)


def test_without_an_inner_radius_the_center_is_the_middle():
    shell = randomize(Shell(None, HarmonicRadius(3, 2)))
    torch.testing.assert_close(shell(shell.center.detach()), torch.full((1, 1), 0.5).double())
    direction = torch.nn.functional.normalize(torch.randn(5, 1, 3, dtype=torch.float64), dim=-1)
    inner, outer = shell.radii(direction)
    assert (inner == 0).all()
    x = shell.center + outer * direction[:, 0]
    torch.testing.assert_close(shell(x), torch.ones(5, 1, dtype=torch.float64))


def test_a_shell_prints_its_true_radii():
    shell = Shell(ConstantRadius(2), ConstantRadius(2))
    shell.inner.start(torch.tensor([2.0]))
    shell.outer.start(torch.tensor([3.0]))
    assert "inner=[2], outer=[5]" in repr(shell)


@pytest.mark.parametrize("x", [1e15, 1e18, -1e18])
def test_far_away_rows_are_finite_in_single_precision(x):
    rows = torch.full((1, 2), x)
    for gates in (Ball(2, 1), Ellipsoid(2, 1), Ellipsoid(2, 1, True), Shell(FourierRadius(2), FourierRadius(2))):
        theta = gates(rows)
        theta.sum().backward()
        assert torch.isfinite(theta).all()
        assert all(torch.isfinite(p.grad).all() for p in gates.parameters())


SHAPES = {
    "ball": Ball,
    "ellipsoid": Ellipsoid,
    "full": lambda d, g: Ellipsoid(d, g, full=True),
    "shell": lambda d, g: Shell(ConstantRadius(d, g), ConstantRadius(d, g)),
    "star": lambda d, g: Shell(None, HarmonicRadius(d, 2, g)),
}


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_a_start_puts_shapes_on_their_rows(build):
    part = torch.arange(300) % 3
    x = 5 * torch.eye(3)[part] + 0.3 * torch.randn(300, 3)
    gates = build(3, 2)
    gates.start(x, part, torch.zeros(2))
    for i in range(2):
        torch.testing.assert_close(gates.center[i].detach(), x[part == i].mean(0))
    again = build(3, 2)
    again.start(x, part, torch.zeros(2))
    assert all(torch.equal(a, b) for a, b in zip(gates.state_dict().values(), again.state_dict().values(), strict=True))
    # Restarts begin somewhere near, each elsewhere, and the same for the same generator.
    centers = []
    for seed in (1, 1, 2):
        gates.start(x, part, torch.zeros(2), generator=torch.Generator().manual_seed(seed))
        centers.append(gates.center.detach().clone())
    assert torch.equal(centers[0], centers[1])
    assert not torch.equal(centers[0], centers[2])
    assert (centers[0] - torch.stack([x[part == i].mean(0) for i in range(2)])).norm(dim=-1).max() < 3


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_rows_count_by_their_weight(build):
    x = torch.randn(60, 2)
    part = torch.arange(60) % 3
    times = torch.arange(60) % 4
    weighted, repeated = build(2, 2), build(2, 2)
    weighted.start(x, part, torch.zeros(2), weight=times.float())
    repeated.start(x.repeat_interleave(times, 0), part.repeat_interleave(times), torch.zeros(2))
    for a, b in zip(weighted.state_dict().values(), repeated.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_a_start_survives_functions_without_rows_and_offsets(build):
    gates = build(2, 3)
    x = 1e4 + torch.randn(50, 2)
    part = torch.zeros(50, dtype=torch.long)
    part[0] = 1  # one row for gate 1, none for gate 2
    gates.start(x, part, torch.zeros(3), weight=torch.cat([torch.zeros(1), torch.ones(49)]))
    assert all(torch.isfinite(p).all() for p in gates.parameters())
    assert (gates.center - 1e4).abs().max() < 5


@pytest.mark.parametrize("build", SHAPES.values(), ids=SHAPES)
def test_resizing_multiplies_the_size(build):
    gates = build(2, 2)
    factor = torch.tensor([0.5, 2.0])
    size = {
        "ball": lambda: gates.radius,
        "ellipsoid": lambda: gates.semi_axes[:, 0],
        "full": lambda: gates.semi_axes[:, 0],
    }.get(next(name for name, b in SHAPES.items() if b is build), lambda: gates.outer.mean)
    before = size().detach().clone()
    gates.resize(factor)
    torch.testing.assert_close(size().detach(), before * factor, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Ball(0, 1), ValueError, "features must be a positive integer, got 0"),
        (lambda: Ball(2, -3), ValueError, "gates must be a positive integer, got -3"),
        (lambda: Ellipsoid(2.5, 1), ValueError, "features must be a positive integer, got 2.5"),
        (
            lambda: Shell(ConstantRadius(2), None),
            TypeError,
            "must be radius functions, got ConstantRadius and NoneType",
        ),
        (lambda: Shell(ConstantRadius(2), ConstantRadius(3)), ValueError, "1 gates in 2 features and 1 gates in 3"),
        (lambda: Shell(ConstantRadius(2, 1), ConstantRadius(2, 2)), ValueError, "inner and outer must agree"),
        (lambda: Ball(1, 2)(torch.zeros(4, 5)), ValueError, r"rows of 1 features.*got \(4, 5\)"),
        (lambda: Ball(5, 2)(torch.zeros(4, 1)), ValueError, r"rows of 5 features.*got \(4, 1\)"),
        (lambda: Ellipsoid(3, 2)(torch.zeros(4, 1)), ValueError, "rows of 3 features"),
        (lambda: Shell(None, ConstantRadius(3))(torch.zeros(4, 2)), ValueError, "rows of 3 features"),
    ],
)
def test_bad_input_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build()
