"""Small graphs as Inductor gets them, and entries of the store with kernels in plain torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelwright.deploy.models.partition import regions_of
from kernelwright.deploy.models.reference import architecture, reference_tensors
from kernelwright.deploy.models.region import ModelRegion, problem_source, written_region
from kernelwright.deploy.models.store import StoredRegion, version_of
from torch._inductor.decomposition import select_decomp_table
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = Path(__file__).parents[3]


def traced(function: Callable[..., Any], *inputs: Any) -> Graph:
    """The graph of ATen operators, decomposed as for Inductor."""
    return make_fx(function, decomposition_table=select_decomp_table(), tracing_mode="fake")(*inputs).graph


def regions(function: Callable[..., Any], *inputs: Any) -> list[ModelRegion]:
    """All regions of a function, in their order."""
    return [written_region(group) for group in regions_of(traced(function, *inputs))]


def entry(region: ModelRegion | str, change: tuple[str, str] = ("", ""), **fields: Any) -> StoredRegion:
    """An entry whose kernel is the region's reference, with one text in it changed."""
    problem = region if isinstance(region, str) else problem_source(region)
    kernel = problem.replace("class Model(", "class ModelNew(")
    assert change[0] in kernel
    table: Mapping[str, Any] = {
        "name": "kernelwright_regions::region",
        "weights": [],
        "returns_tuple": "return (" in problem,
        "reference_has_own_tensors": False,
        "visible": False,
        "tolerances": {"float32": [1e-4, 1e-4, 1.0]},
        "kernels": [
            {
                "kernel": "region_0",
                "device": "cpu",
                "serves": None,
                "arguments": reference_tensors(problem),
                "sizes": {},
            }
        ],
    }
    found: dict[str, Any] = {
        "device": architecture("cpu"),
        "versions": {"torch": version_of("torch")},
        "compile_ms": 2.0,
        "latency_ms": 1.0,
        "gain_interval": (1.9, 2.1),
        "table": table,
        "problem": problem,
        "kernels": {"region_0": kernel.replace(*change)},
    }
    return StoredRegion(**{**found, **fields})


def process(program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program with caches of its own."""
    environment = {**os.environ, "KERNELWRIGHT_CACHE": str(folder / "cache"), **variables}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=280
    )
