"""TileLang: launches and compiled kernels, on GPUs and CPUs."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ...core import Target
from ..workers.modules import unobserved
from .base import (
    CompiledKernel,
    Counted,
    LanguageSupport,
    Launched,
    LaunchRecorder,
    RecordedLaunch,
    UntraceableCallError,
    replaced,
)
from .c_headers import HEADER, needed_headers, standard_for
from .tilelang_binaries import kernels_in
from .tilelang_code import LoweredKernels, c_argument, name_of


class TileLangSupport(LanguageSupport):
    """Support for TileLang, whose compiled kernels are host functions that launch or compute."""

    environment = {"TILELANG_PRINT_ON_COMPILATION": "0"}
    compiler_paths = (
        "/tilelang/engine/",
        "/tilelang/jit/kernel.py",
        "/tilelang/jit/adapter/libgen.py",
        "/tilelang/jit/__init__.py",
        "/tilelang/language/",
        "/tilelang/cache/",
        "/tilelang/utils/language.py",
        "/tvm/",
    )
    pinned_classes = (("tilelang.jit.kernel", "JITKernel"),)
    records = (Target.CPU, Target.CUDA)

    def __init__(self) -> None:
        self._lowered = LoweredKernels()
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def prepare(self, device: str) -> None:
        """Compile a CPU's kernels with the headers that they need, and the only config of an autotuner without a
        benchmark, which needs a GPU and launches more than the call does."""
        with contextlib.suppress(ImportError):
            _take_the_only_config()
            if device == "cpu":
                _compile_with_needed_headers()

    def capture_launches(self, launched: Launched, device: str) -> None:
        """Report calls of compiled kernels, which return empty outputs."""
        from tilelang.jit.kernel import JITKernel

        def bind(kernel: Any) -> Callable[..., Any]:
            def call(*inputs: Any, **_: Any) -> Any:
                outputs = empty_outputs(kernel, inputs, device)
                launched(
                    RecordedLaunch(
                        code=f"{kernel.get_kernel_source()}\n{kernel.get_host_source()}",
                        settings={
                            "target": str(kernel.target),
                            "backend": kernel.execution_backend,
                            "flags": kernel.compile_flags,
                            "passes": sorted(f"{name}={value}" for name, value in (kernel.pass_configs or {}).items()),
                        },
                        grid=[],  # the host's part of the code has it
                        arguments=[*inputs, *outputs],
                        shared_bytes=_dynamic_shared(kernel),
                    )
                )
                return outputs[0] if len(outputs) == 1 else outputs or None

            return call

        # The constructors assign the function that runs the kernel; this one is read in its place.
        JITKernel.torch_function = property(bind, lambda kernel, function: None)

    def counting(self, counted: Counted) -> contextlib.AbstractContextManager[None]:
        """The function that each compiled kernel holds, however it is called."""
        return _kernels_hold(lambda kernel, function: counted(self._name_of(kernel), function))

    def _name_of(self, kernel: Any) -> str:
        if (name := self._names.get(kernel)) is None:  # which takes as long as many a launch
            name = self._names[kernel] = name_of(kernel)
        return name

    def recording(self, recorded: LaunchRecorder) -> contextlib.AbstractContextManager[None]:
        """Calls of compiled kernels: their lowered IR, and all arguments."""
        return _kernels_hold(lambda kernel, function: _reported(kernel, function, recorded, self._lowered))

    def compiled_kernels(self) -> list[CompiledKernel]:
        """The kernels whose binaries are in the cache folder, which belongs to the worker."""
        folder = os.environ.get("TILELANG_CACHE_DIR")
        return kernels_in(Path(folder)) if folder and "tilelang" in sys.modules else []

    def source_name(self, kernel_name: str) -> str:
        """A kernel is named like its function with '_kernel', and '_kernel_1' and so on when it has several."""
        return re.sub(r"_kernel(_\d+)?$", "", kernel_name)


@contextlib.contextmanager
def _kernels_hold(instead: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """While inside, compiled kernels run what `instead` makes of a kernel and the function that it holds.

    A function that is not TileLang's own, which a candidate put there, is not a launch, and stays as it is.
    """
    try:
        from tilelang.jit.kernel import JITKernel
    except ImportError:
        yield
        return

    folder = f"{Path(str(sys.modules['tilelang'].__file__)).parent}{os.sep}"

    def read(kernel: Any) -> Any:
        function = vars(kernel).get("torch_function")
        code = getattr(function, "__code__", None)
        return instead(kernel, function) if code and code.co_filename.startswith(folder) else function

    def assign(kernel: Any, function: Any) -> None:
        vars(kernel)["torch_function"] = function

    # The constructors assign the function to the kernel; a property goes before what is assigned.
    with replaced(JITKernel, "torch_function", lambda _: property(read, assign)):
        yield


def _take_the_only_config() -> None:
    from tilelang.autotuner import tuner as autotuner

    really = autotuner.AutoTuner.run

    def run(tuner: Any, *options: Any, **more: Any) -> Any:
        given, named = tuner._kernel_parameters or ((), ())
        if callable(tuner.configs) and tuner._kernel_parameters is not None:
            tuner.configs = tuner.configs(*given, **dict(named))
        if callable(tuner.configs) or len(tuner.configs) != 1:
            return really(tuner, *options, **more)
        (config,) = tuner.configs
        if not config.keys().isdisjoint(inspect.signature(tuner.fn).bind_partial(*given, **dict(named)).arguments):
            return really(tuner, *options, **more)  # which compiles with the values of the call
        compiled, _ = tuner._ensure_jit_functions()
        values = {name: value for name, value in config.items() if name != "pass_configs"}
        kernel = compiled(**values, **{autotuner._PASS_CONFIGS_KEY: config.get("pass_configs")})
        return autotuner.AutotuneResult(
            libcode=kernel.get_kernel_source(), func=kernel.prim_func, kernel=kernel, config=config
        )

    autotuner.AutoTuner.run = run


def _compile_with_needed_headers() -> None:
    from tilelang.jit.adapter.libgen import LibraryGenerator

    really = LibraryGenerator.compile_lib

    def compile_lib(generator: Any, timeout: float | None = None) -> None:
        whole, flags = generator.lib_code, generator.compile_flags
        if HEADER.search(whole):
            body = HEADER.sub("", whole)
            generator.lib_code = needed_headers(body) + body
            generator.compile_flags = [*(flags or ()), standard_for(generator.lib_code)]
        try:
            really(generator, timeout)
        finally:
            generator.lib_code, generator.compile_flags = whole, flags

    LibraryGenerator.compile_lib = compile_lib


def _reported(
    kernel: Any, function: Callable[..., Any], recorded: LaunchRecorder, lowered: LoweredKernels
) -> Callable[..., Any]:
    """A kernel's function that reports each call."""
    if kernel.target.kind.name == "cuda":
        return lambda *inputs, **_: _called_on_gpu(kernel, function, inputs, recorded, lowered)

    def call(*inputs: Any, **more: Any) -> Any:
        result = function(*inputs, **more)
        returned = result if isinstance(result, list | tuple) else [result]
        values = _in_order(kernel, inputs, returned)
        code, names = lowered.of(kernel)
        recorded(code, [c_argument(name, values, kernel) for name in names])
        return result

    return call


