"""Kernel files from torch's own compiler, which finds a GPU that is not there; they run in Triton's interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.kernels import GeneratedKernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.agent.rules.triton.split_precision import PRECISIONS
from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.reference.decompositions import long_sums
from kernelwright.evaluators.reference.inductor import Ahead, generated
from kernelwright.evaluators.reference.inductor_compiler import lowered, traced
from kernelwright.evaluators.settings import AllowTorch, Lowering
from kernelwright.evaluators.workers.modules import ProblemModule

from ...conftest import FAST, Unguarded
from ...faked_gpu import fake_model, faked_gpu

pytestmark = pytest.mark.usefixtures("own_inputs")

SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn

rows = 6


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        {modules}

    def forward(self, x, *others):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [16]
"""
CASES = {
    "pointwise": ("pass", "return F.gelu(x) * 2", "torch.randn(rows, 33)"),
    "norm": ("self.norm = nn.LayerNorm(features)", "return torch.relu(self.norm(x))", "torch.randn(rows, 16)"),
    "long rows": ("pass", "return x / x.pow(2).mean(1, keepdim=True)", "torch.rand(rows, 1200) + 1"),
    "two outputs": ("pass", "return x.amax(1), x.sum(0)", "torch.randn(rows, 20)"),
    "two inputs": (
        "self.scale = 3",
        "return [x.t() @ x + self.scale * others[0]]",
        "torch.randn(rows, 16), torch.randn(16, 16)",
    ),
    "product": (
        "self.layers = nn.Sequential(nn.Linear(features, 32), nn.ReLU())",
        "return self.layers(x)",
        "torch.randn(32, 16)",
    ),
    "convolution": ("self.conv = nn.Conv2d(16, 16, 3)", "return torch.relu(self.conv(x))", "torch.randn(1, 16, 6, 6)"),
    "convolution of one tap": (
        "self.conv = nn.Conv2d(16, 32, 1)",
        "return torch.relu(self.conv(x))",
        "torch.randn(2, 16, 8, 9)",
    ),
    "depthwise convolution": (
        "self.conv = nn.Conv2d(4, 8, (3, 2), stride=2, padding=1, dilation=(1, 2), groups=4)",
        "return self.conv(x)",
        "torch.randn(2, 4, 9, 8)",
    ),
    "grouped convolution": (
        "self.conv = nn.Conv2d(16, 64, 3, padding=1, groups=2)",
        "return self.conv(x)",
        "torch.randn(1, 16, 4, 4)",
    ),
    "transposed convolution": (
        "self.conv = nn.ConvTranspose2d(16, 16, (3, 2), stride=2, padding=1, output_padding=1, groups=2)",
        "return torch.relu(self.conv(x))",
        "torch.randn(1, 16, 3, 4)",
    ),
    "scan": ("pass", "return torch.cumsum(x, 1) + 1", "torch.randn(rows, 20)"),
    "scaled softmax": (
        "self.scale = nn.Parameter(torch.ones(1))",
        "return torch.softmax(self.scale * x, 1)",
        "torch.randn(rows, 20)",
    ),
    "maximum": ("pass", "return torch.softmax(F.max_pool1d(x, 2), 1)", "torch.randn(rows, 1, 20)[:, 0]"),
}


def problem_of(case: str) -> TorchProblem:
    modules, forward, inputs = CASES[case]
    source = SOURCE.format(modules=modules, forward=forward, inputs=inputs)
    return TorchProblem(id="level1/1_995", name="995_Case", source=source)


def code_of(problem: TorchProblem, folder: Path, lowering: Lowering = Lowering.TEMPLATES) -> GeneratedCode:
    path = folder / f"{problem.name}.py"
    path.write_text(problem.source)
    module = ProblemModule(path, problem.sizes, "meta")
    with faked_gpu():
        model, inputs = fake_model(module.model(0), module.inputs(0))
        ahead = Ahead.of(model, inputs, lowering)
        assert ahead.compiled is None, "only for real tensors of a GPU"
        return GeneratedCode.model_validate(generated(model, inputs, lowering, ahead))


