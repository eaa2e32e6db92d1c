"""Checks of the estimator's options: what was expected, what came."""

from __future__ import annotations

import numbers
from typing import Any

from punn.building import SHAPES
from punn.training import SCHEDULES

__all__ = ["check_options"]


def check_options(model: Any) -> None:
    """Raise a ValueError or TypeError for the first option that cannot be."""
    _one_of(model, "schedule", tuple(SCHEDULES))
    _one_of(model, "precision", ("auto", "single", "double", "mixed"))
    _one_of(model, "rest", ("class", "unknown"))
    for name in ("standardize", "warm_start"):
        if not isinstance(getattr(model, name), bool):
            raise TypeError(f"{name} must be True or False, got {getattr(model, name)!r}")
    if model.early_stopping not in ("auto", True, False):
        raise ValueError(f"early_stopping must be 'auto', True or False, got {model.early_stopping!r}")
    for name in ("epochs", "batch_size", "restarts"):
        _number(model, name, numbers.Integral, least=1, auto=True)
    for name in ("patience", "accumulate"):
        _number(model, name, numbers.Integral, least=1)
    if model.processes not in ("auto", 1) or isinstance(model.processes, bool):
        raise ValueError(f"processes must be 'auto' (those that torchrun started) or 1, got {model.processes!r}")
    _number(model, "learning_rate", numbers.Real, above=0, auto=True)
    _number(model, "weight_decay", numbers.Real, least=0, auto=True)
    _number(model, "smoothness", numbers.Real, least=0)
    _number(model, "label_smoothing", numbers.Real, least=0, below=1)
    _number(model, "validation_fraction", numbers.Real, above=0, below=1, auto=True)
    if model.degree is not None:
        _number(model, "degree", numbers.Integral, least=1)
    if isinstance(model.hidden, str) or not all(_whole(width) and width > 0 for width in model.hidden):
        raise ValueError(f"hidden must be a sequence of positive integers such as (64, 64), got {model.hidden!r}")
    if model.rest == "unknown":
        _check_unknown(model)


def _check_unknown(model: Any) -> None:
    families = [model.gates] if isinstance(model.gates, str) or callable(model.gates) else list(model.gates)
    named = isinstance(model.activation, str) or callable(model.activation)
    activations = [model.activation] if named else list(model.activation)
    localised = all(name in ("gaussian", "bump", "compact_window") for name in activations)
    if not localised and not all(family in SHAPES for family in families):
        raise ValueError(
            "rest='unknown' needs gates that are small far from the data: shapes, or the gaussian, bump or "
            f"compact_window activation; gates={model.gates!r} with activation={model.activation!r} extrapolates"
        )


def _one_of(model: Any, name: str, known: tuple[str, ...]) -> None:
    value = getattr(model, name)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")


def _number(
    model: Any,
    name: str,
    kind: type,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    auto: bool = False,
) -> None:
    value = getattr(model, name)
    if auto and isinstance(value, str) and value == "auto":
        return
    limits = [f"at least {least}"] if least is not None else []
    limits += [f"above {above}"] if above is not None else []
    limits += [f"below {below}"] if below is not None else []
    right = isinstance(value, kind) and not isinstance(value, bool)
    if (
        not right
        or (least is not None and value < least)
        or (above is not None and not value > above)
        or (below is not None and not value < below)
    ):
        sort = "an integer" if kind is numbers.Integral else "a number"
        raise ValueError(f"{name} must be {sort} {' and '.join(limits)}{' or auto' if auto else ''}, got {value!r}")


def _whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
