"""Files to frames: what can be read is read right, what cannot is told with its place and its cure."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from punn.table import Columns, TableError, encode_target, read_table

PLAIN = pd.DataFrame({"length": [39.1, 36.5, 50.0], "island": ["Biscoe", "Dream", "Biscoe"]})


def write(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class TestText:
    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("bom", ["", "\ufeff"])
    @pytest.mark.parametrize("compressed", [False, True])
    def test_separators_endings_and_marks(self, tmp_path, separator, ending, bom, compressed):
        content = bom + PLAIN.to_csv(sep=separator, index=False, lineterminator=ending)
        path = write(tmp_path, gzip.compress(content.encode(), mtime=0) if compressed else content)
        frame = read_table(path)
        pd.testing.assert_frame_equal(frame, PLAIN)
        assert frame.attrs["notes"] == []

    def test_tsv_has_tabs_whatever_else_it_holds(self, tmp_path):
        frame = read_table(write(tmp_path, "a;b,c\td\n1\t2\n", "table.tsv"))
        assert list(frame.columns) == ["a;b,c", "d"]

    def test_quotes(self, tmp_path):
        frame = read_table(write(tmp_path, '"a, b","c"\n"x ""y"", z",1\n"two\nlines",2\n"é",3\n'))
        assert list(frame.columns) == ["a, b", "c"]
        assert frame["a, b"].tolist() == ['x "y", z', "two\nlines", "é"]

    def test_blank_lines_before_and_between(self, tmp_path):
        frame = read_table(write(tmp_path, "\n\na,b\n\n1,2\n\n3,4\n\n"))
        pd.testing.assert_frame_equal(frame, pd.DataFrame({"a": [1, 3], "b": [2, 4]}))

    def test_decimal_commas(self, tmp_path):
        frame = read_table(write(tmp_path, "x;y;z\n1,5;-2;a,b\n;3,25;c\n1e3;4;d\n"))
        np.testing.assert_array_equal(frame["x"], [1.5, np.nan, 1000.0])
        np.testing.assert_array_equal(frame["y"], [-2.0, 3.25, 4.0])
        assert frame["z"].tolist() == ["a,b", "c", "d"]

    def test_missing_values_and_types(self, tmp_path):
        frame = read_table(write(tmp_path, "i,f,b,s\n1,1.5,true,x\nNA,?,False,\n3,nan,TRUE,None\n"))
        np.testing.assert_array_equal(frame["i"], [1.0, np.nan, 3.0])
        np.testing.assert_array_equal(frame["f"], [1.5, np.nan, np.nan])
        assert frame["b"].tolist() == [True, False, True]
        assert frame["s"].isna().tolist() == [False, True, True]

    def test_a_text_late_in_a_column_of_numbers(self, tmp_path):
        frame = read_table(write(tmp_path, "a,b\n" + "1,2\n" * 1_500_000 + "x,0.5\n"))
        assert frame["a"].iloc[[0, -1]].tolist() == ["1", "x"]
        assert frame["b"].iloc[-1] == 0.5

    def test_a_column_of_one(self, tmp_path):
        assert read_table(write(tmp_path, "a\n1\n2\n"))["a"].tolist() == [1, 2]

    def test_unnamed_columns_get_a_name(self, tmp_path):
        assert list(read_table(write(tmp_path, ",a\n0,1.5\n1,2.5\n")).columns) == ["column 1", "a"]

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(
            st.tuples(
                st.floats(allow_nan=False, allow_infinity=False),
                st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cc"]), min_size=1),
            ),
            min_size=1,
        )
    )
    def test_round_trip(self, tmp_path, rows):
        # a letter before and after, so that no text is a number, a date or a word for missing
        expected = pd.DataFrame({"x": [x for x, _ in rows], "s": [f"§{text}§" for _, text in rows]})
        path = tmp_path / "table.csv"
        expected.to_csv(path, index=False)
        frame = read_table(path)
        np.testing.assert_array_equal(frame["x"].astype(float), expected["x"])
        assert frame["s"].tolist() == expected["s"].tolist()


class TestHeader:
    @pytest.mark.parametrize("content", ["1,2\n3,4\n", "5.1,3.5,setosa\n4.9,3.0,setosa\n", "red,1\nblue,2\n"])
    def test_missing_is_found_and_told(self, tmp_path, content):
        frame = read_table(write(tmp_path, content))
        assert len(frame) == 2
        assert frame.columns[0] == "column 1"
        assert "looks like data" in frame.attrs["notes"][0]

    def test_words_above_words(self, tmp_path):
        assert list(read_table(write(tmp_path, "color,shape\nred,round\nblue,round\n")).columns) == ["color", "shape"]
        assert len(read_table(write(tmp_path, "red,round\nblue,square\nred,square\n"))) == 3

    def test_it_can_be_said(self, tmp_path):
        path = write(tmp_path, "country,2019,2020\nNO,1,2\nSE,3,4\n")
        assert list(read_table(path, header=True).columns) == ["country", "2019", "2020"]
        assert len(read_table(path, header=False)) == 3


class TestParquet:
    def test_round_trip(self, tmp_path):
        frame = PLAIN.assign(ok=[True, False, True], day=pd.to_datetime(["2024-01-01"] * 3))
        frame.to_parquet(tmp_path / "table.parquet")
        pd.testing.assert_frame_equal(read_table(tmp_path / "table.parquet"), frame)

    def test_an_index_is_a_column(self, tmp_path):
        PLAIN.set_index("island").to_parquet(tmp_path / "table.parquet")
        assert set(read_table(tmp_path / "table.parquet").columns) == {"island", "length"}

    def test_decimals_are_numbers(self, tmp_path):
        import decimal

        pd.DataFrame({"x": [decimal.Decimal("1.5"), None]}).to_parquet(tmp_path / "table.parquet")
        np.testing.assert_array_equal(read_table(tmp_path / "table.parquet")["x"], [1.5, np.nan])

    def test_the_name_does_not_matter(self, tmp_path):
        PLAIN.to_parquet(tmp_path / "table.dat")
        pd.testing.assert_frame_equal(read_table(tmp_path / "table.dat"), PLAIN)

    def test_damaged(self, tmp_path):
        PLAIN.to_parquet(tmp_path / "table.parquet")
        path = write(tmp_path, (tmp_path / "table.parquet").read_bytes()[:-20], "cut.parquet")
        with pytest.raises(TableError, match=r"cut\.parquet: expected a Parquet file, got a damaged one"):
            read_table(path)

    def test_damaged_texts(self, tmp_path):
        PLAIN.to_parquet(tmp_path / "whole.parquet", compression="none")
        content = (tmp_path / "whole.parquet").read_bytes().replace(b"Dream", b"\x93ream")
        with pytest.raises(TableError, match="expected a Parquet file, got a damaged one"):
            read_table(write(tmp_path, content, "texts.parquet"))

    def test_damaged_names(self, tmp_path):
        content = bytearray(PLAIN.to_parquet(engine="pyarrow"))
        place = 0
        while (place := content.find(b"island", place + 1)) > 0:
            content[place] = 0xD9
        with pytest.raises(TableError, match="expected a Parquet file, got a damaged one"):
            read_table(write(tmp_path, bytes(content), "names.parquet"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a table, got an empty file"),
        (b"\xef\xbb\xbf \n\n", "expected a table, got an empty file"),
        (b"a,b\n", "expected rows, got a table with the names of its columns alone"),
        (b"a,b,a\n1,2,3\n", "expected every column to have a name of its own, got 'a' more than once"),
        (b"a,b\n1,2\n3\n", "line 3: expected 2 cells, as in the first line, got 1"),
        (b'a,b\n"x\ny",2\n3,4,5\n', "line 4: expected 2 cells, as in the first line, got 3"),
        (b"a;b\n" + b"1;2\n" * 100_000 + b"3\n", "line 100002: expected 2 cells"),
        (b'a,b\n1,"x\n2,y\n3,z\n', r"line 4: unexpected end of data; check its quotes"),
        ("a,b\n1,x\n2,é\n".encode("latin1"), "line 3: expected text in UTF-8, got byte 0xe9 at position 10; .*iconv"),
        ("é,b\n1,x\n".encode("latin1"), "line 1: expected text in UTF-8, got byte 0xe9 at position 0"),
        (b"a,b\n" + b"1,2\n" * 100_000 + b"\xe9,3\n", "line 100002: expected text in UTF-8, .* position 400004"),
        ("a,b\n1,2\n".encode("utf-16"), "got text in UTF-16; save it as UTF-8"),
        (bytes(range(256)) * 9, "got a binary file of another kind; export it as CSV"),
        (b"PK\x03\x04" + bytes(50), "got an Excel workbook or a zip file; save the sheet as CSV"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 99, mtime=0)[:-12], "expected a gzip file, got a damaged one"),
        (b"\x1f\x8bnot gzip at all", "expected a gzip file, got a damaged one"),
        (gzip.compress(b"", mtime=0), "expected a table, got an empty file"),
    ],
)
def test_bad_files(tmp_path, content, message):
    with pytest.raises(TableError, match=message) as error:
        read_table(write(tmp_path, content))
    assert str(error.value).startswith(str(tmp_path / "table.csv"))


def test_damage_far_into_a_compressed_file(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    whole = gzip.compress(pd.DataFrame(rows, columns=["a", "b"]).to_csv(index=False).encode(), mtime=0)
    with pytest.raises(TableError, match=r"expected a gzip file, got a damaged one|expected 2 cells"):
        read_table(write(tmp_path, whole[: len(whole) - 1000], "table.csv.gz"))


def test_a_line_of_a_hundred_megabytes(tmp_path):
    with pytest.raises(TableError, match="line 1: field larger than field limit"):
        read_table(write(tmp_path, b"x" * 100_000_000))
    with pytest.raises(TableError, match="line 3: expected 2 cells, as in the first line, got 10000001"):
        read_table(write(tmp_path, b"a,b\n1,2\n" + b"1," * 10_000_000 + b"\n"))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(TableError, match="there is no such file"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(TableError, match="got a folder"):
        read_table(tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | st.text('ab1,;"\n\t .-', max_size=60).map(str.encode))
def test_any_bytes_are_a_table_or_a_clear_error(tmp_path, content):
    path = write(tmp_path, content)
    try:
        assert isinstance(read_table(path), pd.DataFrame)
    except TableError as error:
        assert str(path) in str(error)  # noqa: PT017


def test_from_file_to_numbers(tmp_path):
    path = write(
        tmp_path,
        "id,island,mass,sex,species\n1,Biscoe,3.7,f,Adelie\n2,Dream,,m,Gentoo\n3,Dream,4.1,,Adelie\n4,Dream,5,m,\n",
    )
    labels, frame, notes = encode_target(read_table(path), "species")
    columns = Columns.fit(frame, target="species")
    assert labels.tolist() == ["Adelie", "Gentoo", "Adelie"]
    assert "'species' is missing in 1 of 4 rows" in notes[0]
    assert columns.feature_names == (
        *("island=Biscoe", "island=Dream", "mass", "mass is missing"),
        *("sex=f", "sex=m", "sex is missing"),
    )
    X = columns.transform(frame)
    np.testing.assert_allclose(X, [[1, 0, 3.7, 0, 1, 0, 0], [0, 1, 3.9, 1, 0, 1, 0], [0, 1, 4.1, 0, 1, 0, 1]])
