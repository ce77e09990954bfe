"""`tune decoding`: the whole flow on a GPU that is made up, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.cli.main import app
from kernelwright.core import Evaluation, Kernel, Measurement, Problem, ProblemError, PythonKernel, TorchProblem
from kernelwright.runtime import devices
from kernelwright.tuners.gemm.device import H200_LIMITS
from typer.testing import CliRunner

from .commands import kernelwright, refused
from .made_up import MadeUp, install

SIZES = ("--num-heads", "8", "--num-kv-heads", "2", "--seq-len-k", "16384", "--sandbox", "none")


class Libraries(MadeUp):
    """Times the kernel by its parts, cuDNN at 3 ms, the memory-efficient backend at 1.5, and has no FlashAttention."""

    def __init__(self) -> None:
        super().__init__(lambda config: 1 + abs(int(config["SPLITS"]) - 40) / 100)
        self.references: list[str] = []

    def compare(self, problem: Problem, kernel: Kernel, configs: Any) -> list[Evaluation]:
        source = TorchProblem.of(problem).source
        found = super().compare(problem, kernel, configs)
        if "FLASH" in source:
            raise ProblemError("the reference fails: no kernel")
        if "sdpa_kernel" not in source:
            return found
        cudnn = "CUDNN" in source
        self.references.append("cudnn" if cudnn else "efficient")
        reference = Measurement(samples_ms=(3.0 if cudnn else 1.5,) * 3)
        return [item.model_copy(update={"reference": reference}) for item in found]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Libraries:
    gpu = SimpleNamespace(count=lambda: 1, name=lambda _: "NVIDIA H200", limits=lambda _: H200_LIMITS)
    monkeypatch.setattr(devices, "present", lambda: gpu)
    monkeypatch.chdir(tmp_path)
    found = Libraries()
    install(found, monkeypatch)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["tune", "decoding", *SIZES, *arguments])


def test_the_whole_flow(made_up: Libraries) -> None:
    done = run("--trials", "20", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    start = made_up.measured[0]
    assert int(start["SPLITS"]) >= 64, "two tiles for 132 multiprocessors"
    assert made_up.created["start"] == [start]
    assert found["problem"] == "attention/decoding" and found["trials"] == 20
    assert abs(found["best"]["config"]["SPLITS"] - 40) < abs(int(start["SPLITS"]) - 40)
    best = found["best"]["latency_ms"]
    assert made_up.references == ["cudnn", "efficient"]
    assert found["times_sdpa"] == pytest.approx({"cudnn": 3 / best, "efficient": 1.5 / best})
    assert found["times_best_sdpa"] == pytest.approx(1.5 / best)
    assert "not compared with SDPA's FlashAttention backend: the reference fails: no kernel" in done.stderr
    kernel = PythonKernel.parse(Path(found["kernel"]).read_text())
    assert kernel.config["SPLITS"] == found["best"]["config"]["SPLITS"]
    (summary,) = Path("results").rglob("summary.json")
    assert json.loads(summary.read_text()) == found


def test_the_start_is_written_where_nothing_is_faster(made_up: Libraries) -> None:
    made_up.answer = lambda config: 1.0
    done = run("--trials", "3")
    assert done.exit_code == 3, done.output
    assert "3.000 times as fast as SDPA's cuDNN backend" in done.stdout
    (path,) = Path("results").rglob("decoding_tuned.py")
    assert PythonKernel.parse(path.read_text()).config.items() >= made_up.measured[0].items()


def test_where_no_config_is_correct_nothing_is_compared(made_up: Libraries) -> None:
    made_up.answer = lambda config: "wrong_result"
    done = run("--trials", "3")
    assert done.exit_code == 1 and made_up.references == []
    assert not list(Path("results").rglob("decoding_tuned*"))


def test_a_search_resumes(made_up: Libraries) -> None:
    assert run("--trials", "5").exit_code in (0, 3)
    done = run("--trials", "6", "--resume", "--json")
    assert json.loads(done.stdout)["recalled"] == 5 and len(made_up.measured) == 6


def test_the_sizes_are_the_problems(made_up: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TorchProblem] = []
    compare = made_up.compare
    monkeypatch.setattr(made_up, "compare", lambda problem, *rest: seen.append(problem) or compare(problem, *rest))
    run("--trials", "1", "--seq-len-q", "2", "--dtype", "float16", "--batch-size", "3")
    expected = {"batch_size": 3, "heads": 8, "kv_heads": 2, "seq_len_q": 2, "seq_len_k": 16384, "head_dim": 128}
    assert seen and all(problem.sizes == {**expected, "head_dim_kv": 128, "dtype": "float16"} for problem in seen)


@pytest.mark.usefixtures("made_up")
def test_a_dry_run_shows_the_search_and_its_start() -> None:
    shown = json.loads(run("--dry-run", "--json").stdout)
    assert shown["start"].keys() == {"BLOCK_N", "SPLITS", "NUM_WARPS", "NUM_STAGES"}
    assert "attention/decoding" in shown["job"] and shown["folder"].startswith("results/tuning/attention/decoding")
    assert not list(Path().iterdir())


def test_without_a_gpu_it_is_one_line(tmp_path: Path) -> None:
    line = refused(kernelwright("tune", "decoding", "--device", "cpu", cwd=tmp_path))
    assert "decoding is timed on a GPU, and there is none; 'kernelwright evaluate attention/decoding" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.gpu
def test_a_search_on_a_gpu_is_compared_with_sdpa(tmp_path: Path) -> None:
    options = ("--seq-len-k", 16384, "--num-kv-heads", 8, "--trials", 3, "--json")
    done = kernelwright("tune", "decoding", *options, cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["times_sdpa"] and all(0.1 < times < 100 for times in found["times_sdpa"].values())