def test_the_compiler_works_in_the_mode_of_fake_tensors_that_the_graph_has() -> None:
    """Where inputs are real, another mode would meet the graph's, and those do not mix (2_84, torch 2.11)."""
    # Where a GPU is faked, since Inductor would register patterns that others of these tests cannot trace.
    with faked_gpu(), mock.patch("torch._inductor.compile_fx.compile_fx_inner") as compiled:
        graph, _ = traced(torch.nn.ReLU(), {}, [torch.ones(4)])
        lowered(graph, [torch.ones(4)])
    (taken,) = (node.meta["val"] for node in graph.graph.find_nodes(op="placeholder"))
    (fake,) = compiled.call_args.args[1]
    assert fake.fake_mode is taken.fake_mode


@pytest.fixture(scope="module")
def evaluator() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=replace(FAST, allow_torch=AllowTorch.ALL)) as shared:
        yield shared


# Torch advises to use it where it finds a GPU, here a pretended one.
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_sizes_are_numbers_also_where_indices_have_64_bits(tmp_path: Path) -> None:
    """A result of 2^31 elements, which no test computes."""
    source = SOURCE.format(
        modules="self.conv = nn.Conv2d(64, 128, 1)",
        forward="return self.conv(x)",
        inputs="torch.randn(16, 64, 1024, 1024)",
    )
    problem = TorchProblem(id="level1/1_994", name="994_Large", source=source)
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "    M = 128\n    N = 1048576\n    K = 64\n" in kernel.source and "tl.int64" in kernel.source
    assert "(triton.cdiv(128, BLOCK_M_0) * triton.cdiv(1048576, BLOCK_N_0), 16, 1)" in kernel.source


@pytest.mark.parametrize("case", CASES)
def test_the_file_is_correct_and_complete(evaluator: LocalEvaluator, tmp_path: Path, case: str) -> None:
    problem = problem_of(case)
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "_inductor" not in kernel.source and "triton_heuristics" not in kernel.source
    assert find_violation(kernel.source, kernel, AllowTorch.NONE) is None, kernel.source
    space = kernel.space(kernel.declared_values, kernel.declared_constraints)
    assert Config(kernel.config) in space
    (found,) = evaluator.evaluate(problem, kernel, [Config()])
    assert found.ok, f"{found.message}\n{kernel.source}"


