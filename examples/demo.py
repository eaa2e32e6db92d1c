"""From a table to a model that explains itself, by the very commands: what `make demo` runs.

Trains on iris, explains one flower, predicts all of them, exports the model, and leaves the files in ./demo.
"""

import os
import shlex
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from punn.cli import app

FOLDER = Path("demo")
MODEL = "iris.punn.safetensors"
# A flower between two species: a versicolor that looks like a virginica.
FLOWER = 70


def punn(line: str) -> None:
    """Run a command as a terminal would, and show it."""
    print(f"\n$ punn {line}", flush=True)
    code = app(shlex.split(line), prog_name="punn", standalone_mode=False)
    if code:
        sys.exit(code)


def main() -> None:
    began = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    os.chdir(FOLDER)
    punn("train iris --gates ellipsoid")
    punn(f"predict {MODEL} iris -o predictions.csv")
    if find_spec("onnx") and find_spec("onnxruntime"):
        punn(f"export {MODEL} -o iris.onnx")
    plot = " --plot trace.png" if find_spec("punn.displays") else ""
    punn(f"explain {MODEL} iris --row {FLOWER} --why-not versicolor{plot}")
    print(f"\nmade in {time.monotonic() - began:.0f} seconds:")
    for path in sorted(Path().iterdir()):
        print(f" {FOLDER / path} ({path.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
