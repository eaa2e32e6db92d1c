"""Pickles: arrays come out, everything else is refused by name."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from punn import unpickle

PHOTOS = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
FINE = [99, 0, 50, 7]


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class TestUnpickle:
    @pytest.mark.parametrize(
        ("value", "named"),
        [
            (Call(os.system, "touch hacked"), "system"),
            (Call(eval, "1"), "builtins.eval|__builtin__.eval"),
            (Call(np.zeros, 3), "zeros"),
            (Call(np.empty(0).__reduce__()[0], np.ndarray, (10**12,), b"b"), "_reconstruct"),
            (np.array([object()]), "numpy.dtype with 'O"),
            (Path("x"), "pathlib"),
        ],
    )
    @pytest.mark.parametrize("protocol", [2, 4])
    def test_anything_else_is_refused_and_named(self, tmp_path, value, named, protocol, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "train").write_bytes(pickle.dumps({"data": value}, protocol))
        with pytest.raises(ValueError, match=rf"train: expected arrays alone, got a call of .*({named})"):
            unpickle.load_arrays(tmp_path / "train")
        assert not (tmp_path / "hacked").exists()

    def test_array_class_is_no_callable(self, tmp_path):
        # np.ndarray((10**12,)) would allocate a terabyte
        (tmp_path / "train").write_bytes(b"cnumpy\nndarray\n((I1000000000000\ntt\x52.")
        with pytest.raises(ValueError, match="damaged"):
            unpickle.load_arrays(tmp_path / "train")

    def test_codecs_other_than_latin1_are_refused(self, tmp_path):
        (tmp_path / "train").write_bytes(b"c_codecs\nencode\n(Vx\nVrot13\ntR.")
        with pytest.raises(ValueError, match="rot13"):
            unpickle.load_arrays(tmp_path / "train")

    def test_random_damage_is_one_clear_error(self, tmp_path):
        whole = pickle.dumps({"data": PHOTOS[:, :20], "fine_labels": FINE}, 2)
        random = np.random.default_rng(0)
        for _ in range(300):
            damaged = bytearray(whole)
            for position in random.integers(0, len(whole), 3):
                damaged[position] = random.integers(256)
            (tmp_path / "train").write_bytes(damaged[: random.integers(1, len(whole) + 1)])
            try:
                assert isinstance(unpickle.load_arrays(tmp_path / "train"), dict)
            except ValueError as error:
                assert "train: expected" in str(error)  # noqa: PT017
