"""Iris with ellipsoids: two classes in nine numbers each, the third is the rest, and every flower is accounted for."""

from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from punn import PUNNClassifier

iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
X_train, X_test, y_train, y_test = train_test_split(iris.data, species, test_size=0.4, random_state=0, stratify=species)

model = PUNNClassifier("ellipsoid", random_state=0).fit(X_train, y_train)
print(f"{model.score(X_test, y_test):.1%} of {len(y_test)} held-out flowers with {model.n_parameters_} numbers\n")
print(model.regions())

trace = model.trace(X_test)
doubtful = int(trace.probabilities.max(axis=1).argmin())
print(f"The most doubtful flower is row {doubtful}, a {y_test[doubtful]}:\n")
print(trace[doubtful])
loser = model.classes_[trace.probabilities[doubtful].argsort()[-2]]
print(trace.why_not(doubtful, loser), "\n")
print(model.counterfactual(X_test.iloc[doubtful], loser))
