"""Twenty partition functions per class in the place of softmax: a convolutional network with a PUNNHead.

Pictures are CIFAR-100's, or scikit-learn's small digits where the files are not there (`punn data cifar100` fetches
them). A short training of a small network; `punn reproduce cifar100` does the real one.
"""

import torch
from torch import nn

from punn import PUNNHead
from punn.datasets import cifar100, load

torch.manual_seed(0)
try:
    x, y, x_test, y_test = (torch.from_numpy(part) for part in cifar100())
    x, y, x_test, y_test = x[:10_000], y[:10_000], x_test[:2_000], y_test[:2_000]
except FileNotFoundError:
    digits = load("digits")
    x, y = torch.from_numpy(digits.X).view(-1, 1, 8, 8), torch.from_numpy(digits.y)
    x, y, x_test, y_test = x[:1500], y[:1500], x[1500:], y[1500:]
x, x_test = (2 * part.float() / part.max() - 1 for part in (x, x_test))
y, y_test = y.long(), y_test.long()
classes = int(y.max()) + 1


def block(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))


body = nn.Sequential(block(x.shape[1], 32), block(32, 64), nn.AdaptiveMaxPool2d(1), nn.Flatten())
model = nn.Sequential(body, PUNNHead(64, classes, parts=20, coupled=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
for epoch in range(3):
    for batch in torch.randperm(len(x)).split(100):
        loss = nn.functional.nll_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.2f}")

model.eval()
with torch.no_grad():
    right = (model(x_test).argmax(1) == y_test).double().mean()
    features = body(x_test[:1])
print(f"{right:.1%} of {len(y_test)} test pictures, {classes} classes, {20 * classes} partition functions\n")
print(model[1].trace(features)[0])
