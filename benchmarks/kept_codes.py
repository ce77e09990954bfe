"""torch.compile's code of problems in a file, a line for each, so that another machine need not generate it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernelwright.core import TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.evaluators.settings import Precision, Settings


def mode_of(settings: Settings) -> dict[str, Any]:
    """Return what the code of a convolution depends on."""
    return {"precision": settings.precision.value, "library": settings.library_convolutions}


CONVOLUTION = "convolution"
"""The operator's name in Inductor's code."""
UNNAMED = mode_of(Settings(precision=Precision.FP32))
"""The mode of lines that name none."""


def kept_codes(path: Path | None, settings: Settings) -> dict[str, GeneratedCode]:
    """Return the codes in a file that serve these settings, by problem; those without a convolution serve all."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    return {
        record["id"]: GeneratedCode.model_validate(record["code"])
        for record in map(json.loads, lines)
        if CONVOLUTION not in record["code"]["source"] or _serves(record, settings)
    }


def keep_code(path: Path, problem: TorchProblem, code: GeneratedCode, settings: Settings) -> None:
    """Append a problem's code."""
    record = {"id": problem.id, "name": problem.name, "reference": problem.source, **mode_of(settings)}
    line = json.dumps({**record, "code": code.model_dump()}) + "\n"
    with path.open("a") as file:
        file.write(line)


def _serves(record: dict[str, Any], settings: Settings) -> bool:
    return all(record.get(name, UNNAMED[name]) == value for name, value in mode_of(settings).items())
