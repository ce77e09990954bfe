"""What changed in a kernel file comes back into the files that it was made of."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import black
import pytest
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.rules import RULES, Machine
from kernelwright.core import Config, KernelError, PythonKernel
from kernelwright.corpus.functions.patch import write_patch
from kernelwright.corpus.functions.putting_back import merged as merged_text
from kernelwright.corpus.functions.putting_back import put_back
from kernelwright.corpus.functions.translation import UserFunction, translate
from kernelwright.corpus.functions.triton_cache import workload_keys
from kernelwright.runtime.write_result import select_autotune_configs, untried
from kernelwright.testing import attempted

from ...core.test_workload_rows import merged, timed
from ...user_packages import LINEAR, RMS_NORM, SCALED_MM, SWIGLU, TRITON, UserPackage, apply, run_tests


def changed(function: UserFunction, *changes: tuple[str, str]) -> PythonKernel:
    source = function.kernel.source
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    return replace(function.kernel, source=black.format_str(source, mode=black.Mode(line_length=80)))


CHANGES = {
    "rownorm": [("1.0 / tl.sqrt(squares / N + eps)", "tl.rsqrt(squares / N + eps)")],
    "gatedmlp": [("y = silu(gate) * up", "y = up * silu(gate)")],
    "scaledmm": [
        ("* a_scale[:, None] * b_scale[None, :]", "* (a_scale[:, None] * b_scale[None, :])"),
        ("    c = torch.empty((M, N)", "    c = torch.empty(math.prod((M, N)), dtype=KIND).view((M, N)"),
        (", device=a.device, dtype=dtype)\n\n    def", ").to(dtype)\n\n    def"),
        ("logger = ", "DEFAULT = torch.float32\nKIND = DEFAULT\n\nlogger = "),
        ("import logging\n", "import logging\nimport math\n"),
    ],
}


def test_patches_apply_and_the_packages_own_tests_pass(tmp_path: Path) -> None:
    """Changed kernels, helpers of other modules, launchers with imports of their own, new constants and imports."""
    folders = [package.copied(tmp_path) for package in TRITON]
    for package, folder in zip(TRITON, folders, strict=True):
        function = package.translated(folder)
        configs = function.kernel.declared_configs[-1:]  # the interpreter has no clock to choose among several
        kernel = changed(function, *CHANGES[package.name]).bind(configs[0])
        patch = tmp_path / "out.diff"
        files = write_patch(patch, function, kernel, configs)
        assert all(text != path.read_text() for path, text in files.items())
        assert (run := apply(patch, folder)).returncode == 0, run.stderr
        assert all(text == path.read_text() for path, text in files.items())
    assert "import math\n" in (folders[2] / "scaledmm" / "api.py").read_text()
    assert "from .kernels.product import scaled_mm_kernel\n" in (folders[2] / "scaledmm" / "api.py").read_text()
    text = (folders[2] / "scaledmm" / "kernels" / "product.py").read_text()
    assert text.count("triton.Config(") == 2  # the appended one of the user's stands where it was
    run = run_tests(*folders)
    assert run.returncode == 0, run.stdout


def test_one_config_is_a_list_of_one_and_untouched_code_stays_as_it_was() -> None:
    function = SWIGLU.translated()
    best = function.kernel.declared_configs[1]
    (path,) = files = put_back(function, function.kernel.bind(best), [best])
    before, after = path.read_text().splitlines(), files[path].splitlines()
    assert [line for line in after if line not in before] == [
        '    configs=[triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=4)],'
    ]


def test_several_configs_are_a_list_in_place_of_a_name() -> None:
    function = SCALED_MM.translated()
    first, *_, last = function.kernel.declared_configs
    (text,) = put_back(function, function.kernel.bind(last), [last, first]).values()
    assert text.count("        triton.Config({") == 2
    assert "configs=CONFIGS" not in text
    ast.parse(text)


def test_a_constant_of_the_users_own() -> None:
    function = LINEAR.translated()
    (text,) = put_back(function, function.kernel.bind({"BLOCK_N": 8}), []).values()
    assert "BLOCK_N = 8\n" in text
    assert put_back(function, function.kernel, []) == {}


def test_what_rules_write_comes_back_with_its_helpers(tmp_path: Path) -> None:
    folder = LINEAR.copied(tmp_path)
    function = LINEAR.translated(folder)
    written = {}
    for rule in RULES:
        rewritten = attempted(rule, function.kernel, Machine(cores=2))
        if rewritten is not None:
            files = write_patch(tmp_path / "out.diff", function, formatted(rewritten.kernel), [])
            written[rule.name] = files[function.target.path]
    assert {"split-grid", "register-tile", "unroll-and-jam"} <= set(written)
    split = ast.parse(written["split-grid"])
    names = [statement.name for statement in split.body if isinstance(statement, ast.FunctionDef)]
    assert names == ["over_threads", "build", "linear_relu", "linear_relu_torch", "inputs"]
    assert {"import torch", "from concurrent.futures import ThreadPoolExecutor"} <= {
        ast.unparse(item) for item in split.body
    }


def test_another_call_of_the_function_has_no_place_in_its_file() -> None:
    function = LINEAR.translated()
    kernel = changed(function, ("called(linear_relu, arguments)", "called(linear_relu, arguments[::-1])"))
    with pytest.raises(KernelError, match="changed how linear_relu is called, which a patch cannot express"):
        put_back(function, kernel, [])


def test_statements_that_did_not_change_keep_their_form() -> None:
    """Whoever writes the text anew formats it; of a function only the statements that changed are new."""
    before = "# head\nA = [1,\n     2]  # two\n\ndef f( x ):\n    # why\n    y = x+1   # odd\n    return y\n\nB=3\n"
    after = "A = [1, 2]\n\n\ndef f(x):\n    y = x + 1\n    return 2 * y\n\n\nB = 3\n"
    assert merged_text(before, after) == before.replace("return y", "return 2 * y")
    assert merged_text(before, after.replace("2 * y", "y")) == before
    assert "C = 4\n" in merged_text(before, after + "C = 4\n")
    assert merged_text("A = 1; B = 2\n", "A = 1\nB = 3\n") == "A = 1\nB = 3\n"
    assert "B=3" not in merged_text(before, after.replace("B = 3\n", ""))


def test_types_that_were_texts_in_the_kernel_are_types_again(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("N: int = 2\n")
    path = tmp_path / "ops.py"
    path.write_text(
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport triton\nfrom sizes import N\n"
        "if TYPE_CHECKING:\n    from collections.abc import Sequence\n"
        "def f(x, sizes: Sequence[int] | None = None):\n    return x + triton.cdiv(N, 2)\n"
        "def inputs(seed):\n    return [1]\n"
    )
    function = translate(f"{path}::f", f"{path}::f", f"{path}::inputs")
    kernel = changed(function, ("return x + triton.cdiv(N, 2)", "return triton.cdiv(N, 2) + x"))
    before = path.read_text()
    assert put_back(function, kernel, []) == {path: before.replace("x + triton.cdiv(N, 2)", "triton.cdiv(N, 2) + x")}


def test_a_file_that_changed_meanwhile_is_named(tmp_path: Path) -> None:
    folder = RMS_NORM.copied(tmp_path)
    function = RMS_NORM.translated(folder)
    path = folder / "rownorm" / "utils" / "math.py"
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(KernelError, match=r"math\.py changed while the kernel was optimized"):
        write_patch(tmp_path / "out.diff", function, function.kernel.bind({"BLOCK": 512}), [])
    assert not (tmp_path / "out.diff").exists()


@pytest.mark.parametrize("package", [LINEAR, SCALED_MM], ids=lambda package: package.name)
def test_files_without_a_newline_at_their_end(tmp_path: Path, package: UserPackage) -> None:
    folder = package.copied(tmp_path)
    for path in folder.rglob("*.py"):
        path.write_text(path.read_text().rstrip("\n"))
    function = package.translated(folder)
    name, value = next(iter(function.kernel.config.items()))
    kernel = function.kernel.bind({name: 2 * int(value)})
    assert write_patch(tmp_path / "out.diff", function, kernel, [Config(kernel.config)])
    assert apply(tmp_path / "out.diff", folder).returncode == 0


def test_files_with_windows_ends_of_lines_keep_them(tmp_path: Path) -> None:
    folder = RMS_NORM.copied(tmp_path)
    for path in folder.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    function = RMS_NORM.translated(folder)
    kernel = changed(function, *CHANGES["rownorm"]).bind({"BLOCK": 512})
    files = write_patch(tmp_path / "out.diff", function, kernel, [Config(kernel.config)])
    assert (run := apply(tmp_path / "out.diff", folder)).returncode == 0, run.stderr
    after = b"".join(path.read_bytes() for path in files)
    assert b"tl.rsqrt(" in after and after.count(b"\n") == after.count(b"\r\n")


def test_a_config_for_a_workload_only_where_it_is_faster_there_and_the_key_tells_it_apart() -> None:
    apart, same = {"few": "1", "many": "2"}, {"few": "1", "many": "1"}
    best = merged({"few": timed(1.0, block=4), "many": timed(4.0, block=4)})
    noise = merged({"few": timed(0.99, block=8), "many": timed(9.0, block=8)})
    assert select_autotune_configs(best, [best, noise], apart) == [Config({"BLOCK": 4})]
    faster = merged({"few": timed(0.9, block=16), "many": timed(9.0, block=16)})
    assert select_autotune_configs(best, [best, noise, faster], apart) == [Config({"BLOCK": 4}), Config({"BLOCK": 16})]
    assert select_autotune_configs(best, [best, noise, faster], same) == [Config({"BLOCK": 4})]


def test_configs_of_the_users_own_that_were_not_measured_stay() -> None:
    function = SWIGLU.translated()
    first, second, third = declared = function.kernel.declared_configs
    measured = [timed(1.0).model_copy(update={"config": dict(config)}) for config in (third, {})]
    assert untried(declared, measured) == [first, second]
    (text,) = put_back(function, function.kernel.bind({"BLOCK_M": 32}), [Config({"BLOCK_M": 32}), third]).values()
    assert text.count("triton.Config(") == 2
    assert put_back(function, function.kernel, [first, *untried(declared, [])]) == {}  # the list as it was


def test_keys_tell_workloads_apart_by_the_arguments_of_launches() -> None:
    """The key of the norm has the length of a row, not how many there are."""
    function = RMS_NORM.translated()
    keys = workload_keys(function, function.problem)
    assert list(keys) == ["M=4", "M=32"]
    assert len(set(keys.values())) == 1
