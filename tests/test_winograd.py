"""Winograd's convolution against torch's in double precision: values, both gradients, and where it is not used."""

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d

from punn.experiments.winograd import Convolution
from punn.kernels import tiles

needs_library = pytest.mark.skipif(not tiles.compiled(), reason="installed without a C compiler")

# Sides of whole tiles, of a pixel more and less; channels around what is worked on together.
SIZES = [(3, 3, 1, 1), (4, 8, 3, 5), (5, 7, 24, 64), (13, 6, 63, 65), (16, 16, 64, 32), (31, 32, 130, 3)]


def of_torch(x, weight, y_grad):
    """The answer and both gradients in double precision."""
    x, weight = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    y = conv2d(x, weight, padding=1)
    return y.detach(), *torch.autograd.grad(y, (x, weight), y_grad.double())


def assert_close(found, exact, rounding):
    assert found.dtype == torch.float32
    assert found.shape == exact.shape
    assert (found - exact).abs().max() <= rounding * exact.abs().max()


@needs_library
@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize(("height", "width", "channels", "filters"), SIZES)
def test_values_and_gradients_are_those_of_torch(n, height, width, channels, filters):
    convolution = Convolution(channels, filters)
    x = torch.randn(n, channels, height, width).requires_grad_()
    y = convolution(x)
    y_grad = torch.randn_like(y)
    assert "Winograd" in type(y.grad_fn).__name__
    found = y.detach(), *torch.autograd.grad(y, (x, convolution.weight), y_grad)
    for ours, exact in zip(found, of_torch(x, convolution.weight, y_grad), strict=True):
        assert_close(ours, exact, 2e-5)


@needs_library
def test_more_pictures_than_are_worked_on_together_and_more_threads():
    convolution, x = Convolution(8, 16), torch.randn(300, 8, 12, 12)
    threads = torch.get_num_threads()
    answers = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            convolution.zero_grad()
            y = convolution(x)
            y.square().sum().backward()
            answers.append((y.detach(), convolution.weight.grad.clone()))
    finally:
        torch.set_num_threads(threads)
    assert_close(answers[0][0], conv2d(x.double(), convolution.weight.detach().double(), padding=1), 2e-5)
    assert torch.equal(answers[0][0], answers[1][0])
    torch.testing.assert_close(answers[0][1], answers[1][1], rtol=1e-4, atol=1e-3)


@needs_library
def test_maps_and_their_transposes_agree():
    x, y = (torch.randn(2, 70, 9, 5).contiguous(memory_format=torch.channels_last) for _ in range(2))
    given = torch.randn(36, 2 * tiles.number(x), 70)
    for there, back in (
        (tiles.take_apart, tiles.take_apart_transposed),
        (tiles.put_together_transposed, tiles.put_together),
    ):
        back(given, y)
        torch.testing.assert_close((there(x).double() * given).sum(), (x.double() * y).sum(), rtol=1e-5, atol=1e-3)


@needs_library
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_any_layout_of_pictures_and_filters_will_do(layout):
    convolution = Convolution(6, 10)
    x = torch.randn(3, 6, 8, 8)
    y = convolution(x)
    convolution.to(memory_format=layout)
    torch.testing.assert_close(convolution(x.contiguous(memory_format=layout)), y)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_torch_convolves_what_it_is_better_at():
    convolution = Convolution(4, 6)
    plain = nn.Conv2d(4, 6, 3, padding=1, bias=False)
    plain.load_state_dict(convolution.state_dict())
    small, large = torch.randn(5, 4, 2, 2), torch.randn(5, 4, 8, 8, dtype=torch.float64)
    assert torch.equal(convolution(small), plain(small))
    assert torch.equal(convolution.double()(large), plain.double()(large))


def test_what_is_no_batch_of_pictures_is_left_to_torch():
    convolution = Convolution(4, 6)
    assert convolution(torch.randn(0, 4, 8, 8)).shape == (0, 6, 8, 8)
    assert convolution(torch.randn(4, 8, 8)).shape == (6, 8, 8)
    with pytest.raises(RuntimeError, match="to have 4 channels, but got 5 channels"):
        convolution(torch.randn(2, 5, 8, 8))
    with pytest.raises(RuntimeError, match="type"):
        convolution.double()(torch.randn(2, 4, 8, 8))


def test_without_the_library_torch_convolves(monkeypatch):
    convolution, x = Convolution(4, 6), torch.randn(5, 4, 8, 8)
    monkeypatch.setattr(tiles, "_library", None)
    assert torch.equal(convolution(x), conv2d(x, convolution.weight, padding=1))
