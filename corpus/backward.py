"""The gradients of a problem as a problem: the backward graph that AOTAutograd makes of its reference."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ..core import ProblemError, TorchProblem
from ..core.environment import allowed_environment
from ..core.file_locks import temporary_folder
from ..core.text import digest_of
from .functions.running import confined_answer_of

TIMEOUT_S = 300.0
"""Seconds for the program, which imports torch."""
_PROGRAM = Path(__file__).with_name("backward_program.py")
_DEVICE = re.compile(r"\bdevice\(type='[a-z]+'(, index=\d+)?\)")
_TEXT = '''"""Gradients of {name} at {workload}: of its inputs and parameters, given the gradients of its outputs.

The backward graph of AOTAutograd, with all that the forward pass computes recomputed from inputs and parameters.
"""

{source}


# The sizes of the graph.
WORKLOADS = {{}}
{sizes}
inf, nan = float("inf"), float("nan")


class Model(Forward):
    def forward(self, {arguments}):
        {body}


def get_inputs():
    return [*forward_inputs(), {gradients}]
'''


def backward_problem(problem: TorchProblem) -> TorchProblem:
    """Return the gradients of a problem at its sizes, as a problem whose `Model` is a subclass of the reference.

    It takes the reference's inputs and a gradient of each output, and returns the gradients of the inputs that are
    floating-point tensors and of the parameters, in order. Raises `ProblemError` for a reference without gradients or
    with random numbers, and for one that cannot be traced.
    """
    request = json.dumps({"source": problem.source, "sizes": dict(problem.sizes)})
    environment = allowed_environment(os.environ, asked_by=request)
    with temporary_folder("kernelwright-backward-") as folder:
        failure = f"the gradients of {problem.id} cannot be traced"
        found = confined_answer_of(_PROGRAM.read_text(), folder, [], request, TIMEOUT_S, failure, environment)
    if "refused" in found:
        raise ProblemError(f"{problem.id} has no backward problem: {found['refused']}")
    first = found["arguments"][-len(found["gradients"])]
    source = re.sub(r"\bModel\b", "Forward", problem.source)
    gradients = [
        f"torch.randn({', '.join(map(str, [*shape, f'dtype={dtype}'])) if shape else f'(), dtype={dtype}'})"
        for shape, dtype in found["gradients"]
    ]
    text = _TEXT.format(
        name=problem.name,
        workload=problem.workload,
        source=re.sub(r"\bget_inputs\b", "forward_inputs", source).strip(),
        sizes="\n".join(f"{name} = {value!r}" for name, value in problem.sizes.items()),
        arguments=", ".join(found["arguments"]),
        body="\n        ".join(_DEVICE.sub(f"{first}.device", line) for line in found["body"]),
        gradients=", ".join(gradients),
    )
    name = f"{problem.name}_backward_{digest_of(text)[:6]}"
    return TorchProblem(id=name, name=name, source=text, path=f"{name}.py")
