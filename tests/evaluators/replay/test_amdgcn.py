"""AMD's assembly is assembled as Triton left it, or refused for what could outlive a launch or tell it from another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.languages.triton import _report
from kernelwright.evaluators.replay.amdgcn import checked_amdgcn
from kernelwright.evaluators.replay.triton_code import load_triton
from kernelwright.evaluators.replay.values import UnplannableCallError
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver


def scale_kernel(x, y, n, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + offsets, 2.0 * tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kernel for gfx942, as Triton compiles it without the GPU."""
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "SIZE": "constexpr"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        source = ASTSource(JITFunction(scale_kernel), signature, {(3,): 256})
        return triton.compile(source, target=GPUTarget("hip", "gfx942", 64))


@pytest.fixture(scope="module")
def code(compiled: Any) -> KernelCode:
    """What a plan holds of it."""
    found: list[tuple[KernelCode, Sequence[Any], Sequence[int]]] = []

    def recorded(code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        found.append((code, arguments, grid))

    _report(recorded, compiled, {"x": "first", "y": "second", "n": 1000, "SIZE": 256}, (4,))
    ((code, arguments, grid),) = found
    assert (list(arguments), list(grid)) == (["first", "second", 1000], [4])
    return code


def test_a_plan_holds_assembly_and_what_a_launch_needs(code: KernelCode) -> None:
    assert (code.kind, code.entry, code.parameters) == ("amdgcn", "scale_kernel", ("*fp32", "*fp32", "i32"))
    assert code.settings["num_warps"] == 4 and KernelCode.model_validate_json(code.model_dump_json()) == code


def test_debug_information_is_dropped_and_nothing_else(code: KernelCode) -> None:
    text = checked_amdgcn(code)
    assert "debug" not in text and ".loc" not in text and __file__ not in text
    mnemonics = re.compile(r"^\s+((?:s|v|buffer|global)_\w+)", re.M)
    assert mnemonics.findall("\n".join(line.split(";")[0] for line in code.text.splitlines())) == re.findall(
        r"^((?:s|v|buffer|global)_\w+)", text, re.M
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("s_memtime s[2:3]", "s_memtime"),
        ("s_memrealtime s[2:3]", "s_memrealtime"),
        ("s_getreg_b32 s2, hwreg(HW_REG_HW_ID)", "s_getreg_b32"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 1), 1", "s_setreg_imm32_b32"),
        ("s_getpc_b64 s[2:3]", "s_getpc_b64"),
        ("s_setpc_b64 s[2:3]", "s_setpc_b64"),
        ("s_swappc_b64 s[4:5], s[2:3]", "s_swappc_b64"),
        ("s_sendmsg sendmsg(MSG_INTERRUPT)", "s_sendmsg"),
        ("s_trap 2", "s_trap"),
        ("ds_gws_barrier v0 gds", "ds_gws"),
        ("ds_add_u32 v0, v1 gds", "gds"),
        ("scratch_store_dword off, v0, s0", "scratch memory"),
        (".long 0xbf820000", ".long"),
        (".byte 1", ".byte"),
        (".macro hidden", ".macro"),
        (".rept 3", ".rept"),
        ('.incbin "/etc/passwd"', ".incbin"),
        ('.include "/etc/passwd"', ".include"),
        (".globl other", ".globl"),
        (".comm kept,4,4", ".comm"),
        ('.section .data,"aw",@progbits', ".section .data"),
        ("alias = scale_kernel", "no plain instruction"),
        ("S_MEMTIME s[2:3]", "no plain instruction"),
        ("s_nop 0 /* */", "no plain instruction"),
        (".amdhsa_user_sgpr_dispatch_id 1", "tells how it was launched"),
        (".amdhsa_user_sgpr_queue_ptr 1", "tells how it was launched"),
        (".amdhsa_private_segment_fixed_size 16", "scratch memory"),
        (".amdhsa_kernel second", "other kernels"),
    ],
)
def test_what_may_not_be_in_it(code: KernelCode, line: str, says: str) -> None:
    body = code.text.replace("s_endpgm", f"{line}\n\ts_endpgm", 1)
    with pytest.raises(UnplannableCallError, match=re.escape(says)):
        checked_amdgcn(code.model_copy(update={"text": body}))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (".value_kind:     by_value", ".value_kind:     hidden_queue_ptr", "the argument 'hidden_queue_ptr'"),
        (".value_kind:     by_value", "'.value_kind':     hidden_queue_ptr", "in its metadata"),
        (".end_amdgpu_metadata", ".end_amdgpu_metadata/**/\n\t.text", "in its metadata"),
        (".end_amdgpu_metadata", ".end_amdgpu_metadata: x\n\t.text", "in its metadata"),
        (".amdhsa_kernel scale_kernel", ".amdhsa_kernel other/* scale_kernel", "amdhsa_kernel"),
        (".private_segment_fixed_size: 0", ".private_segment_fixed_size: 64", "scratch memory"),
    ],
)
def test_what_the_metadata_may_not_ask_for(code: KernelCode, old: str, new: str, says: str) -> None:
    assert old in code.text
    with pytest.raises(UnplannableCallError, match=says):
        checked_amdgcn(code.model_copy(update={"text": code.text.replace(old, new, 1)}))


class Driver:
    """Triton's for an AMD GPU: it takes code objects, and notes launches."""

    def __init__(self, target: GPUTarget) -> None:
        self.target, self.loaded, self.launched = target, list[tuple[str, bytes]](), list[tuple[Any, ...]]()
        self.utils = SimpleNamespace(load_binary=self._load)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_stream(self, device: int) -> int:
        return 17 + device

    def _load(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        self.loaded.append((name, binary))
        return None, "function", 10, 0, 1024

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        assert (metadata.warp_size, metadata.launch_cooperative_grid) == (64, False)  # what HIPLauncher asks for
        assert source.signature == {0: "*fp32", 1: "*fp32", 2: "i32"}
        return lambda *given: self.launched.append(given)


def test_a_plan_launches_a_code_object(
    code: KernelCode, compiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faked = Driver(GPUTarget("hip", "gfx942", 64))
    monkeypatch.setattr(driver, "_active", faked)
    launch = load_triton(code, tmp_path, "cuda:0", [])
    launch((4,), ["first", "second", 1000])
    ((name, binary),) = faked.loaded
    assert name == "scale_kernel" and binary.startswith(b"\x7fELF")
    assert [path.suffix for path in tmp_path.iterdir()] == [".hsaco"]
    (given,) = faked.launched
    assert given[:5] == (4, 1, 1, 17, "function") and given[-3:] == ("first", "second", 1000)
    assert given[5] == (4, 1, compiled.metadata.shared)  # as AMD's backend packs it
    load_triton(code, tmp_path, "cuda:0", [])
    assert faked.loaded[1] == faked.loaded[0]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (GPUTarget("hip", "gfx1201", 32), "amdgcn code that cannot be loaded"),
        (GPUTarget("cuda", 90, 32), "amdgcn code on a GPU that takes ptx"),
    ],
)
def test_code_for_another_gpu_is_refused(
    code: KernelCode, target: GPUTarget, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_active", Driver(target))
    with pytest.raises(UnplannableCallError, match=says):
        load_triton(code, tmp_path, "cuda:0", [])
