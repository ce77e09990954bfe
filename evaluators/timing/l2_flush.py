"""Empties a GPU's L2 cache between timed calls.

Persisting lines survive other writes, so they are made normal first; then a multiple of the cache's size is written.
The writing kernel is ours and takes every thread of every multiprocessor until it ends: no work of a candidate on
another stream can run at the same time before the timing starts.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...core import DeviceError
from ...core.devices import architecture, architecture_name
from ..devices import present

KERNEL = "kernelwright_flush"
FALLBACK = "FillFunctor"
"""Part of the name of torch's kernel, the fallback where the driver cannot compile ours."""
TIMES = 8
"""Multiple of the cache's size that is written in a pass."""
MEMORY_CACHE_TIMES = 2
"""Multiple of the cache between L2 and memory, where there is one."""
PASSES = 3
"""One pass empties it; but the processor launches the call while the GPU writes, and any longer launch time becomes
part of the sample. On an H200 a pass takes about 120 us. Launching a Triton kernel from Python took up to 200 us where
other processes compiled on as many cores as there are: 50 samples of a kernel of 8.5 us then had a median of 70
(results/samples/h200/launches_beside_compilers.json).
A pass writes its number, so that none of them is without effect."""
_THREADS = 512
"""Threads of a block: divides a multiprocessor's threads on every GPU (1024, 1536, 2048)."""
_PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry kernelwright_flush(.param .u64 begin, .param .u64 end, .param .u32 passes)
.maxntid 512, 1, 1
.minnctapersm 2
{
    .reg .pred %done, %more;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [begin];
    ld.param.u64 %rd2, [end];
    ld.param.u32 %r5, [passes];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mad.lo.u32 %r3, %r1, %r2, %r3;
    mul.lo.u32 %r4, %r4, %r2;
    mul.wide.u32 %rd3, %r3, 16;
    mul.wide.u32 %rd4, %r4, 16;
    add.u64 %rd1, %rd1, %rd3;
pass:
    mov.u64 %rd5, %rd1;
step:
    setp.ge.u64 %done, %rd5, %rd2;
    @%done bra next;
    st.global.v4.u32 [%rd5], {%r1, %r5, %r1, %r1};
    add.u64 %rd5, %rd5, %rd4;
    bra.uni step;
next:
    sub.u32 %r5, %r5, 1;
    setp.ne.u32 %more, %r5, 0;
    @%more bra pass;
    ret;
}
"""


class L2:
    """The cache of one GPU. Looks up its functions at creation: create it before a candidate's code runs."""

    def __init__(self, device: str) -> None:
        import torch

        properties = torch.cuda.get_device_properties(device)
        size = max(TIMES * properties.L2_cache_size, MEMORY_CACHE_TIMES * _memory_cache(properties), 1 << 20)
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        self._fill: Any = torch.Tensor.zero_
        blocks = properties.multi_processor_count * (properties.max_threads_per_multi_processor // _THREADS)
        self._driver = driver()
        self._reset = getattr(self._driver, "cuCtxResetPersistingL2Cache", None)
        self._launch = _launcher(self._driver, blocks, self._buffer.data_ptr(), size)
        self.kernel = KERNEL if self._launch else FALLBACK
        """The name of the flush in a profile."""

    def reset_persisting(self) -> None:
        """Make persisting cache lines normal, where the driver supports them."""
        if self._reset is not None:
            self._reset()

    def flush(self) -> None:
        """Let the GPU overwrite the cache; returns before it has."""
        if self._launch is not None:
            self._launch()
        else:
            for _ in range(PASSES):
                self._fill(self._buffer)


def _memory_cache(properties: Any) -> int:
    names = ("name", "major", "minor", "gcnArchName")
    try:
        name = architecture_name({key: getattr(properties, key) for key in names if hasattr(properties, key)})
        return architecture(name).memory_cache_bytes
    except DeviceError:  # an architecture that is not described
        return 0


def driver() -> Any:
    """Return the library with the API of CUDA's driver; None where the device has none."""
    support = present()
    return support.driver() if support is not None else None


def _launcher(driver: Any, blocks: int, begin: int, size: int) -> Any:
    """Return a function that launches the flush on the default stream; None where the driver cannot compile it."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    if driver is None or driver.cuModuleLoadData(ctypes.byref(module), _PTX):
        return None
    if driver.cuModuleGetFunction(ctypes.byref(function), module, KERNEL.encode()):
        return None
    given = [ctypes.c_uint64(begin), ctypes.c_uint64(begin + size // 16 * 16), ctypes.c_uint32(PASSES)]
    arguments = (ctypes.c_void_p * len(given))(*map(ctypes.addressof, given))
    launch = driver.cuLaunchKernel
    launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
    shape = (blocks, 1, 1, _THREADS, 1, 1, 0)

    def flush(_kept: object = given) -> None:
        if code := launch(function, *shape, None, arguments, None):
            raise RuntimeError(f"the L2 cache could not be flushed (CUDA driver error {code})")

    return flush
