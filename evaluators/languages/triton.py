"""Triton: launches, compiled kernels, interpreter, driver."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

from ...core import Target
from ...core.devices.architecture import WARP
from ...core.launch_plan import KernelCode
from ..devices import no_gpus
from . import amdgcn
from .base import (
    Around,
    CompiledKernel,
    Counted,
    LanguageSupport,
    Launched,
    LaunchRecorder,
    RecordedLaunch,
    UntraceableCallError,
    replaced,
)
from .cubin import read_binary
from .described_gpu import answer_on_cpu, described_gpu
from .ptx import matrix_instructions, ptx_code
from .triton_driver import DescribedDriver, InterpretedDriver, triton_target
from .triton_interpreter import fix_interpreter

# Of a compiled Triton kernel, attributes that its code does not show; which of them exist depends on the version.
_SETTINGS = (
    "num_warps", "num_ctas", "cluster_dims", "shared", "enable_fp_fusion", "ptx_options", "launch_pdl",
    "launch_cooperative_grid", "global_scratch_size", "profile_scratch_size",
)  # fmt: skip


_LAUNCHED = (
    "num_warps", "num_ctas", "shared", "enable_fp_fusion", "ptx_options", "launch_pdl", "launch_cooperative_grid",
    "tensordesc_meta", "global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align",
)  # fmt: skip
"""The values that `replay.triton_code` needs."""
_PLAIN = re.compile(r"constexpr|\*?k?(fp16|bf16|fp32|fp64|[iu](1|8|16|32|64)|fp8e[a-z0-9]{1,8})")
"""Types of parameters that are constants, pointers and numbers."""


class TritonSupport(LanguageSupport):
    """On a CPU its interpreter runs, which checks kernels and compiles nothing."""

    cpu_environment = {"TRITON_INTERPRET": "1", **no_gpus()}
    interpreter_remarks = {
        "triton_interpreter": "tl.dot of bf16 is computed in fp32; autotuners take the first config; launchers see "
        "an {gpu}"
    }
    imports_quickly = True
    compiles_quickly = True
    compiler_paths = ("/triton/compiler/", "/triton/backends/")
    pinned_modules = ("triton.testing", "triton.runtime.jit")
    pinned_classes = (
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.jit", "KernelInterface"),
        ("triton.compiler.compiler", "CompiledKernel"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
        ("triton.runtime.interpreter", "GridExecutor"),
    )

    records = (Target.CUDA,)
    helpers = ("*/cuda_utils*.so", "*/hip_utils*.so", "*/__triton_launcher*.so")

    def preload(self) -> None:
        """Import the compiler, read Triton's own files for the keys of its cache, and ask the system what those of its
        launchers contain: half a second together."""
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("triton.compiler.code_generator")
            from triton.runtime.cache import triton_key

            triton_key()
        with contextlib.suppress(Exception):  # a machine without a driver
            from triton.backends.nvidia.driver import library_dirs
            from triton.runtime.build import platform_key

            platform_key()
            library_dirs()

    def build_helpers(self, signatures: Iterable[Sequence[str]] = ()) -> None:
        """Compile what loads kernels, and, for a Triton whose launchers depend on it, what launches each signature."""
        from triton.runtime.driver import driver

        _ = driver.active.utils
        for signature in signatures:
            if all(_PLAIN.fullmatch(kind) for kind in signature):
                source = SimpleNamespace(signature=dict(enumerate(signature)), constants={})
                driver.active.launcher_cls(
                    source,
                    SimpleNamespace(**{**dict.fromkeys(_LAUNCHED, 0), "warp_size": WARP, "tensordesc_meta": None}),
                )

    def prepare(self, device: str) -> None:
        """On a CPU, fix the interpreter, and answer what launchers ask about their GPU."""
        if device != "cpu":
            return
        with contextlib.suppress(ImportError):
            from triton.runtime.driver import driver

            fix_interpreter()
            gpu = described_gpu()
            driver.set_active(InterpretedDriver(triton_target(gpu), gpu))
            answer_on_cpu(gpu)

    def capture_launches(self, launched: Launched, device: str) -> None:
        """Compile into the disk cache, and report; the interpreter's launches are not captured."""
        if device == "cpu":
            return
        from triton.runtime.jit import JITFunction

        really_run = JITFunction.run

        def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            kernel = really_run(self, *args, grid=grid, warmup=True, **options)
            if not warmup:
                bound = _bound(self, args, options)
                constants = {p.name for p in self.params if p.is_constexpr}
                launched(
                    RecordedLaunch(
                        code=_code(kernel),
                        settings={name: getattr(kernel.metadata, name, None) for name in _SETTINGS},
                        grid=_grid(grid, bound),
                        arguments=[value for name, value in bound.items() if name not in constants],
                        shared_bytes=kernel.metadata.shared,
                        signature=_signature(kernel),
                        compiled=lambda: _triton_kernel(kernel),
                    )
                )
            return kernel

        JITFunction.run = run

    def pretend(self, properties: Mapping[str, Any]) -> None:
        """Set a driver that describes the GPU."""
        from triton.runtime.driver import driver

        driver.set_active(DescribedDriver(triton_target(properties)))

    def takes_addresses(self, caller: Mapping[str, Any]) -> bool:
        """Triton specialises a kernel on the alignment of its arguments."""
        return "specialize_impl" in caller or str(caller.get("__name__")).startswith("triton.")

    @contextlib.contextmanager
    def counting(self, counted: Counted) -> Iterator[None]:
        """`JITFunction.run` and the interpreter's, and launches of what `warmup` compiled."""
        try:
            from triton.compiler.compiler import CompiledKernel as Compiled
            from triton.runtime.interpreter import InterpretedFunction
            from triton.runtime.jit import JITFunction
        except ImportError:
            yield
            return

        def counting(really: Any) -> Any:
            def run(self: Any, *args: Any, warmup: bool = False, **options: Any) -> Any:
                if warmup:
                    return really(self, *args, warmup=warmup, **options)
                name = str(getattr(self, "__name__", "kernel"))
                return counted(name, really)(self, *args, warmup=warmup, **options)

            return run

        def counting_grids(really: Any) -> Any:
            return lambda self, grid: counted(str(getattr(self, "name", "kernel")), really(self, grid))

        with (
            replaced(JITFunction, "run", counting),
            replaced(InterpretedFunction, "run", counting),
            replaced(Compiled, "__getitem__", counting_grids),
        ):
            yield

    @contextlib.contextmanager
    def recording(self, recorded: LaunchRecorder) -> Iterator[None]:
        """Launches on a GPU: their PTX or AMD's assembly, and the arguments that it takes."""
        try:
            from triton.compiler.compiler import CompiledKernel as Compiled
            from triton.runtime.jit import JITFunction
        except ImportError:
            yield
            return

        def recording(really: Any) -> Any:
            def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
                kernel = really(self, *args, grid=grid, warmup=warmup, **options)
                if not warmup and kernel is not None:
                    _report(recorded, kernel, _bound(self, args, options), grid)
                return kernel

            return run

        def recording_grids(really: Any) -> Any:
            def getitem(self: Any, grid: Any) -> Any:
                launch = really(self, grid)

                def run(*args: Any, **options: Any) -> Any:
                    result = launch(*args, **options)
                    _report(recorded, self, dict(zip(self.src.signature, args, strict=False)), grid)
                    return result

                return run

            return getitem

        with replaced(JITFunction, "run", recording), replaced(Compiled, "__getitem__", recording_grids):
            yield

    @contextlib.contextmanager
    def interpreting(self, around: Around) -> Iterator[None]:
        """`GridExecutor` runs a launch of the interpreter."""
        try:
            from triton.runtime.interpreter import GridExecutor
        except ImportError:
            yield
            return

        def within(really: Any) -> Any:
            def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
                with around():
                    return really(self, *args, **kwargs)

            return launch

        with replaced(GridExecutor, "__call__", within):
            yield

    def compiled_kernels(self) -> Iterator[CompiledKernel]:
        """The kernels that Triton has compiled for a GPU, loaded or not."""
        module: Any = sys.modules.get("triton.compiler.compiler")
        if module is None:
            return
        for get_object in gc.get_objects():
            # By type() and not isinstance(): the latter asks lazy modules for their class, which imports them.
            if type(get_object) is module.CompiledKernel and get_object.asm.keys() & {"cubin", "hsaco"}:
                yield _triton_kernel(get_object)


