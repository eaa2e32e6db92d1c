"""Our flat Adam is torch's AdamW, for one network and for several."""

import copy

import pytest
import torch

from punn import PUNN
from punn.adam import Adam
from punn.gates import Ball, SeparateMLP

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.arange(20) % 3


def loss(network):
    return torch.nn.functional.nll_loss(network(X), Y)


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("family", [SeparateMLP, Ball])
def test_steps_are_those_of_torch(family, decay):
    torch.manual_seed(0)
    mine = PUNN(family(3, 2)).double()
    theirs = copy.deepcopy(mine)
    weights = [p for name, p in theirs.named_parameters() if "weight" in name]
    others = [p for name, p in theirs.named_parameters() if "weight" not in name]
    groups = [{"params": ps, "weight_decay": d} for ps, d in ((weights, decay), (others, 0.0)) if ps]
    reference, adam = torch.optim.AdamW(groups, lr=0.05), Adam([mine], decay)
    for step in range(10):
        rate = 0.05 / (1 + step)
        for group in reference.param_groups:
            group["lr"] = rate
        reference.zero_grad()
        loss(theirs).backward()
        reference.step()
        loss(mine).backward()
        adam.step(rate)
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_release_gives_the_network_memory_of_its_own():
    network = PUNN(Ball(3, 2)).double()
    adam = Adam([network, copy.deepcopy(network)])
    with torch.no_grad():
        adam.parameters["gates.center"][1] += 7.0
    adam.release(adam.weights.clone(), 1)
    torch.testing.assert_close(network.gates.center.detach(), torch.full((2, 3), 7.0, dtype=torch.float64))
    assert network.gates.center.grad is None
    storages = {p.untyped_storage().data_ptr() for p in network.parameters()}
    assert len(storages) == len(list(network.parameters()))


def test_copies_are_named_by_number():
    networks = [PUNN(SeparateMLP(3, 2, (4,))) for _ in range(3)]
    adam = Adam(networks)
    for number, network in enumerate(networks):
        for name, parameter in adam.copy(number).items():
            torch.testing.assert_close(parameter, dict(network.named_parameters())[name].detach())
        assert int((adam.copy_of == number).sum()) == sum(p.numel() for p in network.parameters())
