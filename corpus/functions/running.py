"""Runs what a user's modules compute when they are imported: lists of configs that code makes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.environment import allowed_environment
from ...core.file_locks import temporary_folder
from .program import answer_of

TIMEOUT_S = 120.0
"""Seconds after which it is ended."""
_PROGRAM = Path(__file__).with_name("configs_program.py")
_PACKAGE = Path(__file__).absolute().parents[2]
SHOWN = "KERNELWRIGHT_SHOWN"
# By name, since evaluators are built on this package. Nothing of the working folder is imported before the rules hold.
_CONFINED = f"""
import sys
sys.path.append({str(_PACKAGE.parent)!r})
from {__package__.partition(".")[0]}.evaluators.workers.confined_program import main
main()
"""


def configs_of(
    tops: Mapping[str, Path], shown: Iterable[Path], kernels: Sequence[tuple[str, str]], asked_by: str
) -> list[tuple[list[dict[str, Any]], list[str]] | None]:
    """Return the configs and the key of each kernel, given by module and name; None for one without an autotuner.

    The modules are imported in a process of its own, in a sandbox; `asked_by` is their text. Raises `KernelError`
    where they cannot be.
    """
    request = json.dumps({"tops": {name: str(path) for name, path in tops.items()}, "kernels": kernels})
    environment = allowed_environment(os.environ, asked_by=asked_by)
    environment[SHOWN] = os.pathsep.join(map(str, shown))
    with temporary_folder("kernelwright-program-") as folder:
        confined = ["-P", "-c", _CONFINED, str(folder), "-P", "-c", _PROGRAM.read_text()]
        what = f"the configs of {', '.join(name for _, name in kernels)} cannot be evaluated here"
        found = answer_of(confined, request, TIMEOUT_S, what, environment=environment)
    return [item and (item[0], item[1]) for item in found]