def _bound(function: Any, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a launch by the names of all parameters."""
    given = {**dict(zip(function.arg_names, args, strict=False)), **options}
    return {p.name: given.get(p.name, p.default) for p in function.params}


def _signature(kernel: Any) -> tuple[str, ...]:
    """The types of a compiled kernel's parameters; empty where one of them is not plain."""
    types = tuple(getattr(kernel.src, "signature", {}).values())
    return types if all(isinstance(kind, str) and _PLAIN.fullmatch(kind) for kind in types) else ()


def _grid(grid: Any, bound: Mapping[str, Any]) -> list[int]:
    return [int(extent) for extent in (grid(bound) if callable(grid) else grid)]


def _report(recorded: LaunchRecorder, kernel: Any, bound: Mapping[str, Any], grid: Any) -> None:
    """Report a launch of a compiled kernel; `bound` has its arguments by name, constants among them."""
    types = {name: form for name, form in kernel.src.signature.items() if form != "constexpr"}
    if not all(isinstance(form, str) for form in types.values()):
        raise UntraceableCallError("an argument of a kernel that is a tuple")
    metadata = kernel.metadata
    form: Literal["ptx", "amdgcn"] = "amdgcn" if "amdgcn" in kernel.asm else "ptx"
    code = KernelCode(
        name=kernel.src.fn.__name__,
        kind=form,
        text=kernel.asm[form],
        entry=metadata.name,
        parameters=tuple(types.values()),
        settings={name: _plain(getattr(metadata, name)) for name in _LAUNCHED if hasattr(metadata, name)},
    )
    # A tensor that is read as another dtype is wrapped; the PTX knows the dtype.
    values = [
        getattr(bound[name], "base", bound[name]) if form[0] == "*" else bound[name] for name, form in types.items()
    ]
    recorded(code, values, _grid(grid, bound))


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON returns them."""
    return json.loads(json.dumps(value))


def _code(kernel: Any) -> str:
    """The lowered code of a compiled kernel, without what does not change the machine code."""
    if "amdgcn" in kernel.asm:
        return re.sub(rf"\b{re.escape(kernel.metadata.name)}\b", "kernel", kernel.asm["amdgcn"])
    return ptx_code(kernel.asm["ptx"], kernel.metadata.name)


def _triton_kernel(kernel: Any) -> CompiledKernel:
    metadata = kernel.metadata
    threads = metadata.num_warps * metadata.target.warp_size
    if "amdgcn" in kernel.asm:
        text = kernel.asm["amdgcn"]
        stated = amdgcn.read_assembly(text)
        matrix = amdgcn.matrix_instructions(text)
        return CompiledKernel(metadata.name, stated.registers, stated.spills, metadata.shared, threads, matrix)
    registers, words = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    if registers is None or words is None:  # it was compiled and not loaded
        (read,) = read_binary(kernel.asm["cubin"])
        registers, spills = read.registers, read.spills
    else:
        spills = 4 * words  # Triton divides the driver's count of bytes
    used = matrix_instructions(kernel.asm["ptx"]) if "ptx" in kernel.asm else None
    binary = functools.partial(kernel.asm.__getitem__, "cubin")
    return CompiledKernel(metadata.name, registers, spills, metadata.shared, threads, used, binary)


SUPPORT = TritonSupport()
