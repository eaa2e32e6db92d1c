"""Why a digit was misread: nine gates on MNIST, or on scikit-learn's small digits where MNIST is not there.

`punn data mnist` fetches the files; `punn reproduce mnist` trains under ten orders of the classes.
"""

import numpy as np
from sklearn.model_selection import train_test_split

from punn import PUNNClassifier
from punn.datasets import load, mnist

try:
    X_train, y_train, X_test, y_test = mnist()
except FileNotFoundError:
    digits = load("digits")
    X_train, X_test, y_train, y_test = train_test_split(digits.X, digits.y, random_state=0, stratify=digits.y)

mean, deviation = X_train.mean(), X_train.std()
X_train, X_test = (((X.reshape(len(X), -1) - mean) / deviation).astype(np.float32) for X in (X_train, X_test))
model = PUNNClassifier("mlp", hidden=(64, 64), standardize=False, epochs=5, random_state=0).fit(X_train, y_train)
print(f"{model.score(X_test, y_test):.2%} of the test digits, {model.n_parameters_:,} parameters\n")

trace = model.trace(X_test)
wrong = trace.predicted != y_test
worst = int(np.where(wrong, trace.probabilities.max(1), 0).argmax())
print(f"The most confident mistake is row {worst}, a {y_test[worst]}:\n")
print(trace[worst])
print(trace.why_not(worst, int(y_test[worst])))
