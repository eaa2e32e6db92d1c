"""Columns to numbers: every kind of column, every kind of trouble, and the way into a model file and back."""

import copy
import datetime
import decimal
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punn.table import Column, Columns, TableError, TableWarning


def fit_one(values, name="c"):
    """Fit a column beside one that is always of use."""
    return Columns.fit(pd.DataFrame({"x": np.arange(len(values)) + 0.5, name: values}))


class TestKinds:
    @pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "double[pyarrow]"])
    def test_numbers(self, dtype):
        values = pd.Series([1.5, None, 4.5, 3.5], dtype=dtype)
        columns = fit_one(values)
        assert columns.columns[1] == Column("c", "number", 3.5, indicator=True)
        assert columns.feature_names[1:] == ("c", "c is missing")
        X = columns.transform(pd.DataFrame({"x": 0.0, "c": values}))
        np.testing.assert_array_equal(X[:, 1:], [[1.5, 0], [3.5, 1], [4.5, 0], [3.5, 0]])
        assert "'c' is missing in 1 of 4 rows: filled with the median 3.5, and told in 'c is missing'." in columns.notes

    @pytest.mark.parametrize("dtype", ["int8", "uint64", "Int64", "int64[pyarrow]"])
    def test_integers(self, dtype):
        assert fit_one(pd.Series([4, 2, 4], dtype=dtype)).columns[1] == Column("c", "number", 4.0)

    def test_numbers_as_text_and_as_decimals(self):
        assert fit_one(["1.5", " 2", "1e3"]).columns[1] == Column("c", "number", 2.0)
        assert fit_one([decimal.Decimal("1.5"), decimal.Decimal(3), None]).columns[1].fill == 2.25

    @pytest.mark.parametrize("dtype", ["bool", "boolean", "bool[pyarrow]", "object"])
    def test_booleans(self, dtype):
        values = pd.Series([True, False, True, True], dtype=dtype)
        columns = fit_one(values)
        assert columns.columns[1] == Column("c", "boolean", 1.0)
        X = columns.transform(pd.DataFrame({"x": 0.0, "c": values}))
        np.testing.assert_array_equal(X[:, 1], [1, 0, 1, 1])

    def test_booleans_with_gaps(self):
        columns = fit_one(pd.Series([True, None, False, False], dtype=object))
        assert columns.columns[1] == Column("c", "boolean", 0.0, indicator=True)
        assert "filled with the more frequent value false" in columns.notes[0]

    @pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
    def test_categories(self, dtype):
        values = pd.Series(["b", "a", None, "b "], dtype=dtype)
        columns = fit_one(values)
        assert columns.columns[1] == Column("c", "category", "b", ("a", "b"), indicator=True)
        X = columns.transform(pd.DataFrame({"x": 0.0, "c": values}))
        np.testing.assert_array_equal(X[:, 1:], [[0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 1, 0]])

    def test_categories_of_numbers_come_back_as_numbers(self):
        columns = fit_one(pd.Series([1, 2, 2], dtype="category"))
        assert columns.columns[1].categories == ("1", "2")
        for values in ([1, 2], [1.0, 2.0], ["1", "2"]):
            X = columns.transform(pd.DataFrame({"x": 0.0, "c": values}))
            np.testing.assert_array_equal(X[:, 1:], np.eye(2))

    def test_names_that_are_no_text(self):
        frame = pd.DataFrame({0: [1.5, 2.5], 1: [3.5, 1.5]})
        assert Columns.fit(frame, target="1").feature_names == ("0",)
        np.testing.assert_array_equal(Columns.fit(frame).transform(frame), frame)

    def test_median_does_not_overflow(self):
        assert fit_one([1.5e308, 1.7e308]).columns[1].fill == pytest.approx(1.6e308)


