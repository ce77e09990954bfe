"""Problems without a kernel: what `optimize` begins with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import kernelwright
import pytest
from kernelwright.agent.first_kernels.wrapper import CONVOLUTION
from kernelwright.agent.models.prompt_file import reply_name
from kernelwright.agent.proposer import RunEndedError
from kernelwright.agent.rules.triton.split_precision import START
from kernelwright.commands.optimize import Options as OptimizeOptions
from kernelwright.core import (
    ExchangeRecord,
    KernelError,
    OptionError,
    ProblemError,
    PythonKernel,
    read_journal,
)
from kernelwright.core.events import Note
from kernelwright.core.operator_graph import OperatorGraph
from kernelwright.evaluators.settings import AllowTorch, Lowering, Precision, Settings
from kernelwright.runtime.first_kernels import open_problem, starts_for
from kernelwright.runtime.options.groups import Backend

from ..cli.commands import kernelwright as run_command
from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from .recorded_compiler import Compiler, Writer, made_by

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


def test_a_module_is_recognized_as_a_problem_without_a_kernel(module: Path) -> None:
    found = open_problem(OptimizeOptions(str(module)), str(module), "cuda", model=False)
    assert found is not None and found.problem.source == MODULE and found.backend == "triton"
    named = OptimizeOptions(problem=str(module))
    assert named.named == str(module) and open_problem(named, named.named, "cuda", model=False) == found
    assert open_problem(OptimizeOptions("1_19"), "1_19", "cuda", model=False) is None
    on_cpu = open_problem(named, named.named, "cpu", model=True)
    assert on_cpu is not None and on_cpu.backend == "tilelang_cpu"


def test_bad_input_is_one_line(module: Path) -> None:
    with pytest.raises(OptionError, match=r"mine has no tilelang_cpu kernel.*or written by a language model"):
        kernelwright.optimize(problem=str(module), device="cpu", model="rules")
    with pytest.raises(KernelError, match="no tilelang_cpu kernel 'level2/2_27'"):
        kernelwright.optimize("level2/2_27", device="cpu", model="rules")
    with pytest.raises(OptionError, match="mine has no tilelang kernel"):
        open_problem(OptimizeOptions(str(module), backend=Backend.TILELANG), str(module), "cuda", model=False)
    with pytest.raises(ProblemError, match="no problem 'modle"):
        kernelwright.optimize(problem="modle.py", device="cpu", model="rules")
    with pytest.raises(OptionError, match="nothing to optimize is named"):
        kernelwright.optimize(model="rules")


def test_a_resumed_run_reads_the_first_kernel_of_before(tmp_path: Path) -> None:
    compiler, path = Compiler("level2/2_12"), tmp_path / "first_kernel.py"
    (made,), (again,) = made_by(compiler, path, resume=False), made_by(compiler, path, resume=True)
    assert made.backend == "triton" and made.digest == again.digest and compiler.asked == 1


def test_the_compilers_kernel_and_the_models_are_kept_the_faster_one_first(tmp_path: Path) -> None:
    compiler, path = Compiler("level2/2_12"), tmp_path / "first_kernel.py"
    (compiled,) = made_by(compiler, tmp_path / "alone.py", resume=False)
    models = PythonKernel.parse(SCALE_KERNEL)
    compiler.latencies = {compiled.digest: 4.0, models.digest: 3.0}
    assert [kernel.digest for kernel in made_by(compiler, path, False, Writer(models))] == [
        models.digest,
        compiled.digest,
    ]
    again = made_by(compiler, path, resume=True, writer=Writer(models))
    assert [kernel.source for kernel in again] == [models.source, compiled.source]
    compiler.latencies[models.digest] = 5.0
    assert made_by(compiler, path, False, Writer(models))[0].digest == compiled.digest
    compiler.latencies = {compiled.digest: None, models.digest: None}  # correct, and not timed
    assert [kernel.digest for kernel in made_by(compiler, path, False, Writer(models))] == [compiled.digest]


def test_a_model_that_fails_leaves_the_compilers_kernel(tmp_path: Path) -> None:
    compiler, path = Compiler("level2/2_12"), tmp_path / "first_kernel.py"
    assert len(made_by(compiler, path, False, Writer(RunEndedError("the budget of 10 tokens is spent")))) == 1
    with pytest.raises(KernelError, match=r"the model's attempts failed: the budget of 10 tokens is spent; write a"):
        made_by(Compiler("level1/1_57"), path, False, Writer(RunEndedError("the budget of 10 tokens is spent")))


@pytest.mark.parametrize(
    ("screened_ms", "precision"),
    [({"ieee": 2.0, START: 1.0}, START), ({"ieee": 1.0, START: 2.0}, "ieee"), ({"ieee": 1.0}, "ieee"), ({}, "ieee")],
)
def test_products_start_with_the_precision_that_is_correct_and_fast(
    tmp_path: Path, screened_ms: dict[str, float], precision: str
) -> None:
    compiler = Compiler("level2/2_12")
    compiler.screened_ms = screened_ms
    (made,) = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert [kernel.config["PRECISION"] for kernel in compiler.quick] == ["ieee", START]
    assert made.config["PRECISION"] == precision
    assert compiler.lowerings == [Lowering.TEMPLATES]


@pytest.mark.parametrize(("name", "allow_torch"), [("level1/1_39", AllowTorch.ALL), ("mine", None)])
@pytest.mark.parametrize("correct", [True, False])
def test_a_librarys_convolution_that_is_not_exact_enough_is_made_in_the_layout_of_the_reference(
    tmp_path: Path, correct: bool, name: str, allow_torch: AllowTorch | None
) -> None:
    compiler = Compiler("level1/1_39")
    compiler.problem = replace(compiler.problem, id=name)
    compiler.add_line(
        "buf9 = extern_kernels.convolution(arg0_1, arg0_1, stride=(1, 1), padding=(0, 0), dilation=(1, 1), "
        "transposed=False, output_padding=(0, 0), groups=1, bias=None)"
    )
    compiler.settings = Settings(precision=Precision.DEFAULT, allow_torch=allow_torch)
    compiler.screened_ms = {"None": 1.0} if correct else {}
    (made,) = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert CONVOLUTION in made.source and len(compiler.quick) == 1
    again = [] if correct else [Lowering.LIBRARY_AS_GIVEN]
    assert compiler.lowerings == [Lowering.LIBRARY, *again, Lowering.AS_COMPILED]


def test_what_has_no_product_is_not_screened(tmp_path: Path) -> None:
    compiler = Compiler("level1/1_39")
    assert len(made_by(compiler, tmp_path / "first_kernel.py", resume=False)) == 1 and compiler.quick == []


def test_what_cannot_be_made_says_which_operator_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "first_kernel.py"
    with pytest.raises(KernelError, match=r"its library \(convolution\).*write a kernel file"):
        made_by(Compiler("level1/1_57"), path, resume=False)
    assert not path.exists()


RELU = OperatorGraph.model_validate(
    {
        "values": [
            {"name": "x", "operator": "input", "arguments": [0], "shapes": [[8, 64]], "dtypes": ["float32"]},
            {
                "name": "relu",
                "operator": "aten.relu.default",
                "arguments": [{"value": "x"}],
                "shapes": [[8, 64]],
                "dtypes": ["float32"],
            },
        ],
        "outputs": ["relu"],
        "form": "tensor",
    }
)


SHAPE = {"shapes": [[64, 64]], "dtypes": ["float32"]}
PRODUCT = OperatorGraph.model_validate(
    {
        "values": [
            {"name": "x", "operator": "input", "arguments": [0], **SHAPE},
            {"name": "y", "operator": "weight", "arguments": ["y"], **SHAPE},
            {"name": "mm", "operator": "aten.mm.default", "arguments": [{"value": "x"}, {"value": "y"}], **SHAPE},
        ],
        "outputs": ["mm"],
        "form": "tensor",
    }
)
PLAIN = ["torch.compile with templates", "a cover by structures"]
LIBRARY = ["torch.compile with the library", "structures around the library"]


def test_structures_and_the_compilers_kernel_are_screened_and_the_best_of_each_kept(tmp_path: Path) -> None:
    compiler = Compiler("level2/2_12")
    compiler.graph, compiler.screened_ms = RELU, {"ieee": 3.0, START: 2.0, "None": 1.0}
    first, second = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert len(compiler.quick) == 3, "two precisions of the compiler's, and the structure's"
    assert "from structures (pointwise)" in first.source and second.config["PRECISION"] == START
    compiler.screened_ms["None"] = 9.0
    first, second = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert first.config["PRECISION"] == START and "from structures (pointwise)" in second.source


def test_the_model_sees_the_structures_kernel_and_what_they_lack_is_listed(tmp_path: Path) -> None:
    compiler, models = Compiler("level2/2_12"), PythonKernel.parse(SCALE_KERNEL)
    compiler.graph, compiler.screened_ms = RELU, {"ieee": 3.0, START: 2.0, "None": 1.0}
    structured, compiled = made_by(compiler, tmp_path / "first.py", resume=False)
    for latency, listed in ((0.5, True), (0.97, False)):
        compiler.latencies = {structured.digest: 1.0, compiled.digest: 2.0, models.digest: latency}
        writer, events = Writer(models), list[object]()
        first, *_ = made_by(compiler, tmp_path / "first_kernel.py", False, writer, events.append)
        assert first.digest == models.digest
        assert writer.shown == (structured, 1.0)
        lines = [event.text for event in events if isinstance(event, Note) and "structures lack" in event.text]
        assert [line.split(":")[1].strip() for line in lines] == ["0.5 ms, and theirs take 1 ms"] * listed


def test_a_model_that_has_what_structures_refuse_is_listed(tmp_path: Path) -> None:
    compiler, models, events = Compiler("level2/2_12"), PythonKernel.parse(SCALE_KERNEL), list[object]()
    (compiled,) = made_by(compiler, tmp_path / "first.py", resume=False)
    compiler.latencies = {compiled.digest: 1.0, models.digest: 2.0}
    writer = Writer(models)
    made_by(compiler, tmp_path / "first_kernel.py", False, writer, events.append)
    assert writer.shown is None
    assert any("structures have no correct kernel for it" in str(event) for event in events)


def test_a_structure_is_the_start_where_the_compiler_leaves_all_to_its_library(tmp_path: Path) -> None:
    compiler = Compiler("level1/1_57")
    compiler.graph = RELU
    (made,) = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert "from structures (pointwise)" in made.source and compiler.quick == []


def test_the_library_competes_for_a_users_module_and_not_for_a_benchmarks(tmp_path: Path) -> None:
    compiler = Compiler("level2/2_12")
    assert [start.name for start in starts_for(compiler.problem, compiler)] == PLAIN  # type: ignore[arg-type]
    own = replace(compiler.problem, id="mine")
    assert [start.name for start in starts_for(own, compiler)] == PLAIN + LIBRARY  # type: ignore[arg-type]
    compiler.settings = Settings(allow_torch=AllowTorch.GLUE)
    assert [start.name for start in starts_for(own, compiler)] == PLAIN  # type: ignore[arg-type]


def test_a_module_that_is_one_call_of_the_library_starts_with_that_call(tmp_path: Path) -> None:
    compiler = Compiler("level1/1_57")
    compiler.problem = replace(compiler.problem, id="mine")
    compiler.graph = PRODUCT
    compiler.screened_ms = {"None": 1.0, "ieee": 2.0}
    compiler.obstacle = "nothing that can be rewritten"
    first, second = made_by(compiler, tmp_path / "first_kernel.py", resume=False)
    assert first.source.startswith('"""57_conv_transposed_2D__square_input__square_kernel: torch computes mm.')
    assert "torch.ops.aten.mm.default(x, y)" in first.source and "@triton.jit" not in first.source
    assert "from structures (products)" in second.source
    assert compiler.lowerings == [Lowering.TEMPLATES, Lowering.AS_COMPILED]
    assert len({kernel.digest for kernel in compiler.quick}) == len(compiler.quick), "each is screened once"


