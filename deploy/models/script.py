"""Runs a script as `python SCRIPT ARGS` does, and writes a report on its compiled models: see `watch.py`.

    python -m kernelwright.deploy.models.script REPORT.json plain|store|values SCRIPT [ARGS]

`plain` leaves torch.compile to Inductor; `store` has kernelwright's backend in its place, and so has `values`, which
keeps outputs too. Environment variables configure the backend.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any


def main(report: str, way: str, script: str, *arguments: str) -> int:
    """Run a script. Return its exit code, 1 if it raised."""
    from .backend import chosen, kernelwright
    from .watch import ModelWatch

    watch = ModelWatch("inductor" if way == "plain" else kernelwright, values=way == "values")
    watch.install()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    found: dict[str, Any] = {**watch.report(), "chosen": list(chosen()[1]) if way != "plain" else []}
    Path(report).write_text(json.dumps(found))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
