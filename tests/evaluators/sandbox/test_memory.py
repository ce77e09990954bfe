"""The limit of a worker's memory holds for memory of every kind; what it would not count is refused."""

from __future__ import annotations

from .conftest import BWRAP_ALONE, Untrusted

MAPPED = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
SIZE, FAILED = 3 << 29, ctypes.c_void_p(-1).value
GROWS_DOWN = 0x100
def mapped(flags, fd=-1):
    address = libc.mmap(None, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    return address != FAILED and ctypes.memset(address + SIZE - 4096, 1, 1) > 0
def memory_file():
    fd = os.memfd_create("large")
    os.ftruncate(fd, 200 << 20)  # below the limit of files
    return fd
def named():
    fd = os.open("/dev/shm/kernelwright-large", os.O_RDWR | os.O_CREAT)
    os.unlink("/dev/shm/kernelwright-large")
    return fd
ways = {
    "private": lambda: mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
    "a stack": lambda: mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | GROWS_DOWN),
    "shared": lambda: mapped(mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
    "shared, validated": lambda: mapped(3 | mmap.MAP_ANONYMOUS),
    "/dev/zero": lambda: mapped(mmap.MAP_SHARED, os.open("/dev/zero", os.O_RDWR)),
    "a file in memory": memory_file,
    "a named file in memory": named,
}
got = []
for name, way in ways.items():
    try:
        if way():
            got.append(name)
    except OSError:
        pass
"""


def test_no_memory_is_beyond_the_limit(untrusted: Untrusted, sandbox: str) -> None:
    """The limit is 1 GiB, and each of these would be half as much again, or without an end in several files."""
    remains = ["/dev/zero"] if sandbox == BWRAP_ALONE else []
    assert untrusted(f"{MAPPED}return got") == remains


def test_memory_below_the_limit_is_there(untrusted: Untrusted) -> None:
    assert untrusted("held = bytearray(512 << 20)\nreturn len(held)") == 512 << 20