def replied(folder: Path, number: int, text: str) -> str:
    """Write the reply to the newest prompt; return the prompt."""
    prompts = sorted(path for path in folder.iterdir() if "reply" not in path.name)
    assert len(prompts) == number, prompts
    reply = folder / reply_name(prompts[-1].name)
    reply.write_text(text)
    os.utime(reply, (0, 0))  # a file that was just written may not be whole
    return prompts[-1].read_text()


def test_a_model_writes_the_first_kernel_and_repairs_it(tmp_path: Path) -> None:
    # The result is timed beside torch.compile, whose compiler for CPUs takes half a minute to start.
    eager = SCALE_PROBLEM.replace("    def forward", "    @torch.compiler.disable\n    def forward")
    (tmp_path / "scale.py").write_text(eager)
    command = ["optimize", "--problem", "scale.py", "--device", "cpu", "--sandbox", "none", "--workload", "cpu"]
    command += ["--model", "files:chat", "--no-wait", "--max-trials", "1", "--rag-k", "0"]
    assert run_command(*command, cwd=tmp_path).returncode == 75
    first = replied(tmp_path / "chat", 1, f"```python\n{SCALE_KERNEL.replace('* W[j]', '+ W[j]')}```")
    assert "self.weight = nn.Parameter" in first and "T.Kernel" in first and "operators of the reference: mul" in first
    assert run_command(*command, "--resume", cwd=tmp_path).returncode == 75
    second = replied(tmp_path / "chat", 2, f"```python\n{SCALE_KERNEL}```")
    assert "wrong_value" in second and "+ W[j]" in second
    ended = run_command(*command, "--resume", cwd=tmp_path)
    assert ended.returncode in (0, 3), ended.stdout + ended.stderr
    assert "target" not in ended.stdout + ended.stderr, "a module is optimized until nothing is left"
    kernel = tmp_path / "results" / "multiturn_logs" / "first_kernel_scale_tilelang_cpu.py"
    assert "* W[j]" in kernel.read_text()
    transcript = read_journal(kernel.with_name("transcript_scale_tilelang_cpu.jsonl"))
    assert [record.lane for record in transcript if isinstance(record, ExchangeRecord)].count("first") == 2


