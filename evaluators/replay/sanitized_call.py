"""The program that compute-sanitizer runs: makes one call of a launch plan, and ends.

Run as `python -m kernelwright.evaluators.replay.sanitized_call REQUEST`, a JSON file with the plan, what it computes
on, and how this process is confined. Each tensor has an allocation of its own, whose ends the tool watches, and memory
that the plan only allocates stays as it is, so the tool sees what is read of it. No Python of the candidate is loaded.
What is written to the file `ended` says whether the call was made.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from ..workers.confinement import confine
from ..workers.shortages import within


def main(request: dict[str, Any]) -> None:
    """Confine this process, and make the call."""
    os.chdir(request["folder"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, gib in ((resource.RLIMIT_DATA, request["memory_gib"]), (resource.RLIMIT_FSIZE, request["file_gib"])):
        limit = within(kind, int(gib * 2**30))
        resource.setrlimit(kind, (limit, limit))
    if request["rules"] is not None:
        confine(request["rules"])
    try:
        reason = _called(request)
    except Exception as error:  # also what the tool ended, which it reports itself
        reason = f"{type(error).__name__}: {error}"
    Path(request["ended"]).write_text(json.dumps({"reason": reason}))


def _called(request: dict[str, Any]) -> str | None:
    """Make the call; return why the plan cannot be executed, or None."""
    import torch

    from ..reference.arithmetic import Arithmetic
    from ..workers.handover import plain_memory, taken
    from ..workers.tensor_ipc import OpenMemory
    from .executor import loaded_plan
    from .walled_memory import apart
    from .walls import Walls

    arithmetic, device = Arithmetic.of(request), request["device"]
    for name in request["languages"]:
        with contextlib.suppress(Exception):  # a plan of it says so
            importlib.import_module(name)
    arithmetic.main.set()
    walls = Walls(device, functools.partial(apart, device=device))
    text, constants = Path(request["plan"]).read_text(), Path(request["path"])
    executor = loaded_plan(text, request["constants"], constants, Path(request["folder"], "plan"), device, walls)
    if isinstance(executor, str):
        return executor
    opened, memory = OpenMemory(), plain_memory(device)
    values = taken(request["weights"]["given"], device, opened, memory)
    weights = dict(zip(request["weights"]["names"], values, strict=True))
    inputs = taken(request["inputs"], device, opened, memory)
    executor.require_fit(inputs, weights)
    with torch.no_grad():
        executor.pack(weights)
        executor(inputs, weights)
    if device != "cpu":
        torch.cuda.synchronize()
    return None


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
