"""Image files: read right, found wrong, fetched whole."""

import functools
import gzip
import hashlib
import http.server
import os
import pickle
import shutil
import socket
import struct
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest

from punn import readers

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (5, 28, 28), dtype=np.uint8)
DIGITS = np.array([0, 9, 3, 4, 5], np.uint8)
PHOTOS = RANDOM.integers(0, 256, (4, 3072), dtype=np.uint8)
FINE, COARSE = [99, 0, 50, 7], [19, 0, 3, 11]


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return header + array.tobytes()


@pytest.fixture(params=["gz", "plain"])
def mnist_folder(request, tmp_path):
    place = tmp_path / "mnist"
    place.mkdir()
    for name in readers.MNIST_MD5:
        content = idx(IMAGES if "images" in name else DIGITS)
        if request.param == "gz":
            (place / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (place / name).write_bytes(content)
    return tmp_path


def write_binary(place: Path) -> None:
    place.mkdir()
    records = np.column_stack([COARSE, FINE, PHOTOS]).astype(np.uint8).tobytes()
    (place / "train.bin").write_bytes(records)
    (place / "test.bin").write_bytes(records[:3074])
    (place / "fine_label_names.txt").write_text("\n".join(f"fine{i}" for i in range(100)) + "\n")
    (place / "coarse_label_names.txt").write_text("\n".join(f"coarse{i}" for i in range(20)) + "\n\n")


def write_python(place: Path, protocol: int, keys: type = bytes) -> None:
    place.mkdir()
    text = str if keys is str else str.encode
    content = {text("data"): PHOTOS, text("fine_labels"): FINE, text("coarse_labels"): COARSE}
    names = {
        text("fine_label_names"): [f"fine{i}" for i in range(100)],
        text("coarse_label_names"): [f"coarse{i}" for i in range(20)],
    }
    for name in ("train", "test"):
        (place / name).write_bytes(pickle.dumps(content, protocol))
    (place / "meta").write_bytes(pickle.dumps(names, protocol))


class TestMnist:
    def test_reads(self, mnist_folder):
        X_train, y_train, X_test, y_test = readers.mnist(mnist_folder)
        np.testing.assert_array_equal(X_train, IMAGES)
        np.testing.assert_array_equal(X_test, IMAGES)
        np.testing.assert_array_equal(y_train, DIGITS)
        np.testing.assert_array_equal(y_test, DIGITS)
        assert X_train.dtype == y_train.dtype == np.uint8
        assert X_train.flags.writeable

    def test_environment_names_the_folder(self, mnist_folder, monkeypatch):
        monkeypatch.setenv("PUNN_DATA", str(mnist_folder))
        assert readers.mnist()[0].shape == (5, 28, 28)

    def test_missing_says_what_to_put_where(self, tmp_path):
        with pytest.raises(FileNotFoundError) as error:
            readers.mnist(tmp_path)
        for word in ("train-images-idx3-ubyte.gz", str(tmp_path / "mnist"), "punn data mnist", "PUNN_DATA"):
            assert word in str(error.value)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (idx(IMAGES)[:1234], r"expected 3936 bytes of images, got 1234: the file is truncated"),
            (idx(IMAGES)[:9], r"expected at least 16 bytes of images, got 9: the file is truncated"),
            (b"", r"expected at least 16 bytes of images, got 0"),
            (idx(IMAGES) + b"1", r"expected 3936 bytes of images, got 3937: the file is too long"),
            (idx(DIGITS) + bytes(99), r"expected IDX images \(magic number 2051 and 28 and 28\), got \[2049"),
            (idx(IMAGES[:, :9]), r"got \[2051, 9, 28\]"),
            (struct.pack(">4I", 2051, 2**32 - 1, 28, 28), r"got 16: the file is truncated"),
            (idx(IMAGES[:4]), r"expected 4 labels, one per image, got 5"),
        ],
    )
    def test_wrong_images(self, mnist_folder, content, message):
        path = readers._plain_or_gz(mnist_folder / "mnist" / "train-images-idx3-ubyte")
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        with pytest.raises(ValueError, match=message) as error:
            readers.mnist(mnist_folder)
        assert "/train-" in str(error.value)
        assert "delete it and run `punn data mnist`" in str(error.value)

    def test_wrong_label(self, mnist_folder):
        path = readers._plain_or_gz(mnist_folder / "mnist" / "t10k-labels-idx1-ubyte")
        content = idx(DIGITS + 1)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        with pytest.raises(ValueError, match="expected labels from 0 to 9, got 10"):
            readers.mnist(mnist_folder)

    @pytest.mark.parametrize("mnist_folder", ["gz"], indirect=True)
    @pytest.mark.parametrize("damage", ["cut", "junk", "middle", "checksum"])
    def test_damaged_gz(self, mnist_folder, damage):
        path = mnist_folder / "mnist" / "train-images-idx3-ubyte.gz"
        whole = path.read_bytes()
        middle, last = len(whole) // 2, len(whole) - 8
        path.write_bytes(
            {
                "cut": whole[:middle],
                "junk": b"<html>not found</html>",
                "middle": whole[:20] + bytes(40) + whole[60:],
                "checksum": whole[:last] + b"\xff\xff\xff\xff" + whole[last + 4 :],
            }[damage]
        )
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: expected .* run `punn data mnist`"):
            readers.mnist(mnist_folder)


