"""Kernel launches that compile and do not run: replaces the launch functions of Triton and TileLang."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .trace import UntraceableCall


@dataclass(frozen=True)
class Launch:
    """One launch: the code and its arguments."""

    code: str
    """Lowered code, and everything else that determines the device's work."""
    settings: dict[str, Any]
    grid: list[int]
    arguments: list[Any]
    shared_bytes: int | None = None


Launched = Callable[[Launch], None]

# Attributes of a compiled Triton kernel that its code does not show; which exist depends on the version.
_SETTINGS = (
    "num_warps", "num_ctas", "cluster_dims", "shared", "enable_fp_fusion", "ptx_options", "launch_pdl",
    "launch_cooperative_grid", "global_scratch_size", "profile_scratch_size",
)  # fmt: skip


def watch_triton(launched: Launched) -> None:
    """Make a launch of a Triton kernel compile it into the disk cache and report the launch, for good."""
    from triton.runtime.jit import JITFunction

    really_run = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = really_run(self, *args, grid=grid, warmup=True, **options)
        if not warmup:
            given = dict(zip(self.arg_names, args, strict=False)) | options
            bound = {p.name: given.get(p.name, p.default) for p in self.params}
            constants = {p.name for p in self.params if p.is_constexpr}
            size = grid(bound) if callable(grid) else grid
            launched(
                Launch(
                    code=ptx_code(kernel.asm["ptx"], kernel.metadata.name),
                    settings={name: getattr(kernel.metadata, name, None) for name in _SETTINGS},
                    grid=[int(extent) for extent in size],
                    arguments=[value for name, value in bound.items() if name not in constants],
                    shared_bytes=kernel.metadata.shared,
                )
            )
        return kernel

    JITFunction.run = run


def ptx_code(ptx: str, name: str) -> str:
    """Return PTX without what does not affect machine code: comments, line numbers, debug data, the kernel's name."""
    code = re.sub(r"//[^\n]*", "", ptx)
    code = re.sub(r"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}", "", code, flags=re.MULTILINE | re.DOTALL)
    code = re.sub(r"^\s*(\.loc|\.file)\s[^\n]*", "", code, flags=re.MULTILINE)
    code = re.sub(r"^\s*\$L__(tmp|func_|info_|debug_)\w*:", "", code, flags=re.MULTILINE)
    code = re.sub(rf"\b{re.escape(name)}(?=\b|_param)", "kernel", code)
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


def watch_tilelang(launched: Launched, device: str) -> None:
    """Make a call of a compiled TileLang kernel report the launch and return empty outputs, for good."""
    from tilelang.jit.kernel import JITKernel

    def bind(kernel: Any) -> Callable[..., Any]:
        def call(*inputs: Any, **_: Any) -> Any:
            outputs = empty_outputs(kernel, inputs, device)
            launched(
                Launch(
                    code=f"{kernel.get_kernel_source()}\n{kernel.get_host_source()}",
                    settings={
                        "target": str(kernel.target),
                        "backend": kernel.execution_backend,
                        "flags": kernel.compile_flags,
                        "passes": sorted(f"{name}={value}" for name, value in (kernel.pass_configs or {}).items()),
                    },
                    grid=[],  # it is in the host code
                    arguments=[*inputs, *outputs],
                    shared_bytes=_dynamic_shared(kernel),
                )
            )
            return outputs[0] if len(outputs) == 1 else outputs or None

        return call

    # The constructors assign the function that runs the kernel; a property is read instead of it.
    JITKernel.torch_function = property(bind, lambda kernel, function: None)


def empty_outputs(kernel: Any, inputs: Sequence[Any], device: str) -> list[Any]:
    """Return the outputs that a TileLang kernel allocates, uninitialized."""
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
    raise UntraceableCall(f"the extent {text} of an output")


def _dynamic_shared(kernel: Any) -> int | None:
    """Return dynamic shared memory of the kernel's largest launch; None on a CPU, or when it came from the cache."""
    module = getattr(kernel.artifact, "device_mod", None)
    if module is None or kernel.target.kind.name != "cuda":
        return None
    attributes = [function.attrs for function in module.functions.values()]
    return max((int(found.get("dyn_shared_memory_buf", 0)) for found in attributes if found), default=None)
