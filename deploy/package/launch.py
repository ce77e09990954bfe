"""Launches Triton kernels: visible to torch.compile while it traces, with little work for Python otherwise.

`visible_launch(kernel)[grid](...)`, which is `launch`, stands in the kernels' files for `kernel[grid](...)`. Triton
examines every argument of every launch; here that is done once for each set of dtypes, alignments and numbers, and the
compiled kernel is launched from then on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from .plan import recorder

MOST = 1024
"""Compiled kernels that are remembered for each kernel."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_LAUNCHERS: dict[int, Launcher] = {}


def launch(kernel: Any) -> Launcher:
    """Return the launcher of a module's kernel, which lives as long as the process."""
    found = _LAUNCHERS.get(id(kernel))
    if found is None:
        found = _LAUNCHERS[id(kernel)] = Launcher(kernel)
    return found


class Launcher:
    """Launches one kernel."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        # An autotuner, heuristics and the interpreter choose anew at every launch.
        self._plain = type(kernel).__name__ == "JITFunction" and not kernel.pre_run_hooks
        parameters = inspect.signature(kernel.fn).parameters if self._plain else {}
        self._names = list(parameters)
        self._defaults = {name: item.default for name, item in parameters.items()}
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self._launch, grid)

    def _launch(self, grid: Any, *arguments: Any, **options: Any) -> None:
        values = (*arguments, *options.values())
        if any(isinstance(item, torch.Tensor) and type(item) not in _PLAIN for item in values):
            torch.library.wrap_triton(self._kernel)[grid](*arguments, **options)
            return
        noting = recorder()
        if not self._plain:
            if noting is not None:
                noting.refuse()
            self._kernel[grid](*arguments, **options)
            return
        key = self._key(values, tuple(options))
        compiled = None if key is None else self._compiled.get(key)
        if compiled is not None or noting is not None:
            bound = [*arguments]
            for name in self._names[len(arguments) :]:
                bound.append(options[name] if name in options else self._defaults[name])
        launched = compiled is None
        if compiled is None:
            compiled = self._kernel[grid](*arguments, **options)
            if key is not None:
                if len(self._compiled) >= MOST:
                    self._compiled.clear()
                self._compiled[key] = compiled
            if noting is None:
                return
        if callable(grid):
            grid = grid(dict(zip(self._names, bound, strict=True)))
        runner = compiled[(*grid, 1, 1)[:3]]
        if not launched:
            runner(*bound)
        if noting is not None:
            noting.launch(runner, bound)

    def _key(self, values: tuple[Any, ...], options: tuple[str, ...]) -> tuple[Any, ...] | None:
        """Return everything on which Triton specialises a kernel; None for arguments of unknown kinds."""
        found: list[Any] = [options]
        for value in values:
            kind = type(value)
            if kind in _PLAIN:
                found += (value.dtype, value.device.index, value.data_ptr() % 16 == 0)
            elif value is None or kind in (int, float, bool, str) or kind.__module__.startswith("triton.language"):
                found += (kind, value)
            else:
                return None
        return tuple(found)
