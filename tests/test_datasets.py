"""The synthetic sets are those of the paper, and a seed is all that they depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punn import datasets

GENERATORS = [datasets.moons, datasets.circles, datasets.xor, datasets.helix, datasets.rings]


@pytest.mark.parametrize("generator", GENERATORS)
class TestGenerators:
    def test_shapes_and_types(self, generator):
        X, y = generator(samples=101)
        assert X.shape == (101, 2)
        assert X.dtype == np.float64
        assert y.shape == (101,)
        assert y.dtype.kind == "i"

    def test_seed_decides(self, generator):
        first, again, other = generator(seed=7), generator(seed=7), generator(seed=8)
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert not np.array_equal(first[0], other[0])

    def test_global_random_state_is_left_alone(self, generator):
        before = np.random.get_state()[1].copy()
        generator()
        np.testing.assert_array_equal(before, np.random.get_state()[1])

    @settings(max_examples=20, deadline=None)
    @given(samples=st.integers(4, 300), seed=st.integers(0, 2**32 - 1))
    def test_classes_are_balanced(self, generator, samples, seed):
        counts = np.bincount(generator(samples=samples, seed=seed)[1])
        assert counts.sum() == samples
        assert counts.max() - counts.min() <= 1 + (generator is datasets.xor)

    def test_rows_are_shuffled(self, generator):
        assert len(np.unique(generator()[1][:50])) == len(np.unique(generator()[1]))

    @pytest.mark.parametrize("arguments", [{"samples": 1}, {"noise": -0.1}, {"noise": float("nan")}])
    def test_bad_arguments(self, generator, arguments):
        with pytest.raises(ValueError, match=r"expected (samples|noise)"):
            generator(**arguments)


def test_default_sizes_are_the_papers():
    assert [len(generator()[0]) for generator in GENERATORS] == [1000, 1000, 1000, 1000, 1500]


def test_xor_clusters():
    X, y = datasets.xor(samples=4000)
    np.testing.assert_array_equal(y, (np.sign(X[:, 0]) != np.sign(X[:, 1])).astype(int))
    assert (X - np.sign(X)).std() == pytest.approx(0.1, rel=0.05)


def test_helix_is_two_spirals_of_two_rotations():
    X, y = datasets.helix(noise=0.0)
    t = np.linalg.norm(X, axis=1)
    assert t.min() == 0.0
    assert t.max() == pytest.approx(4 * np.pi)
    direction = np.column_stack([np.cos(t + np.pi * y), np.sin(t + np.pi * y)])
    np.testing.assert_allclose(X, t[:, None] * direction, atol=1e-9)


def test_noise_has_the_deviation_asked_for():
    clean, _ = datasets.rings(noise=0.0)
    noisy, _ = datasets.rings(noise=0.05)
    assert (noisy - clean).std() == pytest.approx(0.05, rel=0.1)


def test_rings_radii():
    X, y = datasets.rings()
    radii = [np.linalg.norm(X[y == ring], axis=1).mean() for ring in range(3)]
    np.testing.assert_allclose(radii, [0.5, 1.5, 2.5], atol=0.01)


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
        ("moons", (1000, 2), 2),
        ("circles", (1000, 2), 2),
        ("xor", (1000, 2), 2),
        ("helix", (1000, 2), 2),
        ("rings", (1500, 2), 3),
    ],
)
def test_load(name, shape, classes):
    data = datasets.load(name)
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert len(data.feature_names) == shape[1]
    assert all(type(text) is str for text in data.feature_names + data.class_names)
    np.testing.assert_array_equal(np.unique(data.y), np.arange(classes))
    assert len(data.class_names) == classes


def test_circles_names_follow_the_radius():
    X, y, _, names = datasets.load("circles")
    radius = np.linalg.norm(X, axis=1)
    assert radius[y == names.index("inner")].mean() < radius[y == names.index("outer")].mean()


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="iris, wine, breast_cancer, digits, moons, circles, xor, helix, rings"):
        datasets.load("mnist2")


def test_iris():
    X, y = datasets.iris()
    assert X.shape == (150, 4)
    np.testing.assert_array_equal(np.bincount(y), [50, 50, 50])
