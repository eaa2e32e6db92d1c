"""Data to try things on: the paper's synthetic sets, the small classics, and the image sets' readers.

Every generator is a function `(samples, noise, seed) -> X (n, 2), y (n,)`; its random numbers
are its own, so neither calls nor their order change one another. `load` gives the same sets,
and scikit-learn's small tables, by name. The image sets live in `punn.readers`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as classics

from punn.readers import cifar100, cifar100_names, data_folder, fetch, mnist

__all__ = [
    "DATASETS",
    "Dataset",
    "cifar100",
    "cifar100_names",
    "circles",
    "data_folder",
    "fetch",
    "helix",
    "iris",
    "load",
    "mnist",
    "moons",
    "rings",
    "xor",
]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class Dataset(NamedTuple):
    """Data with the names of its columns and classes.

    Arguments:
        X: The features, shape :math:`(n, features)`.
        y: The class of every row, a position in `class_names`, shape :math:`(n,)`.
        feature_names: One name per column of `X`.
        class_names: One name per class.

    Example:
        >>> data = load("iris")
        >>> data.X.shape, data.class_names
        ((150, 4), ('setosa', 'versicolor', 'virginica'))
    """

    X: Floats
    y: Labels
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]


def moons(samples: int = 1000, noise: float = 0.1, seed: int = 42) -> tuple[Floats, Labels]:
    r"""Two interleaving half-circles.

    Arguments:
        samples: The number of rows :math:`n`.
        noise: The standard deviation :math:`\sigma` of the Gaussian noise added to every coordinate.
        seed: The same seed gives the same rows.

    Returns:
        The points, shape :math:`(n, 2)`, and their classes 0 and 1, shape :math:`(n,)`.

    Example:
        >>> X, y = moons()
        >>> X.shape, np.bincount(y)
        ((1000, 2), array([500, 500]))
    """
    _check(samples, noise, groups=2)
    X, y = classics.make_moons(samples, noise=noise, random_state=seed)
    return X, y


def circles(samples: int = 1000, noise: float = 0.1, seed: int = 42) -> tuple[Floats, Labels]:
    r"""Two concentric circles; class 0 is the outer one, of radius 1, class 1 the inner one, of radius 0.5.

    Arguments:
        samples: The number of rows :math:`n`.
        noise: The standard deviation :math:`\sigma` of the Gaussian noise added to every coordinate.
        seed: The same seed gives the same rows.

    Returns:
        The points, shape :math:`(n, 2)`, and their classes 0 and 1, shape :math:`(n,)`.

    Example:
        >>> X, y = circles(noise=0.0)
        >>> np.linalg.norm(X[y == 1], axis=1).max().round(6)
        np.float64(0.5)
    """
    _check(samples, noise, groups=2)
    X, y = classics.make_circles(samples, noise=noise, factor=0.5, random_state=seed)
    return X, y


def xor(samples: int = 1000, noise: float = 0.1, seed: int = 42) -> tuple[Floats, Labels]:
    r"""Four Gaussian clusters centred at :math:`(\pm 1, \pm 1)`; class 1 where the signs differ.

    Arguments:
        samples: The number of rows :math:`n`.
        noise: The standard deviation :math:`\sigma` of the clusters.
        seed: The same seed gives the same rows.

    Returns:
        The points, shape :math:`(n, 2)`, and their classes 0 and 1, shape :math:`(n,)`.

    Example:
        >>> X, y = xor(noise=0.0)
        >>> np.unique(X[y == 1], axis=0)
        array([[-1.,  1.],
               [ 1., -1.]])
    """
    _check(samples, noise, groups=4)
    cluster = np.arange(samples) % 4
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    return _noisy(signs[cluster], cluster % 2, noise, seed)


def helix(samples: int = 1000, noise: float = 0.1, seed: int = 42) -> tuple[Floats, Labels]:
    r"""Two interleaved spirals with two full rotations.

    .. math:: (t \cos t, t \sin t) \text{ and } (t \cos(t + \pi), t \sin(t + \pi)), \qquad t \in [0, 4\pi]

    The values of :math:`t` are evenly spaced, as in scikit-learn's moons and circles.

    Arguments:
        samples: The number of rows :math:`n`.
        noise: The standard deviation :math:`\sigma` of the Gaussian noise added to every coordinate.
        seed: The same seed gives the same rows.

    Returns:
        The points, shape :math:`(n, 2)`, and their classes 0 and 1, shape :math:`(n,)`.

    Example:
        >>> X, y = helix(noise=0.0)
        >>> np.linalg.norm(X, axis=1).max() / np.pi
        np.float64(4.0)
    """
    _check(samples, noise, groups=2)
    y = np.repeat([0, 1], [samples - samples // 2, samples // 2])
    t = np.concatenate([np.linspace(0.0, 4.0 * np.pi, count) for count in np.bincount(y)])
    angle = t + np.pi * y
    return _noisy(np.column_stack([t * np.cos(angle), t * np.sin(angle)]), y, noise, seed)


def rings(samples: int = 1500, noise: float = 0.05, seed: int = 42) -> tuple[Floats, Labels]:
    r"""Three concentric rings of radius 0.5, 1.5 and 2.5, one class each, from the inside out.

    Arguments:
        samples: The number of rows :math:`n`.
        noise: The standard deviation :math:`\sigma` of the Gaussian noise added to every coordinate.
        seed: The same seed gives the same rows.

    Returns:
        The points, shape :math:`(n, 2)`, and their classes 0, 1 and 2, shape :math:`(n,)`.

    Example:
        >>> X, y = rings(noise=0.0)
        >>> [float(np.linalg.norm(X[y == ring], axis=1).mean().round(6)) for ring in range(3)]
        [0.5, 1.5, 2.5]
    """
    _check(samples, noise, groups=3)
    y = np.arange(samples) % 3
    angle = 2.0 * np.pi * np.arange(samples) / samples
    points = np.array([0.5, 1.5, 2.5])[y, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return _noisy(points, y, noise, seed)


def iris() -> tuple[Floats, Labels]:
    """Fisher's iris: four measurements of 150 flowers of three species.

    Returns:
        The measurements in centimetres, shape :math:`(150, 4)`, and the species, shape :math:`(150,)`.

    Example:
        >>> X, y = iris()
        >>> X[0], y[0]
        (array([5.1, 3.5, 1.4, 0.2]), np.int64(0))
    """
    return load("iris")[:2]


def load(name: str) -> Dataset:
    """A built-in data set by its name.

    Arguments:
        name: One of the names in `DATASETS`. The synthetic sets come with their default arguments.

    Returns:
        The data, with the names of its columns and classes.

    Example:
        >>> load("wine").feature_names[:3]
        ('alcohol', 'malic_acid', 'ash')
        >>> load("rings").class_names
        ('inner', 'middle', 'outer')
        >>> load("irises")
        Traceback (most recent call last):
        ValueError: expected one of iris, wine, breast_cancer, digits, moons, ..., got 'irises'
    """
    if name not in DATASETS:
        raise ValueError(f"expected one of {', '.join(DATASETS)}, got {name!r}")
    return DATASETS[name]()


def _check(samples: int, noise: float, groups: int) -> None:
    if samples < groups:
        raise ValueError(f"expected samples to be at least {groups}, one per cluster or class, got {samples}")
    if not 0.0 <= noise < np.inf:
        raise ValueError(f"expected noise to be a standard deviation, finite and not negative, got {noise}")


def _noisy(points: Floats, y: Labels, noise: float, seed: int) -> tuple[Floats, Labels]:
    """The points with Gaussian noise, rows shuffled so that any prefix holds every class."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(points))
    return points[rows] + random.normal(scale=noise, size=points.shape), y[rows]


def _classic(name: str) -> Dataset:
    """One of scikit-learn's small tables, which come with the library."""
    bunch = getattr(classics, f"load_{name}")()
    features = tuple(str(feature) for feature in bunch.feature_names)
    return Dataset(bunch.data, bunch.target, features, tuple(str(target) for target in bunch.target_names))


def _synthetic(generator: Callable[[], tuple[Floats, Labels]], class_names: tuple[str, ...]) -> Dataset:
    X, y = generator()
    return Dataset(X, y, ("x", "y"), class_names)


DATASETS: dict[str, Callable[[], Dataset]] = {
    "iris": lambda: _classic("iris"),
    "wine": lambda: _classic("wine"),
    "breast_cancer": lambda: _classic("breast_cancer"),
    "digits": lambda: _classic("digits"),
    "moons": lambda: _synthetic(moons, ("upper", "lower")),
    "circles": lambda: _synthetic(circles, ("outer", "inner")),
    "xor": lambda: _synthetic(xor, ("same sign", "different sign")),
    "helix": lambda: _synthetic(helix, ("first", "second")),
    "rings": lambda: _synthetic(rings, ("inner", "middle", "outer")),
}
