"""Proof that the candidate's own kernel ran: counts its launches and tells its kernels from a library's.

Names alone prove little (anyone can name a kernel like cuBLAS's), so names that libraries use never count as the
candidate's, and `torch_share` checks the work of torch beside the kernel.
"""

from __future__ import annotations

import ast
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ...core import KernelProfile, Rejection
from ..settings import AllowTorch

LIBRARY_SHARE = 0.5
"""With glue allowed, libraries may take this share of the device time, not counting copies and fills."""
_FEW_MS = 5.0
_OWN_SHARE = 0.1
_LIBRARIES = re.compile(
    r"^(nvjet_|sm\d+_(xmma|cudnn)|(ampere|volta|turing|maxwell|cutlass)_\w*\d+x\d+|cudnn_|triton_(poi|per|red|tem|spl)_"
    r"|void |_Z)"
)
"""Prefixes of kernels of cuBLAS, cuDNN, CUTLASS and Inductor whose names a source could also use."""
_MOVING = re.compile(
    r"^Mem(cpy|set)|FillFunctor|direct_copy_kernel|CatArrayBatchedCopy|LoadWithCast|bfloat16_copy_kernel|"
    r"float16_copy_kernel|float8_copy_kernel|constant_pad|triton_\w*clone"
)
"""Fills and copies of the same values: their cost is checked through the operators that requested them."""


class LaunchCounter:
    """Counts the launches of one call: `with counter: call()`; `counter.counts` has them by name.

    A TileLang kernel has the name of its function. Nothing is replaced outside the `with`, so timed calls run at full
    speed; do not use it while anything is timed.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.counts: Counter[str] = Counter()
        self.own_ms: float | None = None
        """Host ms within launches, concurrent threads counted once; None on a GPU, which computes after the launch."""
        self.call_ms = 0.0
        """Host ms of everything within the `with`."""
        self._intervals: list[tuple[float, float]] = []
        self._replaced = contextlib.ExitStack()
        self._start = 0.0

    def __enter__(self) -> LaunchCounter:
        self.counts.clear()
        self._intervals.clear()
        self._replaced = contextlib.ExitStack()
        for context in (_triton_counted(self._counted), _tilelang_counted(self._counted)):
            self._replaced.enter_context(context)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.call_ms = (time.perf_counter() - self._start) * 1e3
        self._replaced.close()
        self.own_ms = None if self.device.startswith("cuda") else _covered(self._intervals) * 1e3

    def _counted(self, name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] += 1
            start = time.perf_counter()
            try:
                return launch(*args, **kwargs)
            finally:
                self._intervals.append((start, time.perf_counter()))

        return counted


_Counted = Callable[[str, Callable[..., Any]], Callable[..., Any]]


@contextlib.contextmanager
def _triton_counted(counted: _Counted) -> Iterator[None]:
    """Replace `JITFunction.run`, the interpreter's, and launches of what `warmup` compiled."""
    try:
        from triton.compiler.compiler import CompiledKernel
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
        _replaced(JITFunction, "run", counting),
        _replaced(InterpretedFunction, "run", counting),
        _replaced(CompiledKernel, "__getitem__", counting_grids),
    ):
        yield


@contextlib.contextmanager
def _tilelang_counted(counted: _Counted) -> Iterator[None]:
    """Wrap the function that each compiled kernel holds, however it is called."""
    try:
        from tilelang.jit.kernel import JITKernel
    except ImportError:
        yield
        return

    def read(kernel: Any) -> Any:
        function = vars(kernel).get("torch_function")
        return function and counted(_tilelang_name(kernel), function)

    def assign(kernel: Any, function: Any) -> None:
        vars(kernel)["torch_function"] = function

    # The constructors assign the function to the kernel; a property takes precedence over the assigned value.
    with _replaced(JITKernel, "torch_function", lambda _: property(read, assign)):
        yield


