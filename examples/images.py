"""A network for images whose softmax layer is a PUNNHead: train it, look at a mistake, keep it in digits.pt."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from punn import PUNNHead

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target)
train, test = torch.randperm(len(labels)).split([1400, len(labels) - 1400])


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        )
        self.head = PUNNHead(128, classes=10)  # was nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.body(x))  # log-probabilities: the loss is nll_loss, not cross_entropy


network = Network()
adam = torch.optim.Adam(network.parameters(), lr=0.003)
for _ in range(8):
    for rows in train[torch.randperm(len(train))].split(50):
        adam.zero_grad()
        F.nll_loss(network(images[rows]), labels[rows]).backward()
        adam.step()

network.eval()
with torch.inference_mode():
    log_p = network(images[test])
wrong = log_p.argmax(1) != labels[test]
print(f"{1 - wrong.float().mean().item():.1%} of {len(test)} held-out digits\n")

worst = int(torch.where(wrong, log_p.max(1).values.exp(), 0).argmax())
trace = network.head.trace(network.body(images[test[worst : worst + 1]]))
print(f"The most confident mistake is a {labels[test[worst]]}:\n")
print(trace[0])
print(trace.why_not(0, int(labels[test[worst]])))

torch.save(network.state_dict(), "digits.pt")
again = Network()
again.load_state_dict(torch.load("digits.pt", weights_only=True))
print("\nloaded, it answers the same:", torch.equal(again.eval()(images[test]), network(images[test])))
