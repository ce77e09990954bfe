"""Runs a function of generated C in a process of its own, on memory that the test can look at afterwards.

The arguments are a library, a function's name, a file, whose middle the function gets as X, I and Y of 32 bytes each,
and the number n.
"""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys

MARGIN = 1 << 16
"""Bytes before and behind each of the three."""
SIZE = 32


def main() -> None:
    library, name, path, number = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pointers = [ctypes.c_void_p(base + MARGIN + place * (MARGIN + SIZE)) for place in range(3)]
    ctypes.CDLL(library)[name](*pointers, int(number))
    sys.stdout.write("returned")


if __name__ == "__main__":
    main()