def _tilelang_name(kernel: Any) -> str:
    with contextlib.suppress(Exception):  # a kernel from the disk cache may lack its name
        return str(kernel.prim_func.attrs["global_symbol"])
    return "kernel"


@contextlib.contextmanager
def _replaced(owner: type, name: str, replacement: Callable[[Any], Any]) -> Iterator[None]:
    really = vars(owner)[name]
    setattr(owner, name, replacement(really))
    try:
        yield
    finally:
        setattr(owner, name, really)


def _covered(intervals: Collection[tuple[float, float]]) -> float:
    """Return the length of the union."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def own_names(source: str) -> set[str]:
    """Return the names of the Triton and TileLang functions that a source defines, found by their decorators.

    Empty for invalid Python. Names that a library could use are left out: see `is_own`.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_makes_kernels(decorator) for decorator in node.decorator_list):
                names.add(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "with_attr":
            given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            if len(given) == 2 and given[0] == "global_symbol":
                names.add(str(given[1]))
    return {name for name in names if not _LIBRARIES.search(name)}


def _makes_kernels(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("jit", "lazy_jit", "prim_func", "autotune", "heuristics")


def is_own(kernel_name: str, names: Collection[str]) -> bool:
    """Return whether the profiler's kernel is one of the `own_names`.

    Triton names a kernel like its function; TileLang appends '_kernel', or '_kernel_1' and so on for several.
    Neither uses C++ mangling, so a library's name that contains the word does not match.
    """
    base = re.sub(r"_kernel(_\d+)?$", "", kernel_name)
    return not _LIBRARIES.search(kernel_name) and (kernel_name in names or base in names)


def proof_violation(
    profile: KernelProfile | None, launches: Mapping[str, int], allow_torch: AllowTorch
) -> Rejection | None:
    """Check the rules 'no-own-kernel' and 'library-share' by the profiler's table or, without it, by launches."""
    if allow_torch is AllowTorch.ALL:
        return None
    ours = profile.own_share if profile is not None else sum(launches.values())
    if not ours:
        ran = ", ".join(kernel.name[:60] for kernel in profile.kernels[:3]) if profile is not None else ""
        return Rejection(
            rule="no-own-kernel",
            where=f"one call: {ran or 'nothing'} ran" if profile is not None else "one call: nothing was launched",
            why="no kernel that the source defines ran; a call must do its work in one, not in a library or in Python",
        )
    if profile is None:
        return None
    own_ms = sum(kernel.time_ms for kernel in profile.kernels if kernel.own)
    library = [kernel for kernel in profile.kernels if not kernel.own and not _MOVING.search(kernel.name)]
    library_ms = sum(kernel.time_ms for kernel in library)
    most = 0.0 if allow_torch is AllowTorch.NONE else LIBRARY_SHARE
    if library and library_ms > most * (own_ms + library_ms):
        share = library_ms / (own_ms + library_ms)
        return Rejection(
            rule="library-share",
            where=f"one call: {library[0].name[:80]}",
            why=f"library kernels take {share:.0%} of the device time, and may take {most:.0%}; do their work in the "
            "kernel, or allow it with --allow-torch all",
        )
    return None


def python_violation(call_ms: float, own_ms: float, allow_torch: AllowTorch) -> Rejection | None:
    """Check the rule 'no-own-kernel': a call on the CPU that spends nearly all its time outside compiled kernels.

    For TileLang on the CPU, whose kernel time is known. Calls under a few milliseconds pass, since Python's share is
    large in any kernel then.
    """
    if allow_torch is AllowTorch.ALL or call_ms - own_ms < _FEW_MS or own_ms > _OWN_SHARE * call_ms:
        return None
    return Rejection(
        rule="no-own-kernel",
        where=f"one call: {own_ms:.3g} of {call_ms:.3g} ms in compiled kernels",
        why="nearly all of the time goes elsewhere: to NumPy, to Python, to a library; do the work in the kernel",
    )
