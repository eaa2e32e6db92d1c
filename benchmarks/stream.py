"""A table larger than memory: what it takes to learn from it, and whether it is learned as well as in memory.

    python -m benchmarks.stream FOLDER --gigabytes 5 --memory 0.15

Writes a Parquet file of that size once, trains one epoch on it in a process of its own with `punn train`, and tells
the peak of its memory. Before that, a smaller table is learned from memory and from a stream, with the same settings.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

FEATURES, BLOBS, CLASSES = 100, 15, 5
GROUP = 100_000  # rows of a row group


def write(path, rows):
    """Numbers, a category, gaps and a running number; five classes of three blobs each."""
    rng = np.random.default_rng(0)
    centers = np.random.default_rng(1).normal(size=(BLOBS, FEATURES)) * 0.3
    names = np.array([f"class {c}" for c in range(CLASSES)])
    writer = None
    for first in range(0, rows, GROUP):
        n = min(GROUP, rows - first)
        blob = rng.integers(BLOBS, size=n)
        x = centers[blob] + rng.normal(size=(n, FEATURES))
        columns = {f"x{i}": x[:, i] for i in range(FEATURES)}
        columns["x0"] = pa.array(x[:, 0], mask=rng.random(n) < 0.02)
        columns["site"] = np.array(["north", "south", "east"])[rng.integers(3, size=n)]
        columns["number"] = np.arange(first, first + n)
        columns["kind"] = names[blob % CLASSES]
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(
            path, table.schema, compression="none", use_dictionary=["site", "kind"]
        )
        writer.write_table(table)
    writer.close()


def train(path, *options):
    """Train in a process of its own: what it tells, its seconds, and its peak of memory in bytes."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "punn", "train", path, "--target", "kind", "--json", *options]
    with path.with_suffix(".json").open("w+") as told:
        process = subprocess.Popen([*map(str, command), "-o", path.with_suffix(".punn.safetensors")], stdout=told)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{' '.join(map(str, command))} failed")
        told.seek(0)
        return json.load(told), time.perf_counter() - began, usage.ru_maxrss * 1024


def tell(what, path, result):
    told, seconds, peak = result
    score = told["scores"]["model"]
    print(
        f"{what}: {path.stat().st_size / 1e9:.2f} GB, {told['rows']['train']:,} rows to learn from, "
        f"{told['epochs']} epochs, peak of memory {peak / 1e9:.2f} GB, {seconds:.0f} s, "
        f"accuracy {score['accuracy']:.2%}, log-loss {score['log_loss']:.4f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--memory", default="0.15")
    parser.add_argument("--compare", type=int, default=100_000, help="rows that are learned both ways")
    options = parser.parse_args()
    small = options.folder / "small.parquet"
    write(small, options.compare)
    both = ["--epochs", "5", "--batch-size", "1024"]
    tell("from memory", small, train(small, *both, "--no-stream"))
    tell("from a stream", small, train(small, *both, "--stream", "--memory", "0.05"))
    big = options.folder / "big.parquet"
    if not big.exists():
        write(big, int(options.gigabytes * 1e9 / (8 * (FEATURES + 1) + 0.6)))
    tell("larger than memory", big, train(big, "--stream", "--memory", options.memory, "--epochs", "1"))


if __name__ == "__main__":
    main()
