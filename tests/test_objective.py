"""What a fit minimises, in its short and its long forms."""

import pytest
import torch
from torch import nn

from punn import PUNN
from punn.gates import Ball, SeparateMLP, Shared
from punn.gates.mlp import mlp
from punn.objective import ByHand, Objective


def rows(n=40, classes=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, generator=generator).double(), torch.randint(classes, (n,), generator=generator)


def objective(network, label_smoothing=0.0, mixed=False, plain=True):
    return Objective(network.double().train(), 0.0, label_smoothing, mixed, plain)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_of_softmax_is_that_of_the_chain(label_smoothing):
    x, y = rows()
    network = PUNN(Shared(nn.Linear(2, 2), 1, coupled=True), class_of=torch.tensor([1, 0]))
    short, long = (objective(network, label_smoothing, plain=plain) for plain in (True, False))
    assert short.softmax
    assert not long.softmax
    for weight in (None, torch.rand(len(x)).double()):
        torch.testing.assert_close(short(x, y, weight), long(x, y, weight))


NETWORKS = {
    "separate": lambda: PUNN(SeparateMLP(2, 3, (4, 5)), class_of=torch.tensor([2, 0, 3, 1])),
    "parts": lambda: PUNN(SeparateMLP(2, 3, (4,)), class_of=torch.tensor([0, 1, 0, 1])),
    "shared": lambda: PUNN(Shared(mlp(2, (4,)), 3, features=4), class_of=torch.tensor([2, 0, 3, 1])),
    "coupled": lambda: PUNN(Shared(mlp(2, (4,)), 3, features=4, coupled=True), class_of=torch.tensor([2, 0, 3, 1])),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_by_hand_it_is_the_same_loss_with_the_gradient_of_autograd(name, weighted, share):
    network = NETWORKS[name]()
    x, y = rows(classes=network.classes)
    weight = torch.rand(len(x)).double() if weighted else None
    smoothings = [0.0, 0.1] if name == "coupled" else [0.0]
    for label_smoothing in smoothings:
        network.zero_grad()
        whole = objective(network, label_smoothing)
        loss = whole(x, y, weight)
        (share * loss).backward()
        exact = [parameter.grad.clone() for parameter in network.parameters()]
        for parameter in network.parameters():
            parameter.grad.zero_()
        by_hand = ByHand.of(whole)
        torch.testing.assert_close(by_hand(x, y, weight, share), loss.detach())
        for parameter, gradient in zip(network.parameters(), exact, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize(
    ("network", "options"),
    [
        (PUNN(Ball(2, 1)), {}),
        (PUNN(SeparateMLP(2, 1, (4,))), {"label_smoothing": 0.1}),
        (PUNN(SeparateMLP(2, 1, (4,))), {"mixed": True}),
        (PUNN(SeparateMLP(2, 1, (4,))), {"plain": False}),
        (PUNN(SeparateMLP(2, 1, (4,)), "gaussian"), {}),
        (PUNN(Shared(mlp(2, (4,)), 3, features=4, coupled=True), class_of=torch.tensor([0, 1, 0, 1])), {}),
    ],
    ids=["shape", "smoothed labels", "mixed", "copies", "gaussian", "coupled parts"],
)
def test_what_has_no_short_form_is_left_to_autograd(network, options):
    assert ByHand.of(objective(network, **options)) is None
