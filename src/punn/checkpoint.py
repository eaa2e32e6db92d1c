"""Checkpoints: all of a running fit in one safe file, so that it can go on to the very same weights.

The file is there whole or not at all, has a digest against damage, and is locked as long as the fit goes on, so that
no second one overwrites it. A process that is killed leaves the last state, and nothing else that stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from torch import Tensor

from punn.training import State

__all__ = ["Checkpoint", "fingerprint", "opened_atomically", "write_atomically"]


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
        # Always the same name: what a killed process left half-written, the next one writes anew.
        self.draft = self.path.with_name(f".{self.path.name}.tmp")
        self.held: IO[bytes] | None = None
        self.later: list[Checkpoint] = []
        self.began = time.monotonic()
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder of the checkpoint does not exist: {self.path.parent}")

    def of_stage(self, stage: int) -> Checkpoint:
        """The checkpoint of a run of the same fit, each in a file of its own; they end together."""
        if stage == 0:
            return self
        path = self.path.with_name(f"{self.path.name}.{stage}")
        self.later.append(Checkpoint(path, f"{self.fingerprint}.{stage}", self.every))
        return self.later[-1]

    @property
    def seconds(self) -> float:
        """What the fit has taken until now, with what came before the state that was put back."""
        return time.monotonic() - self.began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        for one in self.later:
            one.__exit__(*reason)
        if self.held is not None:
            self.held.close()  # which unlocks it
            self.held = None

    def resume(self, state: State) -> None:
        """Put a saved state in place, if there is one; else save the first one."""
        try:
            self._hold(self.path.open("r+b"))
        except FileNotFoundError:
            self._write(state)
            return
        tensors, about = self._read()
        if about["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit (other data or settings): "
                "give the same ones, another path, or delete it"
            )
        state.unpack(tensors, about)
        self.began -= about.get("seconds", 0.0)

    def save(self, state: State) -> None:
        """Write the state, whole or not at all, if it is due."""
        if state.epoch % self.every == 0:
            self._write(state)

    def remove(self) -> None:
        """Delete the file, and those of later runs: the fit has ended."""
        for one in self.later:
            one.remove()
        self.path.unlink(missing_ok=True)
        self.draft.unlink(missing_ok=True)

    def _write(self, state: State) -> None:
        from safetensors.torch import save

        tensors, about = state.pack()
        tensors = {name: value.cpu().contiguous() for name, value in tensors.items()}
        text = json.dumps(about | {"fingerprint": self.fingerprint, "seconds": self.seconds})
        content = save(tensors, {"punn_checkpoint": text, "digest": _digest(text, tensors)})
        with _naming(self.path):
            draft = self.draft.open("ab")  # which is emptied only when it is locked
            _lock(draft, self.path)
            try:
                if self.held is None and self.path.exists():
                    raise _in_use(self.path)  # it was not there a moment ago
                draft.truncate(0)
                draft.write(content)
                draft.flush()
                os.fsync(draft.fileno())
                self.draft.replace(self.path)
            except BaseException:
                self.draft.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    draft.close()
                raise
        self._hold(draft)

    def _hold(self, file: IO[bytes]) -> None:
        """Lock the file in the place of the one that was held before."""
        _lock(file, self.path)
        if not os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
            file.close()
            raise _in_use(self.path)  # by a fit that has written the next state in between
        if self.held is not None:
            self.held.close()
        self.held = file

    def _read(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, "pt") as file:
                metadata = file.metadata() or {}
                text = metadata["punn_checkpoint"]
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if _digest(text, tensors) != metadata["digest"]:
                raise ValueError("its content was changed after it was written")
            return tensors, json.loads(text)
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise ValueError(
                f"{self.path} is not a whole checkpoint of punn ({error}): delete it to begin anew"
            ) from error


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()


def _lock(file: IO[bytes], path: Path) -> None:
    """Lock a file until it is closed, or the process ends in whatever way."""
    try:
        import fcntl
    except ImportError:
        return  # on Windows a second fit is not noticed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise _in_use(path) from None
    except OSError:
        pass  # a file system without locks


def _in_use(path: Path) -> ValueError:
    return ValueError(f"{path} is the checkpoint of a fit that is going on: wait for its end, or give another path")


def fingerprint(settings: dict[str, Any], rows: Iterable[Tensor | None]) -> str:
    """A hash of what decides a fit: its settings and its data."""
    digest = hashlib.blake2b(json.dumps(settings, default=str, sort_keys=True).encode(), digest_size=16)
    for tensor in rows:
        if tensor is not None:
            digest.update(str((tensor.shape, tensor.dtype)).encode())
            digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens in between."""
    with opened_atomically(path) as file:
        file.write(content)


@contextlib.contextmanager
def opened_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place when it is whole, and never if it does not become so."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _naming(path):
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was to be written, and not one that only we know of."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
