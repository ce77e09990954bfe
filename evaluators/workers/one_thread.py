"""Writes tensors with one thread, which leaves no others spinning behind."""

from __future__ import annotations

import ctypes
import functools
from types import TracebackType
from typing import Any


class OneThread:
    """A context in which torch's operators on a CPU use the calling thread only; no effect without OpenMP.

    `torch.set_num_threads` would set up other libraries anew, each time. Create the first one before a candidate's code
    is loaded, which could replace what this uses.
    """

    def __init__(self) -> None:
        self._threads, self._set_threads = _openmp()
        self._before = 0

    def __enter__(self) -> None:
        self._before = self._threads()
        self._set_threads(1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._set_threads(self._before)


@functools.cache
def _openmp() -> tuple[Any, Any]:
    """Return OpenMP's functions that return and set the number of threads of the calling thread's next region."""
    import torch  # noqa: F401  (makes the symbols of its OpenMP library visible)

    library = ctypes.CDLL(None)
    try:
        return library.omp_get_max_threads, library.omp_set_num_threads
    except AttributeError:
        return lambda: 1, lambda number: None
