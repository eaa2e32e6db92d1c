"""PUNNClassifier keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from punn import PUNNClassifier


@parametrize_with_checks([PUNNClassifier(), PUNNClassifier(gates="ellipsoid")])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)
