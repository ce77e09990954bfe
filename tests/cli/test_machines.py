"""Commands that evaluate on other machines: what they say when these cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import kernelwright, refused

HERE = ("--problem", "level1/999_Scale.py")


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("module", "options", "says"),
    [
        ("modal", ("--evaluator", "modal"), "not logged in to Modal: run 'modal token new', or set MODAL_TOKEN_ID"),
        ("modal", ("--evaluator", "modal", "--gpu", "H1OO"), "--gpu H1OO: Modal has T4, L4, A10"),
        ("ray", ("--evaluator", "ray", "--ray-address", "127.0.0.1:1"), "127.0.0.1:1: Connection refused"),
    ],
)
def test_machines_that_cannot_be_used(kernel_file: Path, module: str, options: tuple[str, ...], says: str) -> None:
    pytest.importorskip(module)
    run = kernelwright("evaluate", "--kernel", kernel_file.name, *HERE, *options, cwd=kernel_file.parent)
    assert says in refused(run)


@pytest.mark.parametrize("command", [("evaluate", "--kernel"), ("tune", "kernel"), ("optimize", "--kernel")])
def test_a_function_needs_its_package_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    given = ("ops.py::scale", "--reference", "ops.py::scale_torch", "--inputs", "ops.py::inputs")
    said = refused(kernelwright(*command, *given, "--evaluator", "modal", cwd=tmp_path))
    assert "--evaluator modal has no packages of yours" in said and "with ray on nodes that have the package" in said


def test_a_search_that_cannot_begin_leaves_what_there_was(kernel_file: Path) -> None:
    pytest.importorskip("modal")
    run = kernelwright("tune", "kernel", kernel_file.name, *HERE, "--evaluator", "modal", cwd=kernel_file.parent)
    assert "not logged in to Modal" in refused(run)
    assert not (kernel_file.parent / "results").exists()


def test_kernelbenchs_protocol_stays_here(kernel_file: Path) -> None:
    options = ("--protocol", "both", "--evaluator", "modal")
    run = kernelwright("evaluate", "--kernel", kernel_file.name, *HERE, *options, cwd=kernel_file.parent)
    assert "KernelBench's protocol runs on this machine" in refused(run)
