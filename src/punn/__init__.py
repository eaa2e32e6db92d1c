"""Partition of Unity Neural Networks: classifiers that explain themselves exactly.

>>> import punn, torch
>>> q = torch.tensor([0.2, 0.5])
>>> punn.log_partition(q.log(), (1 - q).log()).exp()
tensor([0.2000, 0.4000, 0.4000])
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from punn import gates
    from punn.classifier import PUNNClassifier
    from punn.displays import BlameDisplay, LedgerDisplay, PartitionDisplay, TraceDisplay
    from punn.network import PUNN, PUNNHead
    from punn.partition import gates_from_probabilities, log_partition, nll_loss
    from punn.persistence import load
    from punn.report import report_html, write_report
    from punn.trace import GateTrace

__version__ = "0.1.0"

__all__ = [
    "PUNN",
    "BlameDisplay",
    "GateTrace",
    "LedgerDisplay",
    "PUNNClassifier",
    "PUNNHead",
    "PartitionDisplay",
    "TraceDisplay",
    "gates",
    "gates_from_probabilities",
    "load",
    "log_partition",
    "nll_loss",
    "report_html",
    "write_report",
]

# Where every public name lives. It is imported when it is first asked for: torch takes seconds,
# which `punn --help` must not, and optional packages are needed by those alone who use them.
_HOMES = {
    "BlameDisplay": "punn.displays",
    "GateTrace": "punn.trace",
    "LedgerDisplay": "punn.displays",
    "PUNN": "punn.network",
    "PUNNClassifier": "punn.classifier",
    "PUNNHead": "punn.network",
    "PartitionDisplay": "punn.displays",
    "TraceDisplay": "punn.displays",
    "gates_from_probabilities": "punn.partition",
    "load": "punn.persistence",
    "log_partition": "punn.partition",
    "nll_loss": "punn.partition",
    "report_html": "punn.report",
    "write_report": "punn.report",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value
    if not name.startswith("_") and find_spec(f"punn.{name}") is not None:
        return import_module(f"punn.{name}")
    raise AttributeError(f"module 'punn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
