"""A gate of your own: any module from rows to one argument per gate. Here a box, which reads as a rule."""

import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from torch import nn

from punn import PUNNClassifier


class Box(nn.Module):
    def __init__(self, features, gates):
        super().__init__()
        self.gates = gates
        self.center = nn.Parameter(torch.randn(gates, features))
        self.log_half = nn.Parameter(torch.ones(gates, features))
        self.log_steepness = nn.Parameter(torch.ones(gates, 1))

    def forward(self, x):
        inside = self.log_half.exp() - (x.unsqueeze(-2) - self.center).abs()  # negative past a side
        # A soft minimum over the features: in the box where all sides hold.
        return -(-self.log_steepness.exp() * inside).logsumexp(-1)


iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
X_train, X_test, y_train, y_test = train_test_split(iris.data, species, test_size=0.4, random_state=0, stratify=species)
# Steps and decay are chosen for networks by themselves; a handful of numbers wants long steps and no decay.
model = PUNNClassifier(Box, epochs=300, learning_rate=0.03, weight_decay=0.0, random_state=0).fit(X_train, y_train)
print(f"{model.score(X_test, y_test):.1%} of {len(y_test)} held-out flowers with {model.n_parameters_} numbers\n")
print(model.trace(X_test)[0])

# Inside of the network features are scaled; undo it to read the rules.
box, mean, scale = model.network_.gates, model.network_.scaling.mean, model.network_.scaling.scale
low, high = (mean + scale * (box.center + sign * box.log_half.exp()) for sign in (-1, 1))
for gate, name in enumerate(model.order_[:-1]):
    sides = zip(iris.feature_names, low[gate].tolist(), high[gate].tolist(), strict=True)
    print(f"\n{name}:")
    for feature, a, b in sides:
        print(f"  {a:5.1f} < {feature} < {b:.1f}")
