"""Any continuous probability map is a chain of gates, exactly or as closely as one likes: the theorem at work."""

import torch

from punn import PUNN, gates_from_probabilities, log_partition
from punn.gates import SeparateMLP

torch.manual_seed(0)


def target(x):
    """Three classes on the square [-1, 1]^2, everywhere positive."""
    a, b = x.unbind(-1)
    return torch.stack([torch.sin(2.5 * a + b), torch.cos(2 * a * b) - a, 1.5 * torch.sin(2 * b - a)], -1).softmax(-1)


line = torch.linspace(-1, 1, 101)
grid = torch.cartesian_prod(line, line)

q = gates_from_probabilities(target(grid))
exact = log_partition(q.log(), (-q).log1p()).exp()
print(f"exact gates: the uniform error is {float((exact - target(grid)).abs().max()):.1e}")

for width in (8, 32):
    network = PUNN(SeparateMLP(features=2, gates=2, hidden=(width, width)))
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 600)
    for _ in range(600):
        x = 2 * torch.rand(256, 2) - 1
        adam.zero_grad()
        (network(x).exp() - target(x)).square().sum(-1).mean().backward()
        adam.step()
        schedule.step()
    with torch.inference_mode():
        error = float((network(grid).exp() - target(grid)).abs().max())
    print(f"gates of width {width:>2}: {error:.3f}")
