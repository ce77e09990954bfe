"""Overwrites what a kernel leaves on a GPU's multiprocessors: registers, shared and local memory.

No launch initialises them, so without this a kernel could find there what an earlier call left. The kernels are ours
and run before the L2 flush, outside of the timed interval, for the candidate and for the reference alike.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import Any

REGISTERS_KERNEL, LOCAL_KERNEL = "kernelwright_flush_registers", "kernelwright_flush_local"
"""A profile leaves out what is named as the L2 flush is."""
LOCAL_BYTES = 512
"""Bytes of each thread's local memory that are overwritten. Kernels that declare more are not replayed. Spills of the
compiler do not count: it writes them before it reads them."""
THREADS = {REGISTERS_KERNEL: 256, LOCAL_KERNEL: 512}
"""Threads of a block. 256 threads of 255 registers are all registers of a multiprocessor; 512 divide its threads."""
_LIVE = 248
"""Values that are needed at the same time; with what counts and addresses, a thread has at most 255 registers."""
_VECTOR = 16
_SHARED_OPTIN = 97
_MAX_DYNAMIC_SHARED = 8
"""Attributes of a device and of a function in the driver's API."""


def source() -> str:
    """Return the kernels' PTX."""
    return f".version 7.0\n.target sm_75\n.address_size 64\n{_registers_source()}{_local_source()}"


def _registers_source() -> str:
    values = range(_LIVE)
    step = THREADS[REGISTERS_KERNEL] * _VECTOR
    filled = "".join(f"    mad.lo.u32 %v{n}, %v{n - 1}, 1664525, {n};\n" for n in values[1:])
    mixed = "".join(f"    xor.b32 %v{n}, %v{n}, %v{(n + 1) % _LIVE};\n" for n in values)
    total = "".join(f"    xor.b32 %v0, %v0, %v{n};\n" for n in values[1:])
    return f"""
.extern .shared .align 16 .b8 room[];
.visible .entry {REGISTERS_KERNEL}(.param .u32 seed, .param .u32 bytes, .param .u32 rounds)
.maxntid {THREADS[REGISTERS_KERNEL]}, 1, 1
{{
    .reg .pred %done;
    .reg .b32 %v<{_LIVE}>, %seed, %at, %end, %rounds;
    ld.param.u32 %seed, [seed];
    ld.param.u32 %end, [bytes];
    ld.param.u32 %rounds, [rounds];
    mov.u32 %v0, %tid.x;
    mov.u32 %at, room;
    add.u32 %end, %at, %end;
    mad.lo.u32 %at, %v0, {_VECTOR}, %at;
fill:
    setp.ge.u32 %done, %at, %end;
    @%done bra filled;
    st.shared.v4.u32 [%at], {{%seed, %at, %seed, %at}};
    add.u32 %at, %at, {step};
    bra.uni fill;
filled:
    bar.sync 0;
    add.u32 %v0, %v0, %seed;
{filled}mix:
{mixed}    sub.u32 %rounds, %rounds, 1;
    setp.ne.u32 %done, %rounds, 0;
    @%done bra mix;
{total}    setp.eq.u32 %done, %v0, %seed;
    @%done st.shared.u32 [room], %v0;
    ret;
}}
"""


def _local_source() -> str:
    return f"""
.visible .entry {LOCAL_KERNEL}(.param .u32 seed, .param .u32 bytes, .param .u32 rounds)
.maxntid {THREADS[LOCAL_KERNEL]}, 1, 1
.minnctapersm 2
{{
    .local .align 16 .b8 kept[{LOCAL_BYTES}];
    .shared .align 4 .b8 seen[4];
    .reg .pred %done;
    .reg .b32 %seed, %at, %begin, %end, %one, %all;
    ld.param.u32 %seed, [seed];
    mov.u32 %begin, kept;
    add.u32 %end, %begin, {LOCAL_BYTES};
    mov.u32 %at, %begin;
write:
    st.local.v4.u32 [%at], {{%seed, %at, %seed, %at}};
    add.u32 %at, %at, {_VECTOR};
    setp.lt.u32 %done, %at, %end;
    @%done bra write;
    mov.u32 %all, 0;
read:
    sub.u32 %at, %at, 4;
    ld.local.u32 %one, [%at];
    xor.b32 %all, %all, %one;
    setp.gt.u32 %done, %at, %begin;
    @%done bra read;
    setp.eq.u32 %done, %all, %seed;
    @%done st.shared.u32 [seen], %all;
    ret;
}}
"""


class Scrub:
    """The kernels on one GPU, on the default stream. Looks up its functions at creation: create it before a candidate's
    code runs. Where the driver cannot compile them it does nothing.
    """

    def __init__(self, device: str, driver: Any = None) -> None:
        import torch

        properties = torch.cuda.get_device_properties(device)
        self._launches: list[Any] = []
        number, module, shared = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        if driver is None or driver.cuModuleLoadData(ctypes.byref(module), source().encode()):
            return
        driver.cuCtxGetDevice(ctypes.byref(number))
        driver.cuDeviceGetAttribute(ctypes.byref(shared), _SHARED_OPTIN, number)
        processors, threads = properties.multi_processor_count, properties.max_threads_per_multi_processor
        given = [ctypes.c_uint32(secrets.randbits(32)), shared, ctypes.c_uint32(1)]
        arguments = (ctypes.c_void_p * len(given))(*map(ctypes.addressof, given))
        self._kept = given, arguments
        self._launch = driver.cuLaunchKernel
        self._launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
        # The first takes all shared memory of a multiprocessor, so each gets one block of as many as there are.
        blocks = {REGISTERS_KERNEL: (processors, shared.value), LOCAL_KERNEL: (processors * (threads // 512), 0)}
        for name, (count, dynamic) in blocks.items():
            function = ctypes.c_void_p()
            if driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()):
                continue
            if dynamic and driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, dynamic):
                continue
            self._launches.append((function, count, 1, 1, THREADS[name], 1, 1, dynamic, None, arguments, None))

    @property
    def kernels(self) -> int:
        """Number of kernels that can be launched."""
        return len(self._launches)

    def scrub(self) -> None:
        """Launch the kernels; returns before they have run."""
        for launch in self._launches:
            if code := self._launch(*launch):
                raise RuntimeError(f"a GPU's multiprocessors could not be scrubbed (CUDA driver error {code})")
