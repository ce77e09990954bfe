"""Bad input gets one line that says what to do, exit code 2, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.cli.main import app
from typer.testing import CliRunner

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from .commands import SCALE, kernelwright, process, refused, refused_here


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give one of --kernel REF, --problem FILE, --list-slow, --batch FILE or --recorded DIR"),
        (("--kernel", "2_10", "--list-slow"), "give one of"),
        (("--kernel", "level2/2_11.py", "--device", "cpu"), "the nearest are level2/2_"),
        (("--kernel", "convtranspose", "--device", "cpu"), "the nearest are 61_ConvTranspose3d_ReLU_GroupNorm, 10_"),
        (("--kernel", "no/such/file.py", "--device", "cpu"), "no/such/file.py: no such file; `kernelwright list`"),
        (("--kernel", "x" * 300, "--device", "cpu"), "no tilelang_cpu kernel"),
        (("--kernel", "2_10", "--device", "tpu"), "use cpu, cuda, cuda:N or auto"),
        (("--kernel", "2_10", "--device", "cuda:99"), "use --device cpu"),
        (("--kernel", "2_10", "--device", "cpu", "--backend", "triton"), "can be checked on a CPU but not timed"),
        (("--kernel", "2_10", "--device", "cpu", "--backend", "tilelang"), "is a CUDA kernel"),
        (("--kernel", "2_10", "--target-speedup", "-1"), "--target-speedup must be above 0"),
        (("--kernel", "2_10", "--target-speedup", "nan"), "--target-speedup must be above 0 and finite, not nan"),
        (("--kernel", "2_10", "--target-speedup", "inf"), "--target-speedup must be above 0 and finite, not inf"),
        (("--kernel", "2_10", "--max-iterations", "0"), "--max-iterations must be above 0"),
        (("--kernel", "2_10", "--min-improvement", "-0.1"), "it is a share such as 0.05"),
        (("--list-slow", "--threshold", "0"), "--threshold must be above 0"),
        (("--kernel", "2_10", "--quiet", "--verbose"), "exclude each other"),
        (("--kernel", "2_10", "--format", "csv"), "--format belongs to --list-slow"),
        (("--kernel", "2_10", "--again"), "--again belongs to --list-slow"),
        (("--kernel", "2_10", "--folder", "."), "--folder belongs to --list-slow"),
        (("--kernel", "2_10", "--model", "openai"), "replay:FILE"),
        (("--kernel", "2_10", "--model", "openai/"), "openai/o3"),
        (("--kernel", "2_10", "--model", "replay:"), "names no path"),
        (("--kernel", "2_10", "--model", "replay:nofile"), "there is no file nofile"),
        (("--kernel", "2_10", "--model", "files:"), "names no path"),
        (("--kernel", "2_10", "--analysis-model", "o3"), "is not a model"),
        (("--kernel", "2_10", "--temperature", "0.7"), "for language models"),
        (("--kernel", "2_10", "--temperature", "3", "--model", "openai/o3"), "from 0 to 2"),
        (("--kernel", "2_10", "--rag-k", "3"), "for language models"),
        (("--kernel", "2_10", "--rag-k", "-1"), "from 0 to 20"),
        (("--kernel", "2_10", "--program", "p.json", "--model", "rules"), "for language models"),
        (("--kernel", "2_10", "--no-wait"), "for language models"),
        (("--kernel", "2_10", "--max-tokens", "0"), "leave it out for no limit"),
        (("--kernel", "2_10", "--max-cost", "0"), "leave it out for no limit"),
        (("--kernel", "2_10", "--time-limit", "0"), "leave it out for no limit"),
        (("--kernel", "2_10", "--beam", "0"), "from 1 to 16"),
        (("--kernel", "2_10", "--gpu", "H100"), "--gpu H100 is for --evaluator modal"),
        (("--kernel", "2_10", "--device", "cpu", "--gpu", "V100"), "on a CPU launchers can see T4, A10"),
        (("--list-slow", "--evaluator", "ray"), "--list-slow measures on this machine"),
        (("--kernel", "2_10", "--device", "cpu", "--workload", "huge"), "it has default, cpu, tiny"),
        (("--kernel", "2_10", "--device", "cpu", "--workload", "breadth=3"), "has no constant breadth"),
        (("--kernel", "2_10", "--device", "cpu", "--dataset", "nowhere"), "cannot read dataset nowhere"),
        (("--kernel", "2_10", "--device", "cpu", "--dataset", "."), "holds no folders level1"),
        (("--batch", "nowhere.txt"), "cannot read --batch nowhere.txt"),
        (("--batch", "-"), "names no kernels"),
    ],
)
def test_impossible_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused_here(CliRunner().invoke(app, ["optimize", *arguments]))
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_kernel_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SCALE_KERNEL.replace("ModelNew", "Model"))
    said = refused(kernelwright("evaluate", "--kernel", "model.py", "--device", "cpu", cwd=tmp_path))
    assert "model.py has a class Model and no ModelNew" in said
    assert "call the class of a kernel ModelNew and name its problem with --problem" in said
    said = refused(kernelwright("evaluate", "--kernel", "missing.py", "--device", "cpu", cwd=tmp_path))
    assert "missing.py: no such file" in said


@pytest.mark.parametrize("command", [("evaluate",), ("optimize",), ("profile",), ("plan",), ("tune", "kernel")])
def test_a_kernel_is_an_argument_or_a_flag(tmp_path: Path, command: tuple[str, ...]) -> None:
    options = ("--device", "cpu", "--dry-run", "--json")
    argument = kernelwright(*command, "1_19", *options, cwd=tmp_path)
    flag = kernelwright(*command, "--kernel", "1_19", *options, cwd=tmp_path)
    assert argument.returncode == 0 and argument.stdout == flag.stdout, argument.stderr + flag.stderr
    said = refused(kernelwright(*command, "1_19", "--kernel", "2_10", *options, cwd=tmp_path))
    assert said == "error: '1_19' and --kernel '2_10' exclude each other"
    assert "nope.py: no such file" in refused(kernelwright("evaluate", "nope.py", *options, cwd=tmp_path))


@pytest.mark.parametrize("command", [("profile",), ("plan",), ("tune", "kernel")])
def test_a_kernel_is_asked_for(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "there is no kernel; name one, such as 1_19" in refused(kernelwright(*command, cwd=tmp_path))


def test_an_argument_counts_more_than_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_EVALUATE_KERNEL", "2_10")
    options = ("--device", "cpu", "--dry-run")
    assert "level2/2_10" in kernelwright("evaluate", *options, cwd=tmp_path).stdout
    assert "level1/1_19" in kernelwright("evaluate", "1_19", *options, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [("1e309", "1e309 is too large: the largest number is 1.8e+308"), ("fast", "'fast' is not a number")],
)
def test_a_number_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    run = process("optimize", "1_19", "--target-speedup", text, cwd=tmp_path)
    assert f"error: invalid value for '--target-speedup': {says}; see" in refused(run)


def test_k_is_a_size_of_a_product_alone(tmp_path: Path) -> None:
    run = process("evaluate", "-k", "1_19", cwd=tmp_path)
    assert "no such option: -k (a kernel needs no flag); see `kernelwright evaluate --help`" in refused(run)


@pytest.mark.parametrize("value", ["--max-iterations=many", "--backend=cobol", "--no-such-option"])
def test_options_that_do_not_parse(tmp_path: Path, value: str) -> None:
    run = kernelwright("optimize", "--kernel", "2_10", value, cwd=tmp_path)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (SCALE_KERNEL.replace("class ModelNew", "class Other"), "defines no class ModelNew"),
        (SCALE_KERNEL.replace("def build(", "def build(("), "is not valid Python"),
        ("\x00\x01", "is not valid Python"),
    ],
)
def test_a_file_that_is_no_kernel(tmp_path: Path, source: str, says: str) -> None:
    (tmp_path / "1_19.py").write_text(source)
    assert says in refused(kernelwright("optimize", "--kernel", "1_19.py", "--device", "cpu", cwd=tmp_path))


def test_a_mistake_in_a_declaration_is_reported_before_any_work(
    kernel_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kernel_file.parent)
    kernel_file.write_text(SCALE_KERNEL.replace("[4, 8, 16]", "[4, 4]"))
    run = CliRunner().invoke(app, ["optimize", "--kernel", str(kernel_file), *SCALE])
    assert "parameter BLOCK names a value twice" in refused_here(run)
    assert not list((kernel_file.parent / "results").rglob("journal*"))


@pytest.mark.parametrize("lacking", ["def get_inputs", "def get_init_inputs", "class Model"])
def test_a_problem_that_lacks_something(kernel_file: Path, lacking: str) -> None:
    problem = kernel_file.parent / "broken.py"
    problem.write_text(SCALE_PROBLEM.replace(lacking, lacking + "_gone"))
    run = kernelwright(
        "optimize", "--kernel", str(kernel_file), "--problem", str(problem), "--device", "cpu", cwd=kernel_file.parent
    )
    assert "lacks" in refused(run)


def test_a_problem_whose_reference_fails(kernel_file: Path) -> None:
    problem = kernel_file.parent / "broken.py"
    problem.write_text(SCALE_PROBLEM.replace("return x * self.weight", "raise ValueError('broken')"))
    command = ("optimize", "--kernel", kernel_file, "--problem", problem, "--device", "cpu", "--sandbox", "none")
    run = kernelwright(*command, cwd=kernel_file.parent)
    assert run.returncode == 2
    assert "error: the reference of broken fails: ValueError: broken" in run.stderr


def test_a_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file is in the way")
    run = kernelwright("optimize", "--kernel", "1_19", "--device", "cpu", cwd=tmp_path)
    assert "choose another one with --results" in refused(run)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk_is_one_line(kernel_file: Path) -> None:
    """A file size limit stands in for the full disk; the journal keeps what was written before."""
    folder = kernel_file.parent
    program = (
        "import resource, signal, sys; del sys.argv[0]; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY)); "
        "import runpy; runpy.run_module('kernelwright', run_name='__main__', alter_sys=True)"
    )
    run = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            program,
            "kernelwright",
            "optimize",
            "--kernel",
            str(kernel_file),
            *SCALE,
            "--quiet",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert "make room or choose another folder" in run.stderr
    assert "Traceback" not in run.stderr


def test_help_is_there_for_every_command(tmp_path: Path) -> None:
    for arguments in (["--help"], ["optimize", "--help"], ["evaluate", "--help"]):
        assert "Usage" in kernelwright(*arguments, cwd=tmp_path).stdout


def test_the_package_is_the_command(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-m", "kernelwright", "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0 and "Usage" in run.stdout


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from kernelwright.cli import main; "
        "print(sorted({'torch', 'tilelang', 'triton', 'libcst', 'black', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_servers_start_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    """They import torch for seconds, beside which a command imports the rest."""
    program = (
        "import subprocess, sys\n"
        "real = subprocess.Popen.__init__\n"
        "def start(self, command, *given, **named):\n"
        "    if not any(part.endswith('_server') for part in command):\n"
        "        return real(self, command, *given, **named)\n"
        "    heavy = {'torch', 'triton', 'tilelang', 'libcst', 'numpy', 'pycparser'} & set(sys.modules)\n"
        "    sys.exit(f'heavy: {sorted(heavy)}')\n"
        "subprocess.Popen.__init__ = start\n"
        "import kernelwright\n"
        "kernelwright.optimize('1_94', model='rules', device='cpu', archive=False)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stderr.splitlines()[-1:] == ["heavy: []"], run.stderr
