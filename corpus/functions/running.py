"""Runs a user's modules in a sandbox for values that they compute on import, such as lists of configs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.environment import allowed_environment
from ...core.file_locks import temporary_folder
from ...core.user_package import UserPackage
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
    package: UserPackage, kernels: Sequence[tuple[str, str]], asked_by: str
) -> list[tuple[list[dict[str, Any]], list[str]] | None]:
    """Return the configs and the key of each kernel, given by module and name; None for one without an autotuner.

    The modules are imported in a process of its own, in a sandbox; `asked_by` is their text. Raises `KernelError`
    where they cannot be.
    """
    request = json.dumps({"tops": {name: str(path) for name, path in package.tops.items()}, "kernels": kernels})
    environment = {**allowed_environment(os.environ, asked_by=asked_by), **package.environment}
    what = f"the configs of {', '.join(name for _, name in kernels)} cannot be evaluated here"
    with temporary_folder("kernelwright-program-") as folder:
        found = confined_answer_of(_PROGRAM.read_text(), folder, package.shown, request, TIMEOUT_S, what, environment)
    return [item and (item[0], item[1]) for item in found]


def confined_answer_of(
    program: str,
    folder: Path,
    shown: Iterable[Path],
    given: str,
    timeout_s: float,
    failure: str,
    environment: Mapping[str, str],
) -> Any:
    """Return the JSON in the last line that a program prints, as `answer_of` does, in a sandbox.

    It works in the folder, the only place where it may write, and may also read `shown`.
    """
    confined = ["-P", "-c", _CONFINED, str(folder), "-P", "-c", program]
    environment = {**environment, SHOWN: os.pathsep.join(map(str, shown))}
    return answer_of(confined, given, timeout_s, failure, environment=environment)
