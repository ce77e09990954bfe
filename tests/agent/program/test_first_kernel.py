"""What a model sees that writes a first kernel: the kernel of structures, with its time."""

from __future__ import annotations

from typing import Any

from kernelwright.agent.program.first_kernel import FirstKernelWriter
from kernelwright.core import PythonKernel, Target
from kernelwright.core.language import of_backend
from kernelwright.corpus import find_problem

from ...conftest import SCALE_KERNEL
from ...fakes import PROFILE


def examples(ms: float | None, source: str = SCALE_KERNEL) -> str:
    writer: Any = FirstKernelWriter(models=None, retriever=None, rag_k=3)  # type: ignore[arg-type]
    problem = find_problem("level1/1_19").read()
    kernel = PythonKernel.parse(source)
    inputs = writer._inputs(problem, PROFILE, of_backend("triton")[0], Target("cuda"), (), (kernel, ms))
    return str(inputs["examples"])


def test_the_kernel_of_structures_is_a_worked_example_with_its_time() -> None:
    shown = examples(0.125)
    assert "for this very problem, made of structures, correct, 0.125 ms on this device" in shown
    assert SCALE_KERNEL.strip().splitlines()[-1] in shown
    assert "neither checked nor timed" in examples(None)


def test_one_that_is_too_long_is_left_out() -> None:
    assert examples(0.125, SCALE_KERNEL + "\n# a long remark" * 5000) == "none"
