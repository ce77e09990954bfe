"""Programs that run the user's own code in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ...core import KernelError
from ...core.environment import allowed_environment


def answer_of(
    arguments: Sequence[str],
    given: str,
    timeout_s: float,
    failure: str,
    advice: str = "",
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Return the JSON in the last line that Python prints with these arguments; `given` is its standard input.

    Earlier output of the user's code is ignored. It gets `environment`, by default what every process may have and
    the variables that its input names. Raises `KernelError`, which begins with `failure`, says why, and
    ends in `advice`.
    """
    ending = f"; {advice}" if advice else ""
    command = [sys.executable, *arguments]
    if environment is None:
        environment = allowed_environment(os.environ, asked_by=given)
    try:
        run = subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise KernelError(f"{failure}: it did not end in {timeout_s:g} s{ending}") from None
    said, errors = run.stdout.strip().splitlines(), run.stderr.strip().splitlines()
    if run.returncode != 0 or not said:
        why = errors[-1] if errors else f"exit status {run.returncode}"
        raise KernelError(f"{failure}: {why}{ending}")
    try:
        return json.loads(said[-1])
    except (ValueError, RecursionError):
        raise KernelError(f"{failure}: its last line is not an answer: {said[-1][:200]!r}{ending}") from None
