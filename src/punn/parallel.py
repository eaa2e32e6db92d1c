"""Several processes, one fit: each takes its share of every batch, and their gradients are added.

torchrun starts the processes and tells each its number; :func:`assemble` brings them together. A process that was
started alone is a team of one, which costs nothing.

Lightning Fabric makes the team: the right engine (gloo on CPU, nccl on GPU), a device for every process, and sums and
messages between them. It is an object like any other, where accelerate keeps one state for the whole program, which
would not do for a library. Its wrapper for modules (DDP) is not used: all gradients are one vector here, copies of
a network included, so that one sum of it is all there is to do.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["ALONE", "Team", "assemble", "started_as"]


class Team:
    """The processes of a fit.

    Arguments:
        fabric: What connects them; None for a process that works alone.

    Attributes:
        rank: The number of this process, from 0; the first speaks and writes for all.
        size: How many there are.

    Example:
        >>> ALONE.rank, ALONE.size, ALONE.first("what the first process says")
        (0, 1, 'what the first process says')
    """

    def __init__(self, fabric: Fabric | None = None) -> None:
        self._fabric = fabric
        self.rank = 0 if fabric is None else fabric.global_rank
        self.size = 1 if fabric is None else fabric.world_size

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up, in place, what all processes have in a tensor; the same bits in all of them."""
        if self._fabric is not None:
            with _connected():
                tensor.copy_(self._fabric.all_reduce(tensor.to(self._fabric.device), reduce_op="sum"))
        return tensor

    def first(self, value: Any) -> Any:
        """What the first process has, in all of them."""
        if self._fabric is None:
            return value
        with _connected():
            return self._fabric.broadcast(value)

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in all of them."""
        if self._fabric is None:
            return [value]
        values: list[Any] = [None] * self.size
        with _connected():
            torch.distributed.all_gather_object(values, value)
        return values

    def device(self, wanted: torch.device) -> torch.device:
        """The device of this process: of several graphics cards, its own."""
        return wanted if self._fabric is None or wanted.type == "cpu" else self._fabric.device


#: A process that works by itself.
ALONE = Team()


def started_as(environment: dict[str, str] | None = None) -> tuple[int, int]:
    """Number of this process and how many there are, as torchrun says it; (0, 1) if nobody does.

    Example:
        >>> started_as({"RANK": "1", "WORLD_SIZE": "4"}), started_as({})
        ((1, 4), (0, 1))
    """
    named = dict(os.environ) if environment is None else environment
    # A worker of joblib has the variables of the process that started it, but is none of the team.
    if environment is None and multiprocessing.parent_process() is not None:
        return 0, 1
    size = int(named.get("WORLD_SIZE", "1"))
    return (int(named["RANK"]), size) if size > 1 and "RANK" in named else (0, 1)


def assemble(device: torch.device) -> Team:
    """The team of the processes that torchrun started, connected; a team of one if it did not.

    Arguments:
        device: What they compute on: on graphics cards they speak through nccl, else through gloo.
    """
    size = started_as()[1]
    if size == 1:
        return ALONE
    try:
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments import TorchElasticEnvironment
        from lightning_fabric.strategies import DDPStrategy
    except ImportError as error:
        raise ImportError("more than one process needs lightning-fabric: pip install 'punn[scale]'") from error
    here, nodes = (int(os.environ.get(name, "1")) for name in ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"))
    strategy = DDPStrategy(cluster_environment=TorchElasticEnvironment())
    with _unannounced(), _connected():
        fabric = Fabric(accelerator=device.type, strategy=strategy, devices=here, num_nodes=nodes)
        fabric.launch()
    return Team(fabric)


@contextmanager
def _connected() -> Iterator[None]:
    """Tell in plain words that the others are gone, which the engines do in words of their own."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            "another process of this fit has ended before its time, or cannot be reached, so that all of them end; "
            "with a checkpoint, the fit goes on from there when it is started again"
        ) from error


@contextmanager
def _unannounced() -> Iterator[None]:
    """Fabric announces the team on standard error; we have words of our own."""
    logger = logging.getLogger("lightning_fabric")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
