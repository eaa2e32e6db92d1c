"""Gate families: modules from x to the gate arguments, ``x (n, features) -> theta (n, gates)``.

A family says how many gates it has (``gates``) and starts from data with ``start(x, part, theta)``:
``part`` is the gate whose function every row belongs to (any other number for none), ``theta`` the
arguments with which the gates would take their shares. Networks begin at those arguments, shapes
on those rows. A ``weight`` counts rows several times; a ``generator`` starts shapes near their rows.
"""

from punn.gates.hybrid import Hybrid
from punn.gates.mlp import SeparateMLP, Shared
from punn.gates.radii import ConstantRadius, FourierRadius, HarmonicRadius
from punn.gates.shapes import Ball, Ellipsoid, Shell

__all__ = [
    "Ball",
    "ConstantRadius",
    "Ellipsoid",
    "FourierRadius",
    "HarmonicRadius",
    "Hybrid",
    "SeparateMLP",
    "Shared",
    "Shell",
]
