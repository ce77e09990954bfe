"""torch.compile's code of problems in a file, a line for each, so that another machine need not generate it again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright.core import TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.corpus import find_problem
from kernelwright.evaluators.reference.generated_codes import OPTIONS, VERSIONS
from kernelwright.evaluators.settings import Precision, Settings

KERNELBENCH = find_problem("1_1").read()
"""Stands for the benchmark's problems, in which all are allowed the same of torch."""


def mode_of(settings: Settings) -> dict[str, Any]:
    """Return what the code of a convolution depends on."""
    return {"precision": settings.precision.value, "library": VERSIONS[settings.lowering(KERNELBENCH)]}


CONVOLUTION = "convolution"
"""The operator's name in Inductor's code."""
UNNAMED = mode_of(Settings(precision=Precision.FP32))
"""The mode of lines that name none."""


def kept_codes(path: Path | None, settings: Settings) -> dict[str, GeneratedCode]:
    """Return the codes in a file that serve these settings, by problem; those without a convolution serve all.

    A line that was not written whole is left out, as is what another version of the generator wrote.
    """
    return {
        record["id"]: GeneratedCode.model_validate(record["code"])
        for record in _records(path)
        if record.get("generator", OPTIONS) == OPTIONS
        and (CONVOLUTION not in record["code"]["source"] or _serves(record, settings))
    }


def keep_code(path: Path, problem: TorchProblem, code: GeneratedCode, settings: Settings) -> None:
    """Append a problem's code; one process writes a file."""
    described = {"id": problem.id, "name": problem.name, "reference": problem.source}
    record = {**described, "generator": OPTIONS, **mode_of(settings)}
    line = json.dumps({**record, "code": code.model_dump()}) + "\n"
    cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(f"\n{line}" if cut else line)


def _records(path: Path | None) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(line)


def _serves(record: dict[str, Any], settings: Settings) -> bool:
    return all(record.get(name, UNNAMED[name]) == value for name, value in mode_of(settings).items())
