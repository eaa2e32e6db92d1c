"""A hybrid: a shape for the class that has one, a network for the class that has none, and the third is the rest."""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from punn import PUNNClassifier

# A round island above two moons that are wound into each other.
moons, moon = make_moons(400, noise=0.1, random_state=0)
island = np.random.default_rng(0).normal((0.5, 2.5), 0.3, (200, 2))
X = np.concatenate([island, moons])
y = np.concatenate([np.full(200, "island"), np.where(moon == 0, "moon, upper", "moon, lower")])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

for gates in (["ball", "ball"], ["ball", "mlp"], ["mlp", "mlp"]):
    model = PUNNClassifier(gates, hidden=(16, 16), epochs=40, restarts=2, random_state=0).fit(X_train, y_train)
    accuracy = model.score(X_test, y_test)
    print(f"{' + '.join(gates):<11} {accuracy:.1%} of the held-out rows with {model.n_parameters_} numbers")
    if gates == ["ball", "mlp"]:
        hybrid = model
print()
print(hybrid.regions())