class TestCifar100:
    def test_binary(self, tmp_path):
        write_binary(tmp_path / "cifar-100-binary")
        X_train, y_train, X_test, y_test = readers.cifar100(tmp_path)
        np.testing.assert_array_equal(X_train, PHOTOS.reshape(4, 3, 32, 32))
        np.testing.assert_array_equal(X_test, X_train[:1])
        np.testing.assert_array_equal(y_train, FINE)
        np.testing.assert_array_equal(y_test, FINE[:1])
        np.testing.assert_array_equal(readers.cifar100(tmp_path, labels="coarse")[1], COARSE)
        assert X_train.dtype == y_train.dtype == np.uint8
        assert readers.cifar100_names(tmp_path)[99] == "fine99"
        assert readers.cifar100_names(tmp_path, labels="coarse")[19] == "coarse19"

    @pytest.mark.parametrize("keys", [bytes, str])
    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_python(self, tmp_path, protocol, keys):
        write_python(tmp_path / "cifar-100-python", protocol, keys)
        X_train, y_train, X_test, _ = readers.cifar100(tmp_path)
        np.testing.assert_array_equal(X_train, PHOTOS.reshape(4, 3, 32, 32))
        np.testing.assert_array_equal(X_test, X_train)
        np.testing.assert_array_equal(y_train, FINE)
        np.testing.assert_array_equal(readers.cifar100(tmp_path, labels="coarse")[1], COARSE)
        assert readers.cifar100_names(tmp_path)[99] == "fine99"

    def test_missing_says_what_to_put_where(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"train\.bin, test\.bin in .*cifar-100-binary.*punn data cifar100"):
            readers.cifar100(tmp_path)

    def test_missing_names(self, tmp_path):
        write_binary(tmp_path / "cifar-100-binary")
        (tmp_path / "cifar-100-binary" / "fine_label_names.txt").unlink()
        with pytest.raises(FileNotFoundError, match=r"fine_label_names\.txt"):
            readers.cifar100_names(tmp_path)

    def test_wrong_number_of_names(self, tmp_path):
        write_binary(tmp_path / "cifar-100-binary")
        (tmp_path / "cifar-100-binary" / "fine_label_names.txt").write_text("apple\n")
        with pytest.raises(ValueError, match="expected 100 class names, got 1"):
            readers.cifar100_names(tmp_path)

    def test_unknown_labels(self, tmp_path):
        with pytest.raises(ValueError, match="'fine' or 'coarse', got 'rough'"):
            readers.cifar100(tmp_path, labels="rough")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (bytes(3074 * 2 - 1), "expected 6148 bytes of labels and images, got 6147: the file is truncated"),
            (b"", "expected 3074 bytes of labels and images, got 0: the file is truncated"),
            (bytes(3074 * 1000), "expected 153700000 bytes of labels and images, got 3074000: the file is truncated"),
            (b"\x14" + bytes(3073), "expected labels from 0 to 19, got 20"),
            (b"\x00\x64" + bytes(3072), "expected labels from 0 to 99, got 100"),
        ],
    )
    def test_wrong_binary(self, tmp_path, content, message):
        write_binary(tmp_path / "cifar-100-binary")
        (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            readers.cifar100(tmp_path)
        assert "train.bin: " in str(error.value)
        assert "delete it and run `punn data cifar100`" in str(error.value)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"data": PHOTOS, "fine_labels": [1, 2, 3, 100]}, "expected labels from 0 to 99, got 100"),
            ({"data": PHOTOS, "fine_labels": [1]}, "expected 4 labels, one per image, got 1"),
            ({"data": PHOTOS, "fine_labels": [1, 2, 3, 300]}, "'fine_labels' to be a list of class numbers"),
            ({"data": PHOTOS}, "'fine_labels' to be a list"),
            ({"data": PHOTOS.astype(float), "fine_labels": FINE}, "n x 3072 unsigned bytes"),
            ({"data": PHOTOS[:, 1:], "fine_labels": FINE}, "n x 3072 unsigned bytes"),
            ({}, "n x 3072 unsigned bytes"),
            ([1, 2], "expected a pickled dictionary, got a list"),
        ],
    )
    def test_wrong_python(self, tmp_path, content, message):
        write_python(tmp_path / "cifar-100-python", 2)
        (tmp_path / "cifar-100-python" / "train").write_bytes(pickle.dumps(content, 2))
        with pytest.raises(ValueError, match=message):
            readers.cifar100(tmp_path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A web server on this machine with small files, whose checksums the readers take for the published ones."""
    site = tmp_path / "site"
    site.mkdir()
    for name in readers.MNIST_MD5:
        content = gzip.compress(idx(IMAGES if "images" in name else DIGITS))
        (site / f"{name}.gz").write_bytes(content)
        monkeypatch.setitem(readers.MNIST_MD5, name, hashlib.md5(content).hexdigest())
    write_binary(site / "cifar-100-binary")
    archive = site / "cifar-100-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(site / "cifar-100-binary", "cifar-100-binary")
        tar.add(site / "cifar-100-binary" / "test.bin", "../outside.txt")
    monkeypatch.setattr(readers, "CIFAR100_MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        _point_at(f"http://127.0.0.1:{server.server_port}/", monkeypatch)
        yield site
        server.shutdown()
        thread.join()


def _point_at(url, monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(readers, "MNIST_URL", url)
    monkeypatch.setattr(readers, "CIFAR100_URL", f"{url}cifar-100-binary.tar.gz")


@pytest.fixture
def offline(monkeypatch):
    _point_at(f"http://127.0.0.1:{free_port()}/", monkeypatch)


class TestFetch:
    def test_fetches_what_the_readers_read(self, publisher, tmp_path):
        folder = tmp_path / "data"
        places = readers.fetch(["mnist", "cifar100"], folder)
        assert places == [folder / "mnist", folder / "cifar-100-binary"]
        np.testing.assert_array_equal(readers.mnist(folder)[0], IMAGES)
        np.testing.assert_array_equal(readers.cifar100(folder)[1], FINE)
        assert sorted(path.name for path in places[1].iterdir()) == sorted(readers.CIFAR100_FILES)
        assert len(list(places[0].iterdir())) == 4
        assert not list(tmp_path.rglob("outside.txt"))

    def test_what_is_there_stays(self, publisher, tmp_path):
        folder = tmp_path / "data"
        readers.fetch(["mnist", "cifar100"], folder)
        shutil.rmtree(publisher)
        assert len(readers.fetch(["mnist", "cifar100"], folder)) == 2

    def test_damaged_files_are_fetched_again(self, publisher, tmp_path):
        folder = tmp_path / "data"
        readers.fetch(["mnist", "cifar100"], folder)
        (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"half")
        (folder / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"half")
        (folder / "cifar-100-binary" / "test.bin").write_bytes(b"half")
        readers.fetch(["mnist", "cifar100"], folder)
        assert len(readers.mnist(folder)[3]) == 5
        assert len(readers.cifar100(folder)[3]) == 1

    @pytest.mark.parametrize("name", ["mnist", "cifar100"])
    def test_offline_says_what_to_put_where(self, offline, tmp_path, name):
        with pytest.raises(ConnectionError, match=rf"could not fetch http://127.*put .* in {tmp_path}"):
            readers.fetch([name], tmp_path)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    @pytest.mark.parametrize("name", ["mnist", "cifar100"])
    def test_not_found_is_a_connection_error(self, publisher, tmp_path, name):
        for path in publisher.glob("*.gz"):
            path.unlink()
        with pytest.raises(ConnectionError, match="HTTPError"):
            readers.fetch(name, tmp_path / "data")

    @pytest.mark.parametrize("name", ["mnist", "cifar100"])
    def test_wrong_checksum_leaves_nothing_behind(self, publisher, tmp_path, name):
        for path in publisher.glob("*.gz"):
            path.write_bytes(b"something else")
        with pytest.raises(ValueError, match=r"expected a file with md5 [0-9a-f]{32}, got another one"):
            readers.fetch([name], tmp_path / "data")
        assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]

    def test_unknown_name(self, tmp_path):
        with pytest.raises(ValueError, match="expected one of mnist, cifar100, got 'imagenet'"):
            readers.fetch(["mnist", "imagenet"], tmp_path)
        assert not list(tmp_path.iterdir())


def test_default_folder_is_the_users_cache(monkeypatch):
    monkeypatch.delenv("PUNN_DATA", raising=False)
    assert readers.data_folder().name == "punn"


def real(reader):
    """The published files, where the environment variable PUNN_DATA names their folder."""
    if "PUNN_DATA" not in os.environ:
        pytest.skip("PUNN_DATA is not set")
    try:
        return reader()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_real_mnist():
    X_train, y_train, X_test, y_test = real(readers.mnist)
    assert X_train.shape == (60000, 28, 28)
    assert X_test.shape == (10000, 28, 28)
    np.testing.assert_array_equal(np.bincount(y_test), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
    np.testing.assert_array_equal(y_train[:5], [5, 0, 4, 1, 9])
    assert X_train.mean() == pytest.approx(33.3184, abs=1e-4)


def test_real_cifar100():
    X_train, y_train, X_test, y_test = real(readers.cifar100)
    assert X_train.shape == (50000, 3, 32, 32)
    assert X_test.shape == (10000, 3, 32, 32)
    np.testing.assert_array_equal(np.bincount(y_train), [500] * 100)
    np.testing.assert_array_equal(np.bincount(y_test), [100] * 100)
    np.testing.assert_allclose(X_train.mean(axis=(0, 2, 3)) / 255, [0.5071, 0.4865, 0.4409], atol=1e-4)
    assert readers.cifar100_names()[:2] == ("apple", "aquarium_fish")
