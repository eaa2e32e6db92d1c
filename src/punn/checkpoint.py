"""Checkpoints: all of a running fit in one safe file, so that it can go on to the very same weights."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from punn.training import History, Rows, State

__all__ = ["Checkpoint", "fingerprint", "write_atomically"]


class Checkpoint:
    """Saves a state after an epoch, if it is due, and puts it back.

    Arguments:
        path: The file.
        fingerprint: What the fit is about; a checkpoint with another one is refused.
        every: Epochs between two saves.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str, every: int = 1) -> None:
        try:
            import safetensors  # noqa: F401
        except ImportError as error:
            raise ImportError("checkpoints are safetensors files: pip install 'punn[files]'") from error
        self.path, self.fingerprint, self.every = Path(path), fingerprint, every
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder of the checkpoint does not exist: {self.path.parent}")

    def save(self, state: State) -> None:
        """Write the state, whole or not at all."""
        from safetensors.torch import save

        if state.epoch % self.every:
            return
        tensors = {name: getattr(state.adam, name) for name in ("weights", "mean", "square")}
        tensors |= {f"buffer.{name}": value for name, value in state.objective.named_buffers()}
        tensors |= {"best": state.best, "best_score": state.best_score, "generator": state.generator.get_state()}
        about = {
            "epoch": state.epoch,
            "waited": state.waited,
            "steps": state.adam.steps,
            "history": asdict(state.history),
            "fingerprint": self.fingerprint,
        }
        contiguous = {name: value.cpu().contiguous() for name, value in tensors.items()}
        write_atomically(self.path, save(contiguous, {"punn_checkpoint": json.dumps(about)}))

    def resume(self, state: State) -> None:
        """Put a saved state in place, if there is one."""
        if not self.path.exists():
            return
        tensors, about = self._read()
        if about["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit (other data or settings): "
                "give the same ones, another path, or delete it"
            )
        with torch.no_grad():
            for name in ("weights", "mean", "square"):
                getattr(state.adam, name).copy_(tensors[name])
            for name, value in state.objective.named_buffers():
                value.copy_(tensors[f"buffer.{name}"])
            state.best.copy_(tensors["best"])
            state.best_score.copy_(tensors["best_score"])
        state.generator.set_state(tensors["generator"])
        state.adam.steps = about["steps"]
        state.epoch, state.waited = about["epoch"], about["waited"]
        state.history = History(**about["history"])

    def remove(self) -> None:
        """Delete the file: the fit has ended."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, "pt") as file:
                about = json.loads((file.metadata() or {})["punn_checkpoint"])
                return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise ValueError(
                f"{self.path} is not a whole checkpoint of punn ({error}): delete it to begin anew"
            ) from error


def fingerprint(settings: dict[str, Any], rows: Rows) -> str:
    """A hash of what decides a fit: its settings and its data."""
    digest = hashlib.blake2b(json.dumps(settings, default=str, sort_keys=True).encode(), digest_size=16)
    for tensor in rows:
        if tensor is not None:
            digest.update(str((tensor.shape, tensor.dtype)).encode())
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens in between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
