"""Compiles the kernels when the package is installed; without a compiler it is installed without them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = "-O3 -std=c11 -fPIC -shared -fno-math-errno -fno-trapping-math -ffp-contract=fast"


class KernelHook(BuildHookInterface):
    """A library of every C file, each by one compiler call."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put a library beside every C file; a failure is told and leaves torch's operators to do the work."""
        for source in sorted(Path(self.root, "src", "punn", "kernels").glob("*.c")):
            library = source.with_suffix(".so")
            library.unlink(missing_ok=True)
            if sys.platform != "win32" and self._compiled(source, library):
                build_data["artifacts"].append(library.relative_to(self.root).as_posix())
                build_data["pure_python"] = False
                build_data["infer_tag"] = True

    def _compiled(self, source: Path, library: Path) -> bool:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *FLAGS.split(), str(source), "-o", str(library), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or error
            self.app.display_warning(f"punn is installed without its kernel {source.name}: {reason}")
            library.unlink(missing_ok=True)
            return False
        return True
