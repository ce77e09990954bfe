"""`tune mlir` as a user calls it."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from kernelwright.commands.tune import mlir as mlir
from kernelwright.commands.tune.mlir import Result as MlirResult
from kernelwright.evaluators.iree import evaluator
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sampling

from ..evaluators.iree.attacks import embedded, module_of
from ..tuners.mlir.modules import SEED, SEED_CFG
from .commands import kernelwright, refused

PRODUCT_OF_SEED = SEED[SEED.index("%3 = linalg") : SEED.index(" : !matrixC_type\n    }")]
CFG = SEED_CFG.replace("XGBoostTuner", "{tuner}").replace("= 16", "= {trials}")
PRODUCT = """
  %{name}e = tensor.empty() : tensor<{m}x{n}xf32>
  %{name}f = linalg.fill ins(%z : f32) outs(%{name}e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %{name} = linalg.matmul ins(%{a}, %{b} : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
                          outs(%{name}f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>"""
SEVERAL = f"""func.func @net(%x: tensor<32x64xf32>, %u: tensor<64x48xf32>, %v: tensor<48x64xf32>, %w: tensor<64x32xf32>,
    %image: tensor<1x10x10x8xf32>, %filter: tensor<3x3x8x16xf32>) -> (tensor<32x32xf32>, tensor<1x8x8x16xf32>) {{
  %z = arith.constant 0.0 : f32
{PRODUCT.format(name="p", a="x", b="u", m=32, n=48, k=64)}
{PRODUCT.format(name="q", a="p", b="v", m=32, n=64, k=48)}
{PRODUCT.format(name="r", a="q", b="w", m=32, n=32, k=64)}
  %ce = tensor.empty() : tensor<1x8x8x16xf32>
  %cf = linalg.fill ins(%z : f32) outs(%ce : tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %c = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
      ins(%image, %filter : tensor<1x10x10x8xf32>, tensor<3x3x8x16xf32>) outs(%cf : tensor<1x8x8x16xf32>)
      -> tensor<1x8x8x16xf32>
  return %r, %c : tensor<32x32xf32>, tensor<1x8x8x16xf32>
}}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Few samples, of which none says that something is faster, and one folder of compiled modules for all tests."""
    monkeypatch.setattr(MlirResult, "faster", property(lambda result: result.best is not None))
    few = Sampling(0.05, seconds=0.03, min_samples=6, max_samples=20, chunk_s=0.005, heeds_load=False)
    monkeypatch.setattr(mlir, "FINALS", few)
    monkeypatch.setattr(evaluator, "QUICK_ON_CPU", few)
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "iree"))


def workplace(folder: Path, tuner: str = "GridTuner", trials: int = 3) -> Path:
    (folder / "matmul.mlir").write_text(SEED)
    (folder / "auto-scheduler.cfg").write_text(CFG.format(tuner=tuner, trials=trials))
    return folder


def test_a_schedule_that_is_no_faster_leaves_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MlirResult, "faster", False)
    given = ("--config", "auto-scheduler.cfg", "--device", "cpu", "--json")
    run = kernelwright("tune", "mlir", *given, cwd=workplace(tmp_path, trials=1))
    found = json.loads(run.stdout)
    assert (run.returncode, found["faster"], found["module"], found["tuning_spec"]) == (3, False, None, None)
    assert found["best"] is not None and "it is not measurably faster than IREE's default" in run.stderr
    assert not list(tmp_path.rglob("best.mlir"))


def test_the_seeds_config_file_by_grid(tmp_path: Path) -> None:
    given = ("--config", "auto-scheduler.cfg", "--device", "cpu")
    run = kernelwright("tune", "mlir", *given, "--emit", "generated", "--save-cmds", cwd=workplace(tmp_path))
    assert run.returncode == 0, run.stderr
    assert "Step 1: Generate search space and transform the original IR\n=====" in run.stdout
    assert "\nStep 2: Search the space to get the best performance config\n=====" in run.stdout
    for line in ("[Compiling (profile)] iree-compile ", "OpKind        : matmul\n", "Verification  : SUCCESS\n",
                 "[Performance]: The best is tile_m=", "with gflops "):  # fmt: skip
        assert line in run.stdout
    assert "times IREE's default" in run.stdout and "matmul 1024x512x256 " in run.stdout.splitlines()[-4]
    name = "matmul_1024x512x256_f32t_f32t_f32t"
    modules = sorted((tmp_path / "generated" / "linalg" / "matmul" / name).glob("*.mlir"))
    assert len(modules) == 3 and modules[0].name.startswith("tilesize_")
    assert "compilation_info" in modules[0].read_text()
    printed = modules[0].with_name(f"{modules[0].stem}_cmd_stdout.txt").read_text()
    assert printed.startswith(f"iree-compile generated/linalg/matmul/{name}/{modules[0].name} -o ")
    rows = list(csv.DictReader((tmp_path / "matmul.csv").open()))
    assert len(rows) == 3 and {row["verification"] for row in rows} == {"SUCCESS"}
    folder = next((tmp_path / "results" / "mlir").iterdir())
    log = (folder / "run.log").read_text()
    assert log.startswith("[Date]: ") and "[Search Space Size]: " in log and "valid run: 3\n" in log
    assert (folder / "best.mlir").read_text().startswith("// ")
    summary = json.loads((folder / "summary.json").read_text())
    # The unedited module, built with the spec, is the code that was measured.
    assert summary["spec_gives_the_same_code"] and not summary["spec_fault"]
    assert summary["best"]["speedup"] > 0 and summary["trials"] == 3


def test_xgboost_and_a_run_that_goes_on(tmp_path: Path) -> None:
    command = ("tune", "mlir", "--config", "auto-scheduler.cfg", "--device", "cpu", "--json")
    first = kernelwright(*command, cwd=workplace(tmp_path, "XGBoostTuner", 2))
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert found["tuner"] == "xgboost" and found["trials"] == 2
    again = json.loads(kernelwright(*command, "--trials", 3, "--resume", cwd=tmp_path).stdout)
    assert again["operations"][0]["recalled"] == 2 and again["trials"] == 3
    log = next((tmp_path / "results" / "mlir").iterdir()) / "run.log"
    assert log.read_text().count("[Date]") == 2 and "[Resumed]" in log.read_text()


def test_three_products_and_a_convolution_are_scheduled_whole(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(SEVERAL)
    command = ("tune", "mlir", "net.mlir", "--device", "cpu", "--trials", 1, "--json")
    run = kernelwright(*command, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert "[Compiling" not in run.stderr and "\n[1/1] " in run.stderr, "a line for each trial"
    names = [operation["operation"] for operation in found["operations"]]
    assert names == ["matmul_0", "matmul_1", "matmul_2", "conv_2d_3"]
    assert all(operation["statuses"] == {"ok": 1} for operation in found["operations"])
    assert {name.rsplit("_", 2)[0] for name in found["best"]["config"]} == set(names)
    assert "combinations of finalists and the default module, interleaved" in run.stderr
    assert found["best"]["status"] == "ok" and not found["spec_fault"]
    again = kernelwright(*command, "--resume", cwd=tmp_path)
    assert json.loads(again.stdout)["best"] == found["best"] and "interleaved" not in again.stderr


def test_a_dry_run_writes_modules_and_runs_nothing(tmp_path: Path) -> None:
    command = ("tune", "mlir", "--config", "auto-scheduler.cfg", "--emit", "generated", "--dry-run")
    for device in ("cpu", "cuda"):
        run = kernelwright(*command, "--device", device, cwd=workplace(tmp_path))
        assert run.returncode == 0, run.stderr
        assert run.stdout.count("[Dry run] : matmul_1024x512x256_f32t_f32t_f32t_tilesize_") == 3
    texts = [path.read_text() for path in (tmp_path / "generated").rglob("*.mlir")]
    assert len(texts) == 6
    assert sum("#iree_gpu.pipeline<TileAndFuse>" in text and "workgroup_size = [" in text for text in texts) == 3
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("linalg.matmul", "linalg.matmull"), "matmul, line 12, column"),
        (("1024x", "?x"), "dynamic"),
        ((PRODUCT_OF_SEED, "func.return %1"), "has nothing to schedule"),
    ],
)
def test_a_module_that_cannot_be_scheduled_is_one_line(tmp_path: Path, changed: tuple[str, str], message: str) -> None:
    (tmp_path / "matmul.mlir").write_text(SEED.replace(*changed))
    run = kernelwright("tune", "mlir", "matmul.mlir", "--device", "cpu", "--quiet", cwd=tmp_path)
    assert message in refused(run)
    assert not (tmp_path / "results").exists()


def test_bad_options_are_one_line(tmp_path: Path) -> None:
    workplace(tmp_path, trials=0)
    cases = {
        (): "there is no module; give a FILE, or --config auto-scheduler.cfg",
        ("none.mlir",): "none.mlir",
        ("matmul.mlir", "--tuner", "best"): "there is no tuner 'best'",
        ("matmul.mlir", "--save-cmds"): "--save-cmds writes next to the modules; give --emit DIR too",
        ("--config", "auto-scheduler.cfg"): "auto-scheduler.cfg, line 20: n_trial = 0",
        ("matmul.mlir", "--function", "relu"): "'relu'",
    }
    for given, message in cases.items():
        assert message in refused(kernelwright("tune", "mlir", *given, "--device", "cpu", "--quiet", cwd=tmp_path))


def test_a_chip_that_the_package_lacks_is_one_line(tmp_path: Path) -> None:
    given = ("matmul.mlir", "--chip", "pentium9", "--device", "cpu", "--quiet")
    line = refused(kernelwright("tune", "mlir", *given, cwd=workplace(tmp_path)))
    assert "pentium9" in line


@pytest.mark.parametrize("sandbox", ["landlock", "bwrap"])
def test_a_module_from_elsewhere_has_no_file_embedded(tmp_path: Path, sandbox: str) -> None:
    obstacle = bubblewrap.obstacle(Places.of_this_process()) if sandbox == "bwrap" else not landlock.abi()
    if obstacle:
        pytest.skip(f"{sandbox} does not work here")
    (tmp_path / "key").write_text("PLANTED-SECRET")
    stealing = tmp_path / "stealing.mlir"
    stealing.write_text(module_of(embedded(tmp_path / "key")))
    given = ("--trials", "1", "--device", "cpu")
    stolen = kernelwright("tune", "mlir", "stealing.mlir", *given, "--sandbox", "none", cwd=tmp_path)
    cache = Path(os.environ["KERNELWRIGHT_CACHE"])
    assert stolen.returncode == 0 and _holding("PLANTED-SECRET", cache), stolen.stderr
    stealing.write_text(module_of(["nop", *embedded(tmp_path / "key")]))  # another one, which is not kept compiled
    kept = _holding("PLANTED-SECRET", cache)
    run = kernelwright("tune", "mlir", "stealing.mlir", *given, "--sandbox", sandbox, cwd=tmp_path)
    assert run.returncode == 2 and "IREE does not compile stealing, unmodified" in run.stderr
    assert "PLANTED-SECRET" not in run.stdout + run.stderr
    assert _holding("PLANTED-SECRET", cache) == kept


def _holding(text: str, folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.vmfb") if text.encode() in path.read_bytes()}


def test_a_module_at_which_the_parser_crashes_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "deep.mlir").write_text("module {" * 20_000 + "}" * 20_000)
    run = kernelwright("tune", "mlir", "deep.mlir", "--device", "cpu", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: IREE cannot read deep: its parser was killed by SIGSEGV")