class TestDropped:
    @pytest.mark.parametrize(
        ("name", "values", "note"),
        [
            ("c", ["NO"] * 3, "'c' is 'NO' in every row: dropped."),
            ("c", [7, 7, 7], "'c' is '7' in every row: dropped."),
            ("c", [True, True], "'c' is 'True' in every row: dropped."),
            ("c", ["a", " a"], "'c' is 'a' in every row: dropped."),
            ("c", [None, None], "'c' is empty: dropped."),
            ("c", ["", " "], "'c' is empty: dropped."),
            ("c", [np.nan, np.nan], "'c' is empty: dropped."),
            ("c", [f"p{i}" for i in range(5)], "'c' is another text in every row, like an identifier: dropped."),
            ("c", list(range(100, 110)), "'c' looks like a running number or an identifier: dropped."),
            ("c", list(range(0, 80, 2)), "'c' looks like a running number"),
            ("c", list(range(12))[::-1], "'c' looks like a running number"),
            ("customer_id", [8812, 123, 99123], "'customer_id' looks like a running number"),
            ("c", [f"t{i}" for i in range(101)] * 3, "text with 101 distinct values in 303 rows, too many"),
            ("c", [f"t{i // 2 if i < 20 else i}" for i in range(45)], "too many for categories"),
        ],
    )
    def test_of_no_use(self, name, values, note):
        columns = fit_one(values, name)
        assert columns.feature_names == ("x",)
        assert note in columns.notes[0]

    @pytest.mark.parametrize(
        "values",
        [[3, 1, 2], list(range(9)), [0.5 * i for i in range(20)], [*range(20), 3], [i * i for i in range(40)]],
    )
    def test_not_every_row_of_distinct_numbers_is_an_identifier(self, values):
        assert fit_one(values).feature_names == ("x", "c")

    def test_a_random_part_of_the_rows_still_shows_a_running_number(self):
        rows = np.random.default_rng(0).permutation(1000)[:700]
        assert fit_one(rows).feature_names == ("x",)

    def test_there_or_not_there(self):
        values = pd.Series(["yes", None, "yes"])
        columns = fit_one(values)
        assert columns.columns[1] == Column("c", "presence", indicator=True)
        X = columns.transform(pd.DataFrame({"x": 0.0, "c": values}))
        np.testing.assert_array_equal(X[:, 1], [0, 1, 0])
        assert "'c' is 'yes' or missing (1 of 3 rows)" in columns.notes[0]

    def test_by_request(self):
        frame = pd.DataFrame({"x": [1.5, 2.5], "day": pd.to_datetime(["2024-01-01", "2024-01-02"])})
        assert Columns.fit(frame, drop=["day"]).feature_names == ("x",)
        with pytest.raises(TableError, match="there is no column 'dayy'; did you mean 'day'"):
            Columns.fit(frame, drop=["dayy"])

    def test_nothing_left(self):
        with pytest.raises(TableError, match=r"expected at least one column to learn from, got none\. 'a' is '1'"):
            Columns.fit(pd.DataFrame({"a": [1, 1]}))


class TestRefused:
    @pytest.mark.parametrize(
        "values",
        [
            pd.to_datetime(["2024-01-01", "2024-01-02"]),
            pd.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC"),
            pd.to_timedelta([1, 2], unit="s"),
            pd.period_range("2024-01", periods=2, freq="M"),
            [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
            [datetime.time(12), datetime.time(13)],
            ["2024-01-01", "2024-1-2"],
            ["2024-01-01T10:00:00Z", "2024-01-02 11:00"],
            ["31.12.2024", "1.2.2024"],
            ["12/31/2024", None],
            pd.Categorical(["2024-01-01", "2024-01-02"]),
        ],
    )
    def test_dates(self, values):
        with pytest.raises(TableError, match=r"'c'.*dates or times.*turn it into numbers.*--drop 'c'"):
            fit_one(values)

    @pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {}], [1j, 2j], [b"a", b"b"], [object(), object()]])
    def test_other_values(self, values):
        with pytest.raises(TableError, match=r"column 'c': expected numbers, booleans or text, got"):
            fit_one(values)

    @pytest.mark.parametrize("values", [[1.5, np.inf, 2.0], [1.5, "-inf", 2.0]])
    def test_infinite_numbers(self, values):
        with pytest.raises(TableError, match=r"column 'c': expected finite numbers, got -?inf in row 1"):
            fit_one(values)
        with pytest.raises(TableError, match=r"column 'c': expected finite numbers, got -?inf in row 1"):
            fit_one([1.5, 2.5, 3.0]).transform(pd.DataFrame({"x": 0.5, "c": values}))

    def test_duplicate_names(self):
        frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
        with pytest.raises(TableError, match="got 'a' more than once"):
            Columns.fit(frame)

    def test_no_rows(self):
        with pytest.raises(TableError, match="expected rows"):
            Columns.fit(pd.DataFrame({"a": []}))

    def test_unknown_target(self):
        with pytest.raises(TableError, match="no column 'spezies'; did you mean 'species'"):
            Columns.fit(pd.DataFrame({"a": [1], "species": [2]}), target="spezies")