def test_every_config_of_the_space_is_correct(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    problem = problem_of("product")
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    space = kernel.space(kernel.declared_values, kernel.declared_constraints)
    assert {config["BLOCK_K_0"] for config in space} == {16}, "the template has no mask along 16 features"
    assert {config["PRECISION"] for config in space} == set(PRECISIONS)
    assert all(config["BLOCK_M_0"] * config["BLOCK_N_0"] <= config["NUM_WARPS_0"] * 32 * 128 for config in space)
    far = max(space, key=lambda config: config["BLOCK_M_0"] * config["BLOCK_N_0"])
    (found,) = evaluator.evaluate(problem, kernel, [far])
    assert found.ok, found.message


def test_a_long_sum_is_computed_in_parts(
    evaluator: LocalEvaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_sums, "LONGEST", 48)
    monkeypatch.setattr(long_sums, "PART", 32)
    source = SOURCE.format(modules="pass", forward="return x @ x.t()", inputs="torch.randn(16, 96)")
    problem = TorchProblem(id="level1/1_995", name="995_Case", source=source)
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "torch.empty_strided((3, 16, 16)" in kernel.source
    (found,) = evaluator.evaluate(problem, kernel, [Config()])
    assert found.ok, f"{found.message}\n{kernel.source}"


def test_no_program_is_for_channels_of_another_group(tmp_path: Path) -> None:
    problem = problem_of("grouped convolution")
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "triton.cdiv(32, BLOCK_N_0), 2)]" in kernel.source


def test_a_result_has_the_strides_of_the_references(tmp_path: Path) -> None:
    """Inductor pads those of 1024 and more where it may."""
    modules, forward, inputs = CASES["convolution"]
    source = SOURCE.format(modules=modules, forward=forward, inputs=inputs.replace(" 6, 6", " 35, 35"))
    problem = TorchProblem(id="level1/1_995", name="995_Case", source=source)
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "torch.empty_strided((1, 16, 33, 33), (17424, 1089, 33, 1)" in kernel.source


@pytest.mark.parametrize("rows", [100, 65535 * 32, 65536 * 32, 10_000_000])
def test_rows_beyond_a_grids_second_dimension_go_to_its_third(rows: int) -> None:
    tiles = {"XBLOCK": 64, "YBLOCK": 32}
    choices = {name: [value, 2 * value] for name, value in tiles.items()}
    kernel = GeneratedKernel(
        "triton_poi_fused_1", 1, "def triton_poi_fused_1(): ...", "Grid2DWithYZOverflow", tiles, choices, {}, 0, 0
    )
    written = re.sub(r"triton\.cdiv", "cdiv", kernel.launch(["buf0", "buf1", f"{rows}", "130"]))
    names = {"cdiv": lambda size, step: -(-size // step), "XBLOCK_1": 64, "YBLOCK_1": 32}
    x, y, z = eval(written[written.index("[") + 1 : written.index("](")], names)
    assert x == 3 and y <= 65535 and y * (z - 1) < -(-rows // 32) <= y * z


def test_weights_keep_their_names_and_unused_sizes_go(tmp_path: Path) -> None:
    problem = problem_of("product")
    kernel = first_kernel(problem, code_of(problem, tmp_path))
    assert "layers_0_weight = self.layers[0].weight" in kernel.source
    assert "rows" not in kernel.source and "get_inputs" not in kernel.source


def test_what_torch_leaves_to_its_library_is_said(tmp_path: Path) -> None:
    modules, forward, inputs = (
        "self.layer = nn.Linear(16, 16, bias=False, dtype=torch.float64)",
        "return self.layer(x)",
        "torch.randn(6, 16, dtype=torch.float64)",
    )
    source = SOURCE.format(modules=modules, forward=forward, inputs=inputs)
    problem = TorchProblem(id="level1/1_995", name="995_Case", source=source)
    with pytest.raises(UnsupportedCodeError, match=r"leaves all of it to its library \(mm\)"):
        first_kernel(problem, code_of(problem, tmp_path))
    mixed = replace(problem, source=source.replace("self.layer(x)", "torch.relu(self.layer(x))"))
    kernel: Kernel = first_kernel(mixed, code_of(mixed, tmp_path))
    assert "torch computes mm" in kernel.source.splitlines()[0]


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        ("nn.ConvTranspose2d(16, 16, 3, stride=2, bias=False)", "torch.randn(1, 16, 6, 6)"),
        ("nn.Conv2d(16, 16, 3, dilation=2, bias=False)", "torch.randn(1, 16, 6, 6)"),
    ],
)
def test_a_convolution_stays_the_librarys_with_the_layout_that_torch_compile_chooses(
    tmp_path: Path, module: str, inputs: str
) -> None:
    """Operands are copied to channels last, also where there are few channels, for which training graphs are not."""
    problem = library_problem(module, inputs)
    kernel: Kernel = first_kernel(problem, code_of(problem, tmp_path, Lowering.LIBRARY))
    assert "3 Triton kernels," in kernel.source and "torch computes convolution" in kernel.source.splitlines()[0]
    assert "(576, 1, 96, 16)" in kernel.source, "the strides of a copy"
    as_given: Kernel = first_kernel(problem, code_of(problem, tmp_path, Lowering.LIBRARY_AS_GIVEN))
    assert "1 Triton kernel," in as_given.source and "(576, 1, 96, 16)" not in as_given.source


def test_a_convolution_without_a_kernel_beside_it_is_generated_as_without_the_library(tmp_path: Path) -> None:
    beside = library_problem("nn.Conv1d(16, 16, 3, bias=False)", "torch.randn(1, 16, 6)")
    kernel: Kernel = first_kernel(beside, code_of(beside, tmp_path, Lowering.LIBRARY))
    assert "1 Triton kernel," in kernel.source and "torch computes convolution" in kernel.source.splitlines()[0]
    alone = replace(beside, source=beside.source.replace("torch.relu(self.conv(x))", "self.conv(x)"))
    code = code_of(alone, tmp_path, Lowering.LIBRARY)
    assert code == code_of(alone, tmp_path)
    assert "torch computes" not in first_kernel(alone, code).source


def test_convolutions_of_one_tap_are_products_beside_the_library_too_unless_it_computes_another(tmp_path: Path) -> None:
    alone = library_problem("nn.Conv2d(16, 32, 1)", "torch.randn(2, 16, 8, 9)")
    code = code_of(alone, tmp_path, Lowering.LIBRARY)
    assert code == code_of(alone, tmp_path) and "convolution.default" not in code.source
    both = library_problem("nn.Sequential(nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 3))", "torch.randn(2, 16, 8, 9)")
    kernel: Kernel = first_kernel(both, code_of(both, tmp_path, Lowering.LIBRARY_AS_GIVEN))
    assert kernel.source.count("torch.ops.aten.convolution.default(") == 2


ATTENTION = """
q, k, v = (t.view(2, 8, 2, 32).transpose(1, 2) for t in self.layer(x).chunk(3, -1))
        y = torch.ops.aten._scaled_dot_product_flash_attention.default(torch.sin(q), k, v, 0.0, True)[0]
        return y.transpose(1, 2).reshape(2, 8, 64) + x
"""


def test_code_as_torch_compile_runs_it_has_its_calls_of_the_library(tmp_path: Path) -> None:
    source = SOURCE.format(
        modules="self.layer = nn.Linear(64, 192)", forward=ATTENTION.strip(), inputs="torch.randn(2, 8, 64)"
    )
    problem = TorchProblem(id="own", name="own", source=source)
    code = code_of(problem, tmp_path, Lowering.AS_COMPILED)
    kernel = first_kernel(problem, code)
    header = kernel.source.splitlines()[0]
    assert header.endswith("torch computes addmm, _scaled_dot_product_flash_attention.")
    assert "2 Triton kernels" in header and kernel.declared_values
    plain = problem_of("pointwise")
    assert "torch computes" not in first_kernel(plain, code_of(plain, tmp_path, Lowering.AS_COMPILED)).source


def test_a_call_of_the_library_alone_is_a_start_only_where_the_library_is_allowed(tmp_path: Path) -> None:
    source = SOURCE.format(
        modules="self.layer = nn.Linear(16, 32, bias=False)",
        forward="return self.layer(x)",
        inputs="torch.randn(8, 16)",
    )
    problem = TorchProblem(id="own", name="own", source=source)
    code = code_of(problem, tmp_path, Lowering.AS_COMPILED)
    with pytest.raises(UnsupportedCodeError, match=r"leaves all of it to its library \(mm\)"):
        first_kernel(problem, code)
    kernel = first_kernel(problem, code, library=True)
    assert kernel.source.startswith('"""own: torch computes mm.') and "torch.mm(" in kernel.source


def library_problem(module: str, inputs: str) -> TorchProblem:
    source = SOURCE.format(modules=f"self.conv = {module}", forward="return torch.relu(self.conv(x))", inputs=inputs)
    return TorchProblem(id="level1/1_995", name="995_Case", source=source)


def test_the_line_that_looks_at_values_is_named(evaluator: LocalEvaluator) -> None:
    source = SOURCE.format(modules="pass", forward="return x if float(x.sum()) > 0 else -x", inputs="torch.randn(4)")
    why = evaluator.generated_code(TorchProblem(id="level1/1_995", name="995_Case", source=source))
    assert isinstance(why, str) and why.startswith("its Python asks for a value of a tensor")
    assert "line 15 of the reference: return x if float(x.sum()) > 0 else -x" in why
