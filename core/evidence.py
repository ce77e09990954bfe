"""The measurements of a kernel, as the header of its file."""

from __future__ import annotations

import ast
from typing import Any

from .baselines import COMPILE, REMEMBERED
from .evaluation import Evaluation
from .problem import Problem
from .source_text import source_lines
from .syntax_tree import syntax_tree

HEADER = ("Problem Name:", "Evaluation Result:")
RULE = "rule.json"
"""The file next to kernels of a range that says which kernel serves which sizes."""


def evidence(problem: Problem, best: Evaluation, start: Evaluation) -> dict[str, Any]:
    """Return the contents of an optimized kernel's header, under KernelBench's names."""
    assert best.speedup is not None and best.correctness is not None and best.reference is not None
    default = best.speedup_default
    compiled = best.speedup_against(COMPILE)
    if compiled is not None and best.baselines[COMPILE].method.endswith(REMEMBERED):
        compiled = None  # not timed in turns with the kernel
    return {
        "compiled": True,
        "correctness": True,
        "speedup_ratio": round(best.speedup.ratio, 4),
        "interval": [round(best.speedup.low, 4), round(best.speedup.high, 4)],
        **({} if default is None else {"speedup_default": round(default.ratio, 4)}),
        **({} if default is None else {"interval_default": [round(default.low, 4), round(default.high, 4)]}),
        **({} if compiled is None else {"interval_compile": [round(compiled.low, 4), round(compiled.high, 4)]}),
        "precision": best.precision,
        **({"default_is_reference": True} if best.default_is_reference else {}),
        "latency_ms": best.latency_ms,
        "reference_ms": best.reference.median_ms,
        "start_latency_ms": start.latency_ms,
        "samples": len(best.measurement.samples_ms) if best.measurement else 0,
        "seeds": list(best.correctness.seeds),
        "max_abs_error": best.correctness.own_error,
        "tolerance": best.correctness.tolerance,
        "workload": problem.workload,
        "sizes": dict(problem.sizes),
        **({} if best.contention is None else {"contention": best.contention}),
        **({} if best.replay is None else {"replayed": best.replay.replayed}),
        **({"shape_specialised": True} if best.shape_specialised else {}),
        **{f"{name}_ms": baseline.median_ms for name, baseline in best.baselines.items()},
        **best.environment,
    }


def with_evidence(source: str, problem: Problem, best: Evaluation, start: Evaluation, **more: Any) -> str:
    """Return the source with a docstring that starts with the problem's name, the evaluation's result and `more`."""
    tree = syntax_tree(source)
    described = ast.get_docstring(tree) or ""
    kept = "\n".join(line for line in source_lines(described) if not line.startswith(HEADER)).strip()
    lines = [f"{HEADER[0]} {problem.name}", f"{HEADER[1]} { {**evidence(problem, best, start), **more}!r}"]
    text = "\n".join([*lines, *(["", kept] if kept else [])]).strip()
    body = source
    if described:
        end = tree.body[0].end_lineno or 0
        body = "\n".join(source_lines(source)[end:])
    quoted = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\n{quoted}\n"""\n{body if body.startswith(chr(10)) else chr(10) + body}'.rstrip() + "\n"