def _called_on_gpu(
    kernel: Any, function: Callable[..., Any], inputs: Sequence[Any], recorded: LaunchRecorder, lowered: LoweredKernels
) -> Any:
    """Call and report a kernel. Its outputs are allocated here: the kernel would allocate them unseen by torch."""
    outputs = empty_outputs(kernel, inputs, "cuda")
    with unobserved():
        result = function(*inputs)
        for output, computed in zip(outputs, result if isinstance(result, list | tuple) else [result], strict=False):
            output.copy_(computed)
        code = lowered.of(kernel).code
    recorded(code, _in_order(kernel, inputs, outputs))
    return outputs[0] if len(outputs) == 1 else outputs or None


def _in_order(kernel: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Inputs and outputs, which come in the order of `out_idx`, in the order of the kernel's parameters."""
    wanted = [index % len(kernel.params) for index in kernel.out_idx or ()]
    made, given = dict(zip(wanted, outputs, strict=False)), iter(inputs)
    return [made[index] if index in made else next(given) for index in range(len(kernel.params))]


def empty_outputs(kernel: Any, inputs: Sequence[Any], device: str) -> list[Any]:
    """Return tensors as a TileLang kernel allocates them for its outputs."""
    import torch

    wanted = [index % len(kernel.params) for index in kernel.out_idx]
    given = [index for index in range(len(kernel.params)) if index not in wanted]
    if len(given) != len(inputs):
        raise ValueError(f"Kernel expected {len(given)} inputs, but {len(inputs)} are provided.")
    extents: dict[str, int] = {}
    for index, value in zip(given, inputs, strict=True):
        if isinstance(value, torch.Tensor):
            extents |= zip(map(str, kernel.params[index].shape), value.shape, strict=False)
        else:
            extents[str(kernel.prim_func.params[index])] = value
    where = next((value.device for value in inputs if isinstance(value, torch.Tensor)), device)
    outputs = []
    for index in wanted:
        param = kernel.params[index]
        shape = [_extent(str(extent), extents) for extent in param.shape]
        outputs.append(torch.empty(shape, dtype=param.torch_dtype(), device=where))
    return outputs


def _extent(text: str, known: dict[str, int]) -> int:
    if text.isdecimal():
        return int(text)
    if text in known:
        return int(known[text])
    raise UntraceableCallError(f"the extent {text} of an output")


def _dynamic_shared(kernel: Any) -> int | None:
    """Dynamic shared memory of the kernel's largest launch; None on a CPU, or when it came from the cache."""
    module = getattr(kernel.artifact, "device_mod", None)
    if module is None or kernel.target.kind.name != "cuda":
        return None
    attributes = [function.attrs for function in module.functions.values()]
    return max((int(found.get("dyn_shared_memory_buf", 0)) for found in attributes if found), default=None)


SUPPORT = TileLangSupport()
