"""Honest probabilities and honest sets: scikit-learn's calibration and MAPIE's conformal sets take a PUNN as it is.

pip install mapie
"""

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from punn import PUNNClassifier
from punn.scoring import calibration_error

# Three classes that overlap, and one label in ten is wrong: nobody can be sure here.
X, y = make_classification(1500, 8, n_informative=5, n_classes=3, flip_y=0.1, class_sep=0.8, random_state=0)
X_rest, X_test, y_rest, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
# Rows that no model has learned from tell how far its probabilities can be trusted.
X_train, X_held, y_train, y_held = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)

models = {
    "default": PUNNClassifier(random_state=0),
    "trained too long": PUNNClassifier(epochs=200, early_stopping=False, weight_decay=0.0, random_state=0),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X_held, y_held)
    for way, one in {"as it is": model, "calibrated": calibrated}.items():
        p = one.predict_proba(X_test)
        error = calibration_error(p.argmax(1) == y_test, p.max(1))
        print(f"{name:<16} {way}: log-loss {log_loss(y_test, p):.2f}, calibration error {error:.3f}")

for level in (0.8, 0.9, 0.95):
    conformal = SplitConformalClassifier(models["default"], confidence_level=level, prefit=True)
    _, sets = conformal.conformalize(X_held, y_held).predict_set(X_test)
    hit = sets[np.arange(len(y_test)), y_test].mean()
    print(f"sets at {level:.0%}: {hit:.1%} of them hold the true class, of {sets.sum(1).mean():.2f} classes on average")