@pytest.mark.gpu
@pytest.mark.timeout(400)
def test_attention_of_the_library_is_a_start_that_is_replayed(module: Path, tmp_path: Path) -> None:
    attention = "torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)"
    source = MODULE.replace("torch.relu(x) * 2", attention).replace("(64, 64)", "(2, 8, 512, 64, dtype=torch.bfloat16)")
    module.write_text(source)
    result = kernelwright.optimize(
        problem=str(module), workload=None, model="rules", max_iterations=1, results=tmp_path / "results"
    )
    starts = [path.read_text() for path in (tmp_path / "results" / "multiturn_logs").glob("first_kernel_mine*.py")]
    assert any("torch computes" in text.splitlines()[0] for text in starts)
    assert result.verified and result.outcome.best.replay is not None and result.outcome.best.replay.replayed


@pytest.mark.gpu
@pytest.mark.timeout(400)
def test_a_module_alone_is_optimized(module: Path, tmp_path: Path) -> None:
    result = kernelwright.optimize(
        problem=str(module), workload=None, model="rules", max_iterations=1, results=tmp_path / "results"
    )
    assert result.job.backend == "triton" and result.verified, result.outcome.stopped
    assert (tmp_path / "results" / "multiturn_logs" / "first_kernel_mine_triton.py").exists()
    assert result.outcome.best.replay is not None and result.outcome.best.replay.replayed
