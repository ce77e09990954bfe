"""Packages of deployed operators, built by the command and used without kernelwright."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..cli.commands import kernelwright, refused
from .results import TINY, linear, own_tests, python

ROOT = Path(__file__).parents[2]
(PAGE,) = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs" / "deploy.md").read_text(), re.MULTILINE | re.DOTALL)
"""The example of the page, which needs a package that is deployed."""
USED = """
import json, warnings
import mylib_linear as deployed

assert module.gemm.weight.grad is not None and output.shape == (32, 64)

torch.manual_seed(0)
x = torch.randn(32, 64)
module = deployed.module()
expected = torch.nn.functional.leaky_relu(module.gemm(x) * 2.0, 0.1)
compiled = torch.compile(module, fullgraph=True)
error = max(float((call(x) - expected).abs().max()) for call in (module, compiled))
compiled(x).sum().backward()
kept = dict(deployed.fallbacks())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    other = module(torch.randn(7, 64))
    module(torch.randn(7, 64))
print(json.dumps([
    [check.passed for check in deployed.verify()], error, list(module.state_dict()),
    module.gemm.weight.grad is not None, kept, deployed.fallbacks(), list(other.shape),
    [str(item.message) for item in caught],
]))
"""


TRACED = """
import torch, mylib_linear as deployed
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses.fake_tensor import FakeTensorMode

class Called(torch.nn.Module):
    def forward(self, *arguments):
        return (deployed.linear(*arguments),)

with FakeTensorMode():
    arguments = [torch.empty(*sizes, device="cuda") for sizes in ((16, 64), (64, 64), (64,))]
