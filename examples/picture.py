"""The picture of the README: the gates of one flower, and where it lies among the classes.

python examples/picture.py docs/figures/picture.png
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from punn import PartitionDisplay, PUNNClassifier, TraceDisplay

iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
X_train, X_test, y_train, y_test = train_test_split(iris.data, species, test_size=0.4, random_state=0, stratify=species)
model = PUNNClassifier("ellipsoid", random_state=0).fit(X_train, y_train)
trace = model.trace(X_test)
doubtful = int(trace.probabilities.max(axis=1).argmin())
flower = X_test.iloc[doubtful]
print(trace[doubtful])

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(1, 1.1))
TraceDisplay.from_trace(trace, doubtful).plot(left)
petal = ("petal length (cm)", "petal width (cm)")
display = PartitionDisplay.from_estimator(model, X_test, y_test, features=petal, at=flower)
display.plot(right, title="the classes, at the sepals of this flower")
right.scatter(*flower[list(petal)], s=260, facecolors="none", edgecolors="black", linewidths=2)
right.annotate("this flower", flower[list(petal)], xytext=(14, -18), textcoords="offset points", fontsize="medium")
path = sys.argv[1] if len(sys.argv) > 1 else "picture.png"
figure.savefig(path, dpi=110)
print(f"{path}: a held-out {y_test[doubtful]}, {model.score(X_test, y_test):.1%} of {len(y_test)} are right")
