"""Pickled dictionaries of numpy arrays, and nothing else, from files that nobody vouches for.

A pickle is a program. This reader runs it with four functions in reach, those that build an array,
each of which takes only the arguments that an array needs; any other name is refused and told.
"""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["load_arrays"]

_ARRAY_CLASS = "numpy.ndarray"


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The dictionary in a pickle file, if it is made of numbers, text, lists and arrays alone.

    Arguments:
        path: The file. Keys and texts that Python 2 wrote as bytes come back as text.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     file.write(pickle.dumps({b"data": np.arange(3)})) > 0
        ...     file.flush()
        ...     load_arrays(file.name)
        True
        {'data': array([0, 1, 2])}
    """
    path = Path(path)
    try:
        # From memory, so that a length that the file claims but does not have is never allocated.
        content = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except _RefusedError as refused:
        raise ValueError(
            f"{path}: expected arrays alone, got a call of {refused}, which could run anything: refused; "
            "delete the file and get it from its publisher"
        ) from None
    except OSError:
        raise
    except Exception as error:  # damaged bytes are a damaged program: it can fail in any way
        raise ValueError(
            f"{path}: expected a pickled dictionary, got a damaged file ({type(error).__name__}: {error}); "
            "delete it and get it from its publisher"
        ) from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a pickled dictionary, got a {type(content).__name__}")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): content[key] for key in content}


class _RefusedError(Exception):
    """A name outside the closed list."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f"{module}.{name}")
        return _ALLOWED[module, name]


def _reconstruct(kind: object, shape: tuple[int, ...], code: bytes | str) -> NDArray[Any]:
    """An empty array, which the pickle then fills; any other shape would be an allocation for free."""
    if kind is not _ARRAY_CLASS or shape != (0,):
        raise _RefusedError(f"numpy's _reconstruct with {kind!r} and shape {shape!r}")
    return np.empty(0, np.int8)


def _frombuffer(buffer: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], order: str) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2; other codecs are programs of their own."""
    if encoding != "latin1":
        raise _RefusedError(f"_codecs.encode with {encoding!r}")
    return text.encode("latin1")


def _dtype(code: str, align: bool = False, copy: bool = True) -> np.dtype[Any]:
    """Plain numbers; records and objects are not needed for images and labels."""
    dtype = np.dtype(str(code))
    if dtype.kind not in "biuf":
        raise _RefusedError(f"numpy.dtype with {code!r}")
    return dtype


# The module was renamed between numpy 1 and 2, and files of both are about.
_ALLOWED: dict[tuple[str, str], Callable[..., Any] | str] = {
    ("numpy", "ndarray"): _ARRAY_CLASS,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _frombuffer for core in ("core", "_core")},
}
