"""The kernels that overwrite what others leave on a GPU: what they are compiled to, which needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernelwright.evaluators.timing.scrub import LOCAL_BYTES, LOCAL_KERNEL, REGISTERS_KERNEL, source


def tool(name: str) -> str:
    """A tool of CUDA: one that is installed, or the one that Triton brings."""
    triton = pytest.importorskip("triton")
    brought = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    found = shutil.which(name) or (str(brought) if brought.exists() else None)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_they_use_all_registers_and_their_local_memory(target: str, tmp_path: Path) -> None:
    text, binary = tmp_path / "scrub.ptx", tmp_path / "scrub.cubin"
    text.write_text(source())
    command = [tool("ptxas"), "-v", "--gpu-name", target, str(text), "-o", str(binary)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stderr
    parts = dict(re.findall(r"entry function '(\w+)'.*?\n(.*?Used \d+ registers)", told, re.DOTALL))
    assert set(parts) == {REGISTERS_KERNEL, LOCAL_KERNEL}
    assert "0 bytes stack frame" in parts[REGISTERS_KERNEL] and "0 bytes spill stores" in parts[REGISTERS_KERNEL]
    # Registers are given out in groups of eight; 256 threads with 256 are all of a multiprocessor.
    assert int(re.findall(r"Used (\d+) registers", parts[REGISTERS_KERNEL])[0]) > 248
    assert f"{LOCAL_BYTES} bytes stack frame" in parts[LOCAL_KERNEL]


def test_no_store_is_left_out(tmp_path: Path) -> None:
    """By the compiler, which knows that nobody reads shared memory afterwards."""
    text, binary = tmp_path / "scrub.ptx", tmp_path / "scrub.cubin"
    text.write_text(source())
    command = [tool("ptxas"), "--gpu-name", "sm_90", str(text), "-o", str(binary)]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    command = [tool("nvdisasm"), str(binary)]
    code = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert re.search(r"\bSTL\.128\b", code) and re.search(r"\bSTS\.128\b", code)


@pytest.mark.gpu
def test_they_run_on_a_gpu() -> None:
    import torch
    from kernelwright.evaluators.timing.l2_flush import driver
    from kernelwright.evaluators.timing.scrub import Scrub

    torch.zeros(1, device="cuda")
    scrub = Scrub("cuda", driver())
    assert scrub.kernels == 2
    scrub.scrub()
    torch.cuda.synchronize()
