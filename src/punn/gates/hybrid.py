"""Families side by side: a shape for the classes that have one, networks for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from punn.gates.shapes import Ball, Ellipsoid, Shell

__all__ = ["Hybrid"]


class Hybrid(nn.Module):
    """Gates of several families in one chain.

    Arguments:
        families: Modules from x to (n, gates), each with an attribute ``gates``.
        positions: For every family, where its gates stand in the chain; one family after the other if None.

    Example:
        >>> from punn.gates import Ball, SeparateMLP
        >>> gates = Hybrid([Ball(2, 1), SeparateMLP(2, 2, (8,))], positions=[[1], [0, 2]])
        >>> gates(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(self, families: Sequence[nn.Module], positions: Sequence[Sequence[int]] | None = None) -> None:
        super().__init__()
        if not families:
            raise ValueError("a hybrid needs at least one family of gates")
        unknown = [family for family in families if not isinstance(getattr(family, "gates", None), int)]
        if unknown:
            raise TypeError(f"every family must say how many gates it has, {type(unknown[0]).__name__} does not")
        sizes = [int(family.gates) for family in families]  # type: ignore[arg-type]
        self.gates = sum(sizes)
        if positions is None:
            ends = torch.tensor(sizes).cumsum(0).tolist()
            positions = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
        self.positions = [list(index) for index in positions]
        flat = [i for index in self.positions for i in index]
        if [len(index) for index in self.positions] != sizes or sorted(flat) != list(range(self.gates)):
            raise ValueError(
                f"positions must place {sizes} gates, each of 0 to {self.gates - 1} once, got {self.positions}"
            )
        self.families = nn.ModuleList(families)
        self._back = sorted(range(self.gates), key=flat.__getitem__)

    def forward(self, x: Tensor) -> Tensor:
        """Gate arguments, shape (n, gates)."""
        return torch.cat([family(x) for family in self.families], -1)[..., self._back]

    @torch.no_grad()
    def start(
        self,
        x: Tensor,
        part: Tensor,
        theta: Tensor,
        weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Start every family on the rows of its own gates."""
        for family, index in zip(self.families, self.positions, strict=True):
            own = torch.full_like(part, -1)
            for local, position in enumerate(index):
                own[part == position] = local
            family.start(x, own, theta[index], weight, generator)  # type: ignore[operator]

    @torch.no_grad()
    def resize(self, factor: Tensor) -> None:
        """Resize the shapes; networks have no size."""
        for family, index in zip(self.families, self.positions, strict=True):
            if isinstance(family, Ball | Ellipsoid | Shell):
                family.resize(factor[index])

    def roughness(self) -> Tensor:
        """How fast the radius functions of all shells wind."""
        rough = [family.roughness() for family in self.families if isinstance(family, Shell)]
        return torch.stack(rough).sum() if rough else torch.zeros(())

    def extra_repr(self) -> str:
        """Where the gates stand."""
        return f"gates={self.gates}, positions={self.positions}"
