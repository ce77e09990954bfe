"""Operators of packages with a kernel in plain torch: what callers, training and torch.compile get of them."""

from __future__ import annotations

from pathlib import Path

import torch

from .hand_made import KERNEL, hand_made
from .results import python

COMPILED = """
import torch, mylib_redeployed as deployed

compiled = torch.compile(lambda *given: deployed.call(*given), fullgraph=True)
print(float(compiled(torch.ones(4, 8), torch.ones(8)).sum()))
"""


def test_compiled_code_of_another_package_of_the_name_is_not_run(tmp_path: Path) -> None:
    found = []
    for factor in (1, 2):
        kernel = KERNEL.replace("x * x", f"{factor} * x * x")
        hand_made(tmp_path / str(factor), "redeployed", kernel, visible=True, load=False)
        run = python(COMPILED, tmp_path / str(factor), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
        found.append(run.stdout.splitlines()[-1:] or run.stderr)
    assert found == [["32.0"], ["64.0"]]
