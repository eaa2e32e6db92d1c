"""Regions that can be read: four numbers for circles, eighteen for iris; `punn reproduce shapes` has the full table."""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score, train_test_split

from punn import PUNNClassifier
from punn.datasets import circles

X, y = circles(seed=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
# Class 1 is the inner circle: it comes first and gets the ball, the outer one is the rest.
model = PUNNClassifier("ball", order=[1, 0], epochs=100, random_state=0).fit(X_train, y_train)
print(f"circles: {model.score(X_test, y_test):.1%} of the test rows with {model.n_parameters_} parameters")
print(model.regions())

X, y = load_iris(return_X_y=True, as_frame=True)
model = PUNNClassifier("ellipsoid", epochs=200, random_state=0)
print(f"\niris: {cross_val_score(model, X, y, cv=5).mean():.1%} in cross-validation")
print(model.fit(X, y).regions())
