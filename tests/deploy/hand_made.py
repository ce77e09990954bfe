"""Small packages of deployed operators with a kernel in plain torch, written without the command."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright.deploy import writing

REFERENCE = """import torch

rows = 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(8))

    def forward(self, x):
        return x * x * self.weight


def get_inputs():
    return [torch.rand(rows, 8)]


def get_init_inputs():
    return []
"""
KERNEL = REFERENCE.replace("class Model(", "class ModelNew(")
TABLE: Mapping[str, Any] = {
    "weights": ["weight"],
    "returns_tuple": False,
    "reference_has_own_tensors": False,
    "visible": False,
    "tolerances": {"float32": [1e-5, 1e-5, 1.0]},
}
ARGUMENTS = (["float32", [4, 8]], ["float32", [8]])
_INIT = """from pathlib import Path

import torch

from .checks import compare
from .operators import DeployedOperator

OPERATOR = DeployedOperator(__name__, Path(__file__).parent)


def _call({signature}) -> torch.Tensor:
    return OPERATOR({names})


call = OPERATOR.register(_call)


def verify():
    return compare(OPERATOR, call)
"""


def hand_made(
    folder: Path,
    name: str,
    kernel: str = KERNEL,
    serves: Mapping[str, Any] | None = None,
    arguments: Sequence[Any] = ARGUMENTS,
    load: bool = True,
    reference: str = REFERENCE,
    repeatable: bool = False,
    deterministic: bool = True,
    **table: Any,
) -> Any:
    """Write the package of `mylib::name` with one kernel, and import it if it is to be loaded."""
    package = folder / f"mylib_{name}"
    (package / "kernels").mkdir(parents=True)
    shutil.copytree(Path(writing.__file__).parent / "package", package, dirs_exist_ok=True)
    (package / "kernels" / "__init__.py").touch()
    (package / "kernels" / "first.py").write_text(kernel)
    (package / "reference.py").write_text(reference)
    row = {"kernel": "first", "device": "cpu", "arguments": arguments, "serves": serves, "sizes": {}}
    row |= {"repeatable": repeatable, "deterministic": deterministic}
    (package / "table.json").write_text(json.dumps({**TABLE, **table, "name": f"mylib::{name}", "kernels": [row]}))
    (package / "__init__.py").write_text(
        _INIT.format(signature="x: torch.Tensor, weight: torch.Tensor", names="x, weight")
    )
    if not load:
        return None
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(package.name)
    finally:
        sys.path.remove(str(folder))
