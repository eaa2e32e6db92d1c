"""The target: classes in, labels out, anything else refused with advice."""

import numpy as np
import pandas as pd
import pytest

from punn.table import TableError, encode_target


def encode(values):
    return encode_target(pd.DataFrame({"x": np.arange(len(values)), "y": values}), "y")


@pytest.mark.parametrize(
    ("values", "labels", "kind"),
    [
        (["a", "b", " a", "b"], ["a", "b", "a", "b"], "O"),
        ([3, 1, 3, 1], [3, 1, 3, 1], "i"),
        ([3.0, 1.0, 3.0, 1.0], [3, 1, 3, 1], "i"),
        ([True, False, True, False], [True, False, True, False], "b"),
        (pd.Categorical(["a", "b", "a", "b"]), ["a", "b", "a", "b"], "O"),
        (pd.Categorical([2, 1, 2, 1]), [2, 1, 2, 1], "i"),
        (pd.Series([2, 1, 2, 1], dtype="Int64"), [2, 1, 2, 1], "i"),
        (pd.Series([True, False] * 2, dtype="boolean"), [True, False] * 2, "b"),
        (pd.Series(["a", "b"] * 2, dtype="string"), ["a", "b"] * 2, "O"),
        ([1, "a", 1, "a"], ["1", "a", "1", "a"], "O"),
    ],
)
def test_labels_keep_their_kind(values, labels, kind):
    target = encode(values)
    assert target.labels.tolist() == labels
    assert target.labels.dtype.kind == kind
    assert len(target.frame) == len(labels)
    assert target.notes == ()


@pytest.mark.parametrize(
    "values",
    [["a", None, "b", "a", "b"], [1, np.nan, 2, 1, 2], pd.Series([True, None, False, True, False], dtype=object)],
)
def test_rows_without_a_label_are_dropped_and_told(values):
    labels, frame, notes = encode(values)
    assert len(labels) == 4
    assert frame["x"].tolist() == [0, 2, 3, 4]
    assert notes == ("'y' is missing in 1 of 5 rows; they were dropped.",)
    assert labels.dtype.kind in "Oib"


def test_large_whole_numbers_are_exact():
    assert encode([2**60 + 1, 2**60, 2**60 + 1, 2**60]).labels.tolist() == [2**60 + 1, 2**60] * 2


def test_classes_of_one_row_are_told():
    assert encode(["a", "a", "a", "b"]).notes[0].startswith("'b' has one row only")
    assert encode(["a"] * 6 + ["b", "c"]).notes[0].startswith("'b', 'c' have one row only")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "a"], "expected at least two classes, got 'a' in all 2 rows; name another column"),
        ([None, None], "got missing values alone"),
        ([0.5, 1.5, 0.5, 1.5], "such as 0.5, which looks like a regression target; .*pandas.cut"),
        ([1.0, np.inf, 1.0], "such as inf"),
        (list(range(2002)) * 2, "expected at most 1000 classes.*got 2002 distinct values.*cut it into ranges"),
        ([f"id{i}" for i in range(9)], "got 9 distinct values in 9 rows; it looks like an identifier"),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "got datetime64 values; turn them into classes first"),
        ([[1], [2]], "got mixed values"),
    ],
)
def test_refused_with_advice(values, message):
    with pytest.raises(TableError, match=message):
        encode(values)


def test_unknown_name():
    frame = pd.DataFrame({"species": ["a", "b"], "mass": [1, 2]})
    with pytest.raises(TableError, match="no column 'Species'; did you mean 'species'"):
        encode_target(frame, "Species")
    with pytest.raises(TableError, match="no column 'zzz'; there are 'species', 'mass'"):
        encode_target(frame, "zzz")


def test_two_rows_of_two_classes_are_enough():
    assert encode(["a", "b"]).labels.tolist() == ["a", "b"]