print("triton_kernel_wrapper" in aot_export_module(Called(), arguments, trace_joint=False)[0].code)
"""


@pytest.fixture(scope="module")
def linear_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    path = linear(folder, "linear.py", top="# SPDX-License-Identifier: MIT\n")
    run = kernelwright("deploy", path, "--name", "mylib::linear", "--output", "out", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["package"] == "mylib_linear" and found["operator"] == "mylib::linear"
    assert ["ok" in text for text in found["checks"]] == [True]
    return folder / "out"


def test_a_package_works_where_kernelwright_is_not(linear_package: Path) -> None:
    run = python(PAGE + USED, linear_package)
    assert run.returncode == 0, run.stderr
    passed, error, state, trained, kept, counted, shape, warned = json.loads(run.stdout.splitlines()[-1])
    assert passed == [True] and error < 1e-4 and trained
    assert state == ["gemm.weight", "gemm.bias"]
    assert kept == {} and counted == {"sizes": 2} and shape == [7, 64]
    assert len(warned) == 1 and "no kernel for these sizes (float32[7, 64], " in warned[0]


def test_its_files_say_what_it_is(linear_package: Path) -> None:
    table = json.loads((linear_package / "mylib_linear" / "table.json").read_text())
    (kernel,) = table["kernels"]
    assert kernel["arguments"] == [["float32", [32, 64]], ["float32", [64, 64]], ["float32", [64]]]
    assert kernel["sizes"] == TINY and kernel["measured"]["speedup_ratio"] == 1.5
    readme = (linear_package / "README.md").read_text()
    assert "mylib_linear.linear(x, gemm_weight, gemm_bias)" in readme and "Licence: MIT." in readme
    assert "| 0.5 | 0.75 | 1.5x [1.4, 1.6] | 1e-06 | a processor |" in readme
    assert 'license = "MIT"' in (linear_package / "pyproject.toml").read_text()
    for path in (linear_package / "mylib_linear").rglob("*.py"):
        assert "kernelwright" not in path.read_text(), path


def test_the_tests_of_a_package_pass(linear_package: Path) -> None:
    run = own_tests(linear_package)
    assert run.returncode == 0, run.stdout
    assert "7 passed, 1 skipped" in run.stdout  # the CUDA graph


def test_the_tests_of_a_package_find_a_wrong_kernel(linear_package: Path) -> None:
    path = linear_package / "mylib_linear" / "kernels" / "linear_0.py"
    right = path.read_text()
    try:
        path.write_text(right.replace("acc[i, j] + bias", "acc[i, j] - bias"))
        run = python("import mylib_linear; print([check.passed for check in mylib_linear.verify()])", linear_package)
    finally:
        path.write_text(right)
    assert run.stdout.splitlines()[-1] == "[False]", run.stderr


def test_a_wheel_builds_and_installs(linear_package: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for arguments in (
        ("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path, linear_package),
        ("install", "--no-deps", "--no-index", "--find-links", tmp_path, "--target", site, "mylib-linear"),
    ):
        subprocess.run(
            [sys.executable, "-m", "pip", *map(str, arguments)], check=True, capture_output=True, timeout=200
        )
    run = python("import mylib_linear; print(mylib_linear.__file__, mylib_linear.verify()[0].passed)", site)
    assert run.stdout.splitlines()[-1] == f"{site / 'mylib_linear' / '__init__.py'} True", run.stderr


def test_triton_kernels_of_two_sizes_serve_a_range(tmp_path: Path) -> None:
    """In Triton's interpreter, in place of a GPU."""
    small = linear(
        tmp_path, "small.py", "triton", "# Another one.\n", workload="batch_size=2", sizes={**TINY, "batch_size": 2}
    )
    large = linear(tmp_path, "large.py", "triton")
    run = kernelwright(
        *("deploy", large, small, "--name", "mylib::linear", "--output", "out"),
        *("--serve", "batch_size=1..48", "--json"),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    served = [text.partition(":")[0] for text in json.loads(run.stdout)["serves"]]
    assert served == ["1 <= batch_size <= 8", "9 <= batch_size <= 48"]
    table = json.loads((tmp_path / "out" / "mylib_linear" / "table.json").read_text())
    assert table["visible"] and table["kernels"][0]["arguments"][0] == ["float32", ["batch_size", 64]]
    traced = python(TRACED, tmp_path / "out")
    assert traced.stdout.splitlines()[-1] == "True", traced.stderr
    tried = own_tests(tmp_path / "out", TRITON_INTERPRET="1")
    assert tried.returncode == 0, tried.stdout
    assert "13 passed, 2 skipped" in tried.stdout


@pytest.mark.parametrize(
    ("evidence", "top", "message"),
    [
        ({"correctness": None}, "", "was not verified: its header has no 'Evaluation Result'"),
        ({"replayed": False}, "", "was not replayed"),
        ({"replayed": None}, "", "was not replayed"),
        ({"workload": None}, "", "its header has no workload as optimize writes it"),
        ({"sizes": [1, 2]}, "", "its header has no sizes as optimize writes it"),
        ({"latency_ms": "fast"}, "", "its header has no latency_ms as optimize writes it"),
        ({"speedup_ratio": True}, "", "its header has no speedup_ratio as optimize writes it"),
        ({"interval": "wide"}, "", "its header has no interval as optimize writes it"),
        ({"device": {"a set"}}, "", "was not verified"),
        ({}, "# Proprietary and confidential\n", "says 'Proprietary', so its licence forbids to deploy it"),
        ({}, "# Copyright 2026 A. All rights reserved.\n", "says 'All rights reserved'"),
    ],
)
def test_results_that_cannot_be_deployed(tmp_path: Path, evidence: dict[str, object], top: str, message: str) -> None:
    path = linear(tmp_path, "linear.py", top=top, **evidence)
    run = kernelwright("deploy", path, "--name", "mylib::linear", "--output", "out", cwd=tmp_path)
    assert message in refused(run) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--name", "linear", "--output", "out"), "--name 'linear' is not an operator's name; write mylib::swiglu"),
        (("--name", "mylib::verify", "--output", "out"), "every package has a verify already"),
        (("--name", "mylib::reference", "--output", "out"), "every package has a reference already"),
        (("--name", "mylib::linear"), "--output is missing"),
        (("--name", "mylib::linear", "--output", "."), "--output . exists already"),
        (("--name", "mylib::linear", "--output", "out", "--serve", "8..1"), "write tokens=1..8192"),
        (("--name", "mylib::linear", "--output", "out", "--serve", "rows=1..8"), "has no size rows; it has batch_size"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    run = kernelwright("deploy", linear(tmp_path, "linear.py"), *arguments, cwd=tmp_path)
    assert message in refused(run) and not (tmp_path / "out").exists()


def test_a_package_of_the_name_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mylib_linear.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    run = kernelwright(
        *("deploy", linear(tmp_path, "linear.py"), "--name", "mylib::linear", "--output", "out"), cwd=tmp_path
    )
    assert "a package mylib_linear is installed already" in refused(run)


def test_what_only_tracing_shows_leaves_no_folder(tmp_path: Path) -> None:
    """Each is found in a process of its own, and there is no folder afterwards, not even a part of one."""
    first, second = linear(tmp_path, "first.py"), linear(tmp_path, "second.py")
    wrong = linear(tmp_path, "wrong.py")
    wrong.write_text(wrong.read_text().replace("acc[i, j] + bias", "acc[i, j] - bias"))
    for results, name, message in (
        ((first, second), "mylib::linear", "serve the same sizes; deploy the faster one"),
        ((first,), "aten::relu", "torch has an operator aten::relu already"),
        ((wrong,), "mylib::linear", "mylib_linear is not deployed: linear_0 at"),
    ):
        run = kernelwright("deploy", *results, "--name", name, "--output", "out", cwd=tmp_path)
        assert run.returncode == 2 and message in run.stderr, run.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["first.py", "second.py", "wrong.py"]
