"""MNIST and CIFAR-100 from the files that their authors publish, checked before they are believed.

The files are looked for in a folder, the first of: the argument, the environment variable
`PUNN_DATA`, the user's cache folder. Below it:

    mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]
    cifar-100-binary/{train,test}.bin, {fine,coarse}_label_names.txt      or
    cifar-100-python/{train,test,meta}

A reader gives `X_train, y_train, X_test, y_test`; images and labels are unsigned bytes.
"""

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from punn.unpickle import load_arrays

__all__ = ["cifar100", "cifar100_names", "data_folder", "fetch", "mnist"]

Bytes = NDArray[np.uint8]
Split = tuple[Bytes, Bytes, Bytes, Bytes]

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
CIFAR100_URL = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
CIFAR100_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
CIFAR100_FILES = ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt")
CIFAR100_RECORD = 2 + 3072
# The binary files carry no count, and a file cut between two records looks whole: so the published
# counts are asked for, except of a handful of images, which somebody made for a trial.
CIFAR100_COUNTS = {"train.bin": 50_000, "test.bin": 10_000}
CIFAR100_HANDFUL = 1_000


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds the image sets.

    Arguments:
        folder: A folder; without it, the environment variable `PUNN_DATA`, else the user's cache folder.

    Example:
        >>> data_folder("images").name
        'images'
    """
    chosen = folder or os.environ.get("PUNN_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("punn"))


def mnist(folder: str | os.PathLike[str] | None = None) -> Split:
    """MNIST: 28 x 28 handwritten digits, 60,000 to train and 10,000 to test.

    Arguments:
        folder: Where the data live, see `data_folder`.

    Returns:
        `X_train, y_train, X_test, y_test`: images of shape :math:`(n, 28, 28)` and digits of shape
        :math:`(n,)`, unsigned bytes.

    Example:
        >>> X_train, y_train, X_test, y_test = mnist()  # doctest: +SKIP
        >>> X_train.shape, y_test[:5]  # doctest: +SKIP
        ((60000, 28, 28), array([7, 2, 1, 0, 4], dtype=uint8))
    """
    place = data_folder(folder) / "mnist"
    paths = {name: _plain_or_gz(place / name) for name in MNIST_MD5}
    if not all(path.is_file() for path in paths.values()):
        raise _missing("mnist", place, [f"{name}.gz" for name, path in paths.items() if not path.is_file()])
    split: list[Bytes] = []
    for part in ("train", "t10k"):
        images = _read_idx(paths[f"{part}-images-idx3-ubyte"], "images", (28, 28))
        labels = _read_idx(path := paths[f"{part}-labels-idx1-ubyte"], "labels", ())
        _check_labels(path, labels, len(images), 10, "mnist")
        split += [images, labels]
    return split[0], split[1], split[2], split[3]


def cifar100(folder: str | os.PathLike[str] | None = None, labels: Literal["fine", "coarse"] = "fine") -> Split:
    """CIFAR-100: 32 x 32 colour photographs, 50,000 to train and 10,000 to test.

    The binary version is read where both versions are there.

    Arguments:
        folder: Where the data live, see `data_folder`.
        labels: The 100 `"fine"` classes, or the 20 `"coarse"` ones that group them.

    Returns:
        `X_train, y_train, X_test, y_test`: images of shape :math:`(n, 3, 32, 32)`, red, green and blue,
        and classes of shape :math:`(n,)`, unsigned bytes.

    Example:
        >>> X_train, y_train, X_test, y_test = cifar100()  # doctest: +SKIP
        >>> X_train.shape, y_test.shape  # doctest: +SKIP
        ((50000, 3, 32, 32), (10000,))
    """
    read, files = _cifar100_version(folder, labels)
    X_train, y_train = read(files[0], labels)
    X_test, y_test = read(files[1], labels)
    return X_train, y_train, X_test, y_test


def cifar100_names(
    folder: str | os.PathLike[str] | None = None, labels: Literal["fine", "coarse"] = "fine"
) -> tuple[str, ...]:
    """The names of the classes of CIFAR-100, in the order of their numbers.

    Arguments:
        folder: Where the data live, see `data_folder`.
        labels: `"fine"` or `"coarse"`.

    Example:
        >>> cifar100_names()[:3]  # doctest: +SKIP
        ('apple', 'aquarium_fish', 'baby')
    """
    read, files = _cifar100_version(folder, labels)
    if read is _read_cifar_binary:
        path = files[0].with_name(f"{labels}_label_names.txt")
        if not path.is_file():
            raise _missing("cifar100", path.parent, [path.name])
        names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    else:
        path = files[0].with_name("meta")
        if not path.is_file():
            raise _missing("cifar100", path.parent, [path.name])
        names = tuple(str(name) for name in load_arrays(path).get(f"{labels}_label_names", ()))
    if len(names) != _classes(labels):
        raise _wrong(path, f"expected {_classes(labels)} class names, got {len(names)}", "cifar100")
    return names


def fetch(names: Iterable[str], folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Fetch image sets from their publishers, checksums compared; what is there and readable stays.

    Arguments:
        names: `"mnist"`, `"cifar100"`, or both.
        folder: Where to put them, see `data_folder`.

    Returns:
        The folder of every set.

    Example:
        >>> fetch(["mnist"])  # doctest: +SKIP
        [PosixPath('.../punn/mnist')]
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in FETCHED:
            raise ValueError(f"expected one of {', '.join(FETCHED)}, got {name!r}")
    places = []
    for name in names:
        subfolder, download, read = FETCHED[name]
        place = data_folder(folder) / subfolder
        try:
            read(folder)
        except (FileNotFoundError, ValueError):
            download(place)
        places.append(place)
    return places


def _plain_or_gz(path: Path) -> Path:
    return path if path.is_file() else path.with_name(path.name + ".gz")


def _classes(labels: str) -> int:
    return 100 if labels == "fine" else 20


def _missing(name: str, place: Path, files: list[str]) -> FileNotFoundError:
    return FileNotFoundError(
        f"{name} is not there: expected {', '.join(files)} in {place}; put them there, "
        f"run `punn data {name}` to fetch them, or name another data folder in PUNN_DATA"
    )


def _wrong(path: Path, what: str, name: str) -> ValueError:
    return ValueError(f"{path}: {what}; delete it and run `punn data {name}`")


def _read_idx(path: Path, what: str, shape: tuple[int, ...]) -> Bytes:
    """One IDX file: a magic number, the sizes as big-endian integers, then the bytes."""
    header_bytes = 4 * (2 + len(shape))
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(header_bytes)
            # One byte past the published 60,000 rows shows a file that is too long, and no
            # compressed file of endless zeros can fill the memory.
            content = file.read(60_000 * int(np.prod(shape)) + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _wrong(path, f"expected gzip-compressed {what}, got a damaged file ({error})", "mnist") from None
    if len(header) < header_bytes:
        got = f"expected at least {header_bytes} bytes of {what}, got {len(header)}: the file is truncated"
        raise _wrong(path, got, "mnist")
    magic, count, *sizes = (int(number) for number in np.frombuffer(header, ">u4"))
    if magic != 0x0801 + len(shape) or tuple(sizes) != shape:
        expected = f"magic number {0x0801 + len(shape)}" + "".join(f" and {size}" for size in shape)
        raise _wrong(path, f"expected IDX {what} ({expected}), got {[magic, *sizes]}", "mnist")
    expected_bytes = header_bytes + count * int(np.prod(shape))
    if (size := header_bytes + len(content)) != expected_bytes:
        fate = "truncated" if size < expected_bytes else "too long"
        got = f"expected {expected_bytes} bytes of {what}, got {size}: the file is {fate}"
        raise _wrong(path, got, "mnist")
    return np.frombuffer(content, np.uint8).reshape(count, *shape).copy()


def _check_labels(path: Path, labels: Bytes, images: int, classes: int, name: str) -> None:
    if len(labels) != images:
        raise _wrong(path, f"expected {images} labels, one per image, got {len(labels)}", name)
    if images == 0:
        raise _wrong(path, "expected at least one image, got none", name)
    if labels.max() >= classes:
        raise _wrong(path, f"expected labels from 0 to {classes - 1}, got {labels.max()}", name)


def _cifar100_version(
    folder: str | os.PathLike[str] | None, labels: str
) -> tuple[Callable[[Path, str], tuple[Bytes, Bytes]], list[Path]]:
    """The reader and the two files of the version of CIFAR-100 that is there."""
    if labels not in ("fine", "coarse"):
        raise ValueError(f"expected labels to be 'fine' or 'coarse', got {labels!r}")
    root = data_folder(folder)
    binary = [root / "cifar-100-binary" / name for name in ("train.bin", "test.bin")]
    python = [root / "cifar-100-python" / name for name in ("train", "test")]
    if all(path.is_file() for path in binary):
        return _read_cifar_binary, binary
    if all(path.is_file() for path in python):
        return _read_cifar_python, python
    raise _missing("cifar100", root / "cifar-100-binary", [path.name for path in binary if not path.is_file()])


def _read_cifar_binary(path: Path, labels: str) -> tuple[Bytes, Bytes]:
    """Records of a coarse label, a fine label and the red, green and blue planes."""
    size = path.stat().st_size
    count = CIFAR100_COUNTS[path.name]
    if size < CIFAR100_HANDFUL * CIFAR100_RECORD:
        count = max(1, -(-size // CIFAR100_RECORD))
    if size != (expected := count * CIFAR100_RECORD):
        fate = "truncated" if size < expected else "too long"
        got = f"expected {expected} bytes of labels and images, got {size}: the file is {fate}"
        raise _wrong(path, got, "cifar100")
    records = np.fromfile(path, np.uint8).reshape(count, CIFAR100_RECORD)
    _check_labels(path, records[:, 0], len(records), 20, "cifar100")
    _check_labels(path, records[:, 1], len(records), 100, "cifar100")
    images = np.ascontiguousarray(records[:, 2:]).reshape(-1, 3, 32, 32)
    return images, records[:, 1 if labels == "fine" else 0].copy()


def _read_cifar_python(path: Path, labels: str) -> tuple[Bytes, Bytes]:
    """A pickled dictionary of an array of images and lists of labels."""
    content = load_arrays(path)
    images, numbers = content.get("data"), content.get(f"{labels}_labels")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (3072,):
        raise _wrong(path, "expected 'data' to be an array of n x 3072 unsigned bytes", "cifar100")
    if not isinstance(numbers, list) or not all(isinstance(n, int) and 0 <= n < 256 for n in numbers):
        raise _wrong(path, f"expected '{labels}_labels' to be a list of class numbers", "cifar100")
    classes = np.array(numbers, np.uint8)
    _check_labels(path, classes, len(images), _classes(labels), "cifar100")
    return np.ascontiguousarray(images).reshape(-1, 3, 32, 32), classes


def _retrieve(url: str, md5: str, path: Path, advice: str) -> None:
    """One file from the network; it appears under its name only when it is whole and right."""
    import pooch
    from requests import RequestException

    try:
        pooch.retrieve(url, known_hash=f"md5:{md5}", fname=path.name, path=path.parent)
    except (RequestException, ConnectionError) as error:
        raise ConnectionError(f"could not fetch {url} ({type(error).__name__}); {advice}") from error
    except ValueError as error:
        raise ValueError(
            f"{url}: expected a file with md5 {md5}, got another one; try again later, or {advice}"
        ) from error


def _download_mnist(place: Path) -> None:
    advice = f"get {', '.join(f'{name}.gz' for name in MNIST_MD5)} elsewhere and put them in {place}"
    place.mkdir(parents=True, exist_ok=True)
    for name, md5 in MNIST_MD5.items():
        _retrieve(f"{MNIST_URL}{name}.gz", md5, place / f"{name}.gz", advice)
        # A plain file is read before a compressed one: a damaged one would hide the new file.
        (place / name).unlink(missing_ok=True)


def _download_cifar100(place: Path) -> None:
    advice = f"get cifar-100-binary.tar.gz elsewhere and put its {', '.join(CIFAR100_FILES)} in {place}"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        archive = Path(temporary) / "cifar-100-binary.tar.gz"
        _retrieve(CIFAR100_URL, CIFAR100_MD5, archive, advice)
        with tarfile.open(archive) as tar:
            for name in CIFAR100_FILES:
                # Only the names expected, written to names of our own: paths in an archive are not trusted.
                source = tar.extractfile(f"cifar-100-binary/{name}")
                if source is None:
                    raise ValueError(f"{CIFAR100_URL}: expected {name} to be a file; {advice}")
                with source, (Path(temporary) / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
        for name in CIFAR100_FILES:
            (Path(temporary) / name).replace(place / name)


FETCHED: dict[str, tuple[str, Callable[[Path], None], Callable[[str | os.PathLike[str] | None], Split]]] = {
    "mnist": ("mnist", _download_mnist, mnist),
    "cifar100": ("cifar-100-binary", _download_cifar100, cifar100),
}
