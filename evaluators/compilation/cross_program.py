"""A program that compiles trusted kernels for a GPU that is not here: see `cross.compile_for`.

It reads its task as JSON from standard input, and prints a JSON line for each case. Nothing runs on a device.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..languages.base import RecordedLaunch
from ..workers.request_loop import describe
from .worker import CompileWorker


class ResourceReader(CompileWorker):
    """Compiles a kernel, and keeps the resources of what it launches."""

    def read(self, source: Path) -> list[dict[str, Any]]:
        """Return the resources of each of a kernel file's launches, in their order; raises what its source raises."""
        self._found: dict[str, dict[str, Any]] = {}
        self.compile(str(source), 0)
        return list(self._found.values())

    def _launched(self, launch: RecordedLaunch) -> None:
        if launch.compiled is not None:
            compiled = launch.compiled()
            self._found.setdefault(f"{compiled}", asdict(replace(compiled, binary=None)))


def main() -> None:
    """Compile every case."""
    task = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr  # a kernel may print
    for case in task["cases"]:
        start = time.perf_counter()
        try:
            reader = ResourceReader(Path(case["problem"]), case["sizes"], "cuda", task["properties"])
            found: dict[str, Any] = {"kernels": reader.read(Path(case["source"])), "error": ""}
        except Exception as error:
            found = {"kernels": [], "error": describe(error)}
        found["seconds"] = round(time.perf_counter() - start, 2)
        output.write(json.dumps(found) + "\n")
        output.flush()


if __name__ == "__main__":
    main()
