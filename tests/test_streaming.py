"""A table that is read anew for every epoch is learned like one in memory, and its held-out rows are never seen."""

import copy
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import punn
from punn import PUNNClassifier
from punn.cli import app
from punn.persistence import save
from punn.streaming import FEWEST, open_stream
from punn.table import Columns, Pieces, TableError


def table(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    blob = rng.integers(6, size=n)
    x = np.random.default_rng(1).normal(size=(6, 3))[blob] * 6 + rng.normal(size=(n, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.loc[rng.random(n) < 0.1, "b"] = np.nan
    frame["site"] = rng.choice(["north", "south"], n)
    frame["alive"] = pd.Series(rng.choice([True, False, None], n), dtype=object)
    frame["running"] = np.arange(n) + 7
    frame["kind"] = np.array(["x", "y", "z"])[blob % 3]
    return frame


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    frame = table()
    frame.loc[17, "site"] = "nowhere but here"
    frame.loc[100:119, "kind"] = None
    frame.loc[3000, "kind"] = "rare"
    frame.to_parquet(folder / "all.parquet", row_group_size=700, index=False)
    (folder / "parts").mkdir()
    for part in range(3):
        piece = frame.iloc[part * 2000 : (part + 1) * 2000]
        piece.to_parquet(folder / "parts" / f"{part}.parquet", row_group_size=900, index=False)
    return folder, frame


def everything(stream, seed=0, **options):
    """All rows of one epoch."""
    steps = list(stream.steps(256, torch.Generator().manual_seed(seed), **options))
    return torch.cat([piece.rows.x for pieces in steps for piece in pieces]), steps


def test_an_epoch_has_every_row_once_in_another_order(files):
    stream = open_stream(files[0] / "all.parquet", "kind", test=0.1, memory=10**7)
    first, steps = everything(stream)
    second, _ = everything(stream, seed=1)
    assert len(steps) == -(-stream.n // 256)
    assert len(first) == stream.n == 5980 - len(stream.test.y) - len(stream.validation.y)
    assert not torch.equal(first, second)
    assert torch.equal(first.sort(0).values, second.sort(0).values)
    shares = [sum(piece.share for piece in pieces) for pieces in steps]
    assert np.mean(shares) == pytest.approx(1.0)
    assert max(shares) - min(shares) < 0.01


def test_held_out_rows_are_never_learned_from(files):
    stream = open_stream(files[0] / "all.parquet", "kind", test=0.1, validation=0.2, memory=10**8)
    rows, _ = everything(stream)
    learned = {tuple(row) for row in rows.numpy().round(4)}
    assert len(stream.test.y) == pytest.approx(598, abs=80)
    assert len(stream.validation.y) == pytest.approx(1196, abs=120)
    assert not set(stream.test.rows) & set(stream.validation.rows)
    for held in (stream.test, stream.validation):
        assert not learned & {tuple(row) for row in stream.scaled(held).x.numpy().round(4)}
    assert "rare" in stream.classes
    assert "rare" not in [*stream.test.y, *stream.validation.y]
    assert stream.counts.min() < FEWEST


def test_means_and_deviations_are_those_of_all_rows_in_one_pass(files):
    folder, frame = files
    stream = open_stream(folder / "all.parquet", "kind", validation=0.0, memory=10**7)
    labelled = frame[frame["kind"].notna()]
    numbers = stream.columns.transform(labelled)
    np.testing.assert_allclose(stream.scaling.mean, numbers.mean(0), atol=1e-12)
    np.testing.assert_allclose(stream.scaling.scale, numbers.std(0), atol=1e-12)
    assert "site=nowhere but here" in stream.columns.feature_names
    assert "running" not in stream.columns.feature_names
    assert any("'kind' is missing in 20 of 6000 rows" in note for note in stream.notes)


def test_a_folder_is_one_table(files):
    folder, frame = files
    pieces = Pieces(folder / "parts")
    pd.testing.assert_frame_equal(pd.concat(pieces.read()), frame, check_index_type=False)
    one, other = (open_stream(folder / name, "kind", memory=10**7) for name in ("all.parquet", "parts"))
    assert one.fingerprint == other.fingerprint
    assert one.validation.rows.tolist() == other.validation.rows.tolist()


def test_it_learns_as_in_memory(files):
    folder, frame = files
    fresh = table(4000, seed=5)
    options = {"epochs": 20, "batch_size": 128, "hidden": (32,), "random_state": 0}
    stream = open_stream(folder / "all.parquet", "kind", memory=10**7)
    streamed = PUNNClassifier(**options).fit_stream(stream)
    known = frame[frame["kind"].notna()]
    names = list(stream.columns.feature_names)
    inside = pd.DataFrame(stream.columns.transform(known), columns=names)
    outside = pd.DataFrame(stream.columns.transform(fresh), columns=names)
    whole = PUNNClassifier(**options).fit(inside, known["kind"])
    accuracies = [model.score(outside, fresh["kind"]) for model in (streamed, whole)]
    assert min(accuracies) > 0.85
    assert abs(accuracies[0] - accuracies[1]) < 0.02
    assert len(streamed.history_.validation_loss) == 20
    again = PUNNClassifier(**options).fit_stream(open_stream(folder / "all.parquet", "kind", memory=10**7))
    np.testing.assert_array_equal(again.predict_proba(outside), streamed.predict_proba(outside))


def test_an_interrupted_stream_goes_on_to_the_same_bits(files, tmp_path, monkeypatch):
    options = {"epochs": 4, "hidden": (8,), "random_state": 0}
    stream = open_stream(files[0] / "all.parquet", "kind", memory=10**7)
    whole = PUNNClassifier(**options).fit_stream(stream)
    path = tmp_path / "fit.checkpoint"

    def crash(self, step):
        if step.epoch == 3:
            raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr("punn.progress.Progress.__call__", crash)
        with pytest.raises(RuntimeError, match="crash"):
            PUNNClassifier(**options, checkpoint=path, verbose=True).fit_stream(stream)
    resumed = PUNNClassifier(**options, checkpoint=path).fit_stream(stream)
    some = pd.DataFrame(stream.sample.x, columns=list(stream.columns.feature_names))
    np.testing.assert_array_equal(resumed.predict_proba(some), whole.predict_proba(some))
    assert list(tmp_path.iterdir()) == []


class Half:
    """One of two processes, which is told what both have found."""

    size = 2

    def __init__(self, rank, found):
        self.rank, self.found = rank, found

    def gather(self, survey):
        self.found[self.rank] = survey
        return [copy.deepcopy(self.found[rank]) for rank in sorted(self.found)]


def test_each_process_reads_its_share(files):
    path, found = files[0] / "all.parquet", {}
    for rank in (0, 1):
        open_stream(path, "kind", memory=10**7, team=Half(rank, found))
    halves = [open_stream(path, "kind", memory=10**7, team=Half(rank, found)) for rank in (0, 1)]
    alone = open_stream(path, "kind", memory=10**7)
    assert halves[0].n == halves[1].n == alone.n
    assert halves[0].fingerprint == halves[1].fingerprint == alone.fingerprint
    np.testing.assert_allclose(halves[1].scaling.scale, alone.scaling.scale)
    parts = [everything(half, team=half.team)[0] for half in halves]
    assert sum(map(len, parts)) == alone.n
    both = torch.cat(parts).sort(0).values
    torch.testing.assert_close(both, everything(alone)[0].sort(0).values)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rest": "unknown", "gates": "ball"}, "a stream of rows knows neither"), ({"epochs": 0}, "epochs must be")],
)
def test_what_a_stream_cannot_do_is_refused(files, options, message):
    with pytest.raises(ValueError, match=message):
        PUNNClassifier(**options).fit_stream(open_stream(files[0] / "all.parquet", "kind", memory=10**7))


def test_bad_files_are_named(files, tmp_path):
    with pytest.raises(TableError, match="there is no column 'kin'; did you mean 'kind'"):
        open_stream(files[0] / "all.parquet", "kin")
    with pytest.raises(TableError, match="a folder with Parquet files"):
        Pieces(tmp_path)
    table(50).to_parquet(tmp_path / "a.parquet")
    table(50).drop(columns="c").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b\.parquet: expected the columns of a\.parquet.* got others for 'c'"):
        Pieces(tmp_path)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-30])
    with pytest.raises(TableError, match=r"b\.parquet: expected a Parquet file, got a damaged one"):
        Pieces(tmp_path)
    frame = table(2000)
    frame.loc[1900, "a"] = np.inf
    frame.to_parquet(tmp_path / "c.parquet", row_group_size=500)
    with pytest.raises(TableError, match="column 'a': expected finite numbers, got inf in row 1900"):
        open_stream(tmp_path / "c.parquet", "kind")


def test_the_commands_stream(files, tmp_path):
    """In a process of its own with little memory left: more rows than it could hold."""
    big = pd.concat([table(6000, seed) for seed in range(40)], ignore_index=True)
    big.to_parquet(tmp_path / "big.parquet", row_group_size=20_000, index=False)
    command = [sys.executable, "-m", "punn", "train", "big.parquet", "-t", "kind", "--memory", "0.02", "--epochs", "1"]
    done = subprocess.run(
        [*command, "--json", "--hidden", "16"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["scores"]["model"]["accuracy"] > 0.85
    assert told["rows"]["train"] + told["rows"]["test"] == 240_000
    assert sorted(os.listdir(tmp_path)) == ["big.parquet", "big.punn.safetensors"]
    assert punn.load(tmp_path / "big.punn.safetensors").table_["target"] == "kind"


def test_predictions_stream_in_and_out(files, tmp_path, monkeypatch):
    _, frame = files
    known = frame[frame["kind"].notna() & (frame["kind"] != "rare")].head(3000)
    columns = Columns.fit(known, "kind")
    numbers = pd.DataFrame(columns.transform(known), columns=list(columns.feature_names))
    model = PUNNClassifier(epochs=3, hidden=(8,), random_state=0).fit(numbers, known["kind"])
    save(model, tmp_path / "model.safetensors", table=columns.to_dict())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("punn.table.pieces.PIECE_CELLS", 700)
    monkeypatch.setattr("punn.sources.LONG", 1000)  # text, too, comes in pieces
    known.to_parquet("new.parquet", row_group_size=999, index=False)
    known.to_csv("new.csv", index=False)
    expected = model.predict_proba(numbers)
    for source, out in (("new.parquet", "out.parquet"), ("new.parquet", "out.csv"), ("new.csv", "out2.parquet")):
        done = CliRunner().invoke(app, ["predict", "model.safetensors", source, "-o", out])
        assert done.exit_code == 0, done.output
        assert "3,000 rows" in done.output
        assert "of 3,000 labels predicted right" in done.stderr
        found = pd.read_parquet(out) if out.endswith("parquet") else pd.read_csv(out)
        np.testing.assert_allclose(found[["p(x)", "p(y)", "p(z)"]], expected, atol=1e-5)
        assert found["label"].tolist() == model.predict(numbers).tolist()
    printed = CliRunner().invoke(app, ["predict", "model.safetensors", "new.parquet", "--quiet"])
    assert printed.stdout == (tmp_path / "out.csv").read_text()
    with (tmp_path / "new.csv").open("a") as file:
        file.write("1,2,3\n")
    before = sorted(tmp_path.iterdir())
    done = CliRunner().invoke(app, ["predict", "model.safetensors", "new.csv", "-o", "never.csv"])
    assert done.exit_code == 1
    assert "line 3002: expected 7 cells" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
