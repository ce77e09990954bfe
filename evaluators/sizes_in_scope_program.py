"""A program that calls a user's function at its workloads, and prints which sizes are in scope where constants stand.

It reads its task as JSON from standard input. Nothing is launched: the function runs as in Triton's interpreter, on the
CPU, up to its launches. Each workload has a process of its own, so that nothing is cached.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from .languages.base import imported_supports, replaced
from .workers.modules import load
from .workers.request_loop import USER_FILES
from .workers.user_modules import CandidateModules


class LineWatch:
    """Notes the sizes in scope whenever a place is reached."""

    def __init__(self, places: list[dict[str, Any]], files: dict[str, str]) -> None:
        """`files` has the label of each file by its path."""
        self._places: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
        for number, place in enumerate(places):
            self._places.setdefault((place["label"], place["function"]), []).append((number, place))
        self._files = files
        self.found: dict[int, dict[str, int]] = {}

    def __call__(self, frame: FrameType, event: str, given: Any) -> Any:
        """LineWatch a frame of a function with places."""
        label = self._files.get(frame.f_code.co_filename)
        places = self._places.get((label, frame.f_code.co_name)) if label is not None else None
        if places is None:
            return None
        waiting = [number for number, place in places if place["is_default"]]

        def line(frame: FrameType, event: str, given: Any) -> Any:
            for number, place in places:
                if event == "line" and place["first"] <= frame.f_lineno <= place["last"]:
                    if place["is_default"] and number not in waiting:
                        continue
                    if place["is_default"]:
                        waiting.remove(number)
                    self._note(number, sizes_of({name: frame.f_locals.get(name) for name in place["names"]}))
            return line

        return line

    def _note(self, number: int, sizes: dict[str, int]) -> None:
        """A size that changes within a call says nothing of the workload."""
        known = self.found.get(number, sizes)
        self.found[number] = {name: value for name, value in known.items() if sizes.get(name) == value}


def sizes_of(names: dict[str, Any]) -> dict[str, int]:
    """Return the expressions of whole numbers that names give, the simplest first."""
    import torch

    first, second = dict[str, int](), dict[str, int]()
    for name, value in names.items():
        if isinstance(value, int) and not isinstance(value, bool):
            first[name] = int(value)
        elif isinstance(value, dict):
            first |= {f'{name}["{key}"]': item for key, item in value.items() if type(item) is int}
        elif isinstance(value, torch.Size) and len(value):
            second |= {f"{name}[0]": value[0], f"{name}[-1]": value[-1]}
        elif isinstance(value, torch.Tensor) and value.dim():
            second |= {f"{name}.shape[0]": value.shape[0], f"{name}.shape[-1]": value.shape[-1]}
            second |= {f"{name}.numel()": value.numel()}
    return {**first, **second}


def watched(task: dict[str, Any], workload: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes at each place by its number, and whether the call ended."""
    import torch

    modules = task["loaded"]
    candidate = modules.load("candidate_of_sizes", Path(workload["candidate"]))
    problem = load("problem_of_sizes", Path(task["problem"]))
    for name, value in workload["sizes"].items():
        setattr(problem, name, tuple(value) if isinstance(value, list) else value)
    inputs = problem.get_inputs()
    model = candidate.ModelNew()
    watch, ended = LineWatch(task["places"], USER_FILES), True
    with torch.no_grad():
        sys.settrace(watch)
        try:
            model(*inputs)
        except Exception:  # of the user's, such as for want of a GPU; what was seen before counts
            traceback.print_exc()
            ended = False
        finally:
            sys.settrace(None)
    return {"ended": ended, "sizes": watch.found}


def main() -> None:
    """Answer one task."""
    task = json.load(sys.stdin)
    importlib.import_module(task["language"])
    for support in imported_supports():
        support.prepare("cpu")
    task["loaded"] = CandidateModules(task["package"])
    with _launching_nothing():
        found = {name: _apart(task, workload) for name, workload in task["workloads"].items()}
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def _launching_nothing() -> contextlib.AbstractContextManager[None]:
    try:
        from triton.runtime.interpreter import GridExecutor
    except ImportError:
        return contextlib.nullcontext()
    return replaced(GridExecutor, "__call__", lambda really: lambda self, *args, **options: None)


def _apart(task: dict[str, Any], workload: dict[str, Any]) -> Any:
    """Return what `watched` finds in a process of its own; None where that ends otherwise."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            answer = json.dumps(watched(task, workload)).encode()
            with os.fdopen(writing, "wb") as file:
                file.write(answer)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else None


if __name__ == "__main__":
    main()
