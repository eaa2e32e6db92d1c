"""Partition of Unity Neural Networks: classifiers that explain themselves exactly.

>>> import punn, torch
>>> q = torch.tensor([0.2, 0.5])
>>> punn.log_partition(q.log(), (1 - q).log()).exp()
tensor([0.2000, 0.4000, 0.4000])
"""

from punn import gates
from punn.classifier import PUNNClassifier
from punn.network import PUNN, PUNNHead
from punn.partition import gates_from_probabilities, log_partition, nll_loss
from punn.trace import GateTrace

__version__ = "0.1.0"

__all__ = [
    "PUNN",
    "GateTrace",
    "PUNNClassifier",
    "PUNNHead",
    "gates",
    "gates_from_probabilities",
    "log_partition",
    "nll_loss",
]