class TestNewTables:
    frame = pd.DataFrame(
        {"mass": [3.5, 4.5, 4.0], "island": ["Dream", "Dream", "Biscoe"], "wild": [True, False, True], "y": [0, 1, 1]}
    )
    columns = Columns.fit(frame, target="y")

    def test_order_and_extra_columns_do_not_matter(self):
        changed = self.frame[["wild", "y", "island", "mass"]].assign(extra=pd.Timestamp("2024-01-01"))
        np.testing.assert_array_equal(self.columns.transform(changed), self.columns.transform(self.frame))
        without_target = self.frame.drop(columns="y")
        np.testing.assert_array_equal(self.columns.transform(without_target), self.columns.transform(self.frame))

    def test_the_index_does_not_matter(self):
        changed = self.frame.set_axis([5, 5, 0])
        np.testing.assert_array_equal(self.columns.transform(changed), self.columns.transform(self.frame))

    def test_the_frame_is_left_alone(self):
        before = self.frame.copy(deep=True)
        self.columns.transform(self.frame)
        pd.testing.assert_frame_equal(self.frame, before)

    def test_unseen_category(self):
        changed = self.frame.assign(island=["Dream", "Mars", "Venus"])
        with pytest.raises(TableError) as error:
            self.columns.transform(changed)
        for part in ("'island'", "'Biscoe', 'Dream'", "'Mars', 'Venus'", "row 1", "--on-unseen ignore"):
            assert part in str(error.value)
        np.testing.assert_array_equal(self.columns.transform(changed, "ignore")[:, 1:3], [[0, 1], [0, 0], [0, 0]])

    def test_lost_column(self):
        changed = self.frame.drop(columns=["mass", "island"])
        with pytest.raises(TableError, match=r"without 'mass', 'island'; add them, or .*on_unseen='ignore'"):
            self.columns.transform(changed)
        with pytest.warns(TableWarning) as told:
            X = self.columns.transform(changed, "ignore")
        assert [str(one.message) for one in told] == [
            "there is no column 'mass'; filled with 4 in every row",
            "there is no column 'island'; filled with 'Dream' in every row",
        ]
        np.testing.assert_array_equal(X[:, :3], [[4.0, 0, 1]] * 3)

    def test_missing_where_none_was_before(self):
        changed = self.frame.assign(mass=[3.5, None, 4.0], wild=pd.Series([True, None, None], dtype=object))
        with pytest.warns(TableWarning) as told:
            X = self.columns.transform(changed)
        assert str(told[0].message) == "'mass' is missing in 1 of 3 rows, but never was in training; filled with 4"
        assert "'wild' is missing in 2 of 3 rows, but never was in training; filled with true" in str(told[1].message)
        assert told[0].filename == __file__
        np.testing.assert_array_equal(X[:, 0], [3.5, 4.0, 4.0])

    @pytest.mark.parametrize(
        ("name", "values", "message"),
        [
            ("mass", [1, "heavy", 2], r"column 'mass': expected numbers, as in training, got 'heavy' in row 1"),
            ("mass", [1, [2], 2], r"column 'mass': expected numbers"),
            ("wild", ["true", "False", "maybe"], r"column 'wild': expected true or false.*got 'maybe' in row 2"),
            ("wild", [0, 1, 2], r"column 'wild': expected true or false.*got '2' in row 2"),
            ("island", [["Dream"], "Dream", "Dream"], r"column 'island': expected one of"),
        ],
    )
    def test_other_kinds_of_values(self, name, values, message):
        with pytest.raises(TableError, match=message):
            self.columns.transform(self.frame.assign(**{name: pd.Series(values, dtype=object)}))

    @pytest.mark.parametrize("values", [[1, 0, 1], ["true", "False", "TRUE"], [1.0, 0.0, 1.0], ["1", "0", "1"]])
    def test_booleans_said_otherwise(self, values):
        X = self.columns.transform(self.frame.assign(wild=values))
        np.testing.assert_array_equal(X, self.columns.transform(self.frame))

    def test_no_rows(self):
        assert self.columns.transform(self.frame[:0]).shape == (0, 4)

    def test_unknown_option(self):
        with pytest.raises(ValueError, match="'error' or 'ignore', got 'skip'"):
            self.columns.transform(self.frame, on_unseen="skip")


