"""The body of the CIFAR-100 study: what whitening does, and shapes."""

import torch

from punn.experiments.convolution import Block, Whitening, body


def smooth_pictures(n=200, side=12):
    noise = torch.randn(n, 3, side + 2, side + 2, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.avg_pool2d(noise, 3, 1)


def test_whitening_decorrelates():
    x = smooth_pictures()
    whitening = Whitening(x, eps=0.0)
    responses = torch.nn.functional.conv2d(x, whitening.filters[:12]).permute(1, 0, 2, 3).flatten(1).double()
    moments = responses @ responses.T / responses.shape[1]
    torch.testing.assert_close(moments, torch.eye(12, dtype=torch.float64), atol=1e-3, rtol=0)
    assert torch.equal(whitening.filters[12:], -whitening.filters[:12])
    assert not list(whitening.parameters()), "the filters are not learned"


def test_a_flat_channel_does_not_blow_up():
    x = smooth_pictures()
    x[:, 1] = 0
    assert torch.isfinite(Whitening(x)(x)).all()
    assert Whitening(x).filters.abs().max() < 100


def test_a_block_halves_the_side():
    assert Block(3, 8)(torch.randn(2, 3, 9, 9)).shape == (2, 8, 4, 4)


def test_pictures_of_any_side_become_features():
    x = smooth_pictures(20, 20)
    network = body(x, (4, 6, 8), features=5)
    for side in (16, 20):
        assert network(x[..., :side, :side]).shape == (20, 5)