CELLS = {
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    "boolean": st.booleans() | st.none(),
    "category": st.sampled_from(["red", "green", "blue", "ä", "x=y"]) | st.none(),
}


@st.composite
def frames(draw):
    rows = draw(st.integers(2, 30))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=5))
    data = {f"{kind} {i}": draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)) for i, kind in enumerate(kinds)}
    return pd.DataFrame({"x": np.arange(rows) / 2 + 0.25} | data)


class TestRoundTrip:
    @settings(max_examples=100, deadline=None)
    @given(frame=frames())
    def test_numbers_are_finite_and_survive_json(self, frame):
        columns = Columns.fit(frame)
        X = columns.transform(frame)
        assert X.shape == (len(frame), len(columns.feature_names))
        assert X.dtype == np.float64
        assert np.isfinite(X).all()
        again = Columns.from_dict(json.loads(json.dumps(columns.to_dict(), allow_nan=False)))
        assert again == columns
        np.testing.assert_array_equal(again.transform(frame), X)

    good = Columns.fit(TestNewTables.frame, target="y").to_dict()

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ((), None),
            ((), []),
            (("target",), 3),
            (("columns",), []),
            (("columns",), {}),
            (("columns",), ["mass"]),
            pytest.param(("columns",), [None] * 100_001, id="many columns"),
            (("notes",), "text"),
            (("notes",), [1]),
            pytest.param(("notes",), ["n"] * 300_001, id="many notes"),
            (("columns", 0, "name"), 7),
            (("columns", 0, "name"), "island"),
            (("columns", 0, "kind"), "os.system"),
            (("columns", 0, "kind"), ["number"]),
            (("columns", 0, "kind"), "category"),
            (("columns", 0, "fill"), float("nan")),
            (("columns", 0, "fill"), float("inf")),
            pytest.param(("columns", 0, "fill"), 10**400, id="huge"),
            (("columns", 0, "fill"), "4"),
            (("columns", 0, "fill"), True),
            (("columns", 0, "fill"), None),
            (("columns", 0, "indicator"), 1),
            (("columns", 0, "categories"), ["a"]),
            (("columns", 0, "surprise"), 1),
            (("columns", 1, "fill"), "Mars"),
            (("columns", 1, "fill"), ["Dream"]),
            (("columns", 1, "categories"), "Dream"),
            (("columns", 1, "categories"), ["Dream", "Dream"]),
            (("columns", 1, "categories"), ["Dream", 1]),
            (("columns", 1, "categories"), ["Dream", ["a"]]),
            (("columns", 1, "categories"), ["Dream"] + [f"c{i}" for i in range(100)]),
            (("columns", 2, "fill"), 0.5),
            (("columns", 2, "kind"), "presence"),
        ],
    )
    def test_hostile_data_are_refused(self, path, value):
        data = copy.deepcopy(self.good)
        if path:
            *parents, last = path
            place = data
            for key in parents:
                place = place[key]
            place[last] = value
        else:
            data = value
        with pytest.raises(ValueError, match="expected"):
            Columns.from_dict(data)

    @pytest.mark.parametrize("key", ["target", "columns", "notes"])
    def test_what_is_not_there_is_refused(self, key):
        data = {name: value for name, value in self.good.items() if name != key}
        with pytest.raises(ValueError, match="expected a column schema"):
            Columns.from_dict(data)
