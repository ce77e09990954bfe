"""Proof that the candidate's own kernel ran: its launches counted, its kernels told from a library's.

Names alone prove little (anyone can name a kernel like cuBLAS's), so those that libraries use are never the
candidate's, and what torch did beside the kernel is judged by `torch_share`.
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
"""With glue allowed, libraries may take so much of the device time, copies and fills aside."""
_FEW_MS = 5.0
_OWN_SHARE = 0.1
_LIBRARIES = re.compile(
    r"^(nvjet_|sm\d+_(xmma|cudnn)|(ampere|volta|turing|maxwell|cutlass)_\w*\d+x\d+|cudnn_|triton_(poi|per|red|tem|spl)_"
    r"|void |_Z)"
)
"""How kernels of cuBLAS, cuDNN, CUTLASS and Inductor begin that are named as a source could name its own."""
_MOVING = re.compile(
    r"^Mem(cpy|set)|FillFunctor|direct_copy_kernel|CatArrayBatchedCopy|LoadWithCast|bfloat16_copy_kernel|"
    r"float16_copy_kernel|float8_copy_kernel|constant_pad|triton_\w*clone"
)
"""Fills and copies of the same values: what they cost is judged by the operators that asked for them."""


class LaunchCounter:
    """Counts the launches of one call: `with counter: call()`; `counter.counts` has them by name.

    A TileLang kernel's name is that of its function. Nothing is replaced outside the `with`, so timed calls are as
    fast as ever; it is not for use while anything is timed.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.counts: Counter[str] = Counter()
        self.own_ms: float | None = None
        """Host time within launches, threads side by side counted once; None on a GPU, which computes after them."""
        self.call_ms = 0.0
        """Host time of everything within the `with`."""
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
    """`JITFunction.run` and the interpreter's, and launches of what `warmup` compiled."""
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
    """The function that each compiled kernel holds, however it is called."""
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

    # The constructors assign the function to the kernel; a property goes before what is assigned.
    with _replaced(JITKernel, "torch_function", lambda _: property(read, assign)):
        yield


def _tilelang_name(kernel: Any) -> str:
    with contextlib.suppress(Exception):  # what was read from the disk cache may know less of itself
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
    """The length of the union."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def own_names(source: str) -> set[str]:
    """Names of the Triton and TileLang functions that a source defines, by their decorators.

    Empty for a source that is no Python. A name that a library could have is left out: see `is_own`.
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
    """Whether the profiler's kernel is one of the `own_names`.

    Triton names a kernel like its function; TileLang like its function with '_kernel', and '_kernel_1' and so on when
    it has several. Both without C++'s mangling: a library's name that contains the word is not taken for it.
    """
    base = re.sub(r"_kernel(_\d+)?$", "", kernel_name)
    return not _LIBRARIES.search(kernel_name) and (kernel_name in names or base in names)


def proof_violation(
    profile: KernelProfile | None, launches: Mapping[str, int], allow_torch: AllowTorch
) -> Rejection | None:
    """The rules 'no-own-kernel' and 'library-share', by the profiler's table or, without it, by launches."""
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
    """The rule 'no-own-kernel' when a call on the CPU spends nearly all its time outside compiled kernels.

    For TileLang on the CPU, whose own time is known: a call of less than a few milliseconds is not judged, since
    Python's part of it is large in any kernel.
    """
    if allow_torch is AllowTorch.ALL or call_ms - own_ms < _FEW_MS or own_ms > _OWN_SHARE * call_ms:
        return None
    return Rejection(
        rule="no-own-kernel",
        where=f"one call: {own_ms:.3g} of {call_ms:.3g} ms in compiled kernels",
        why="nearly all of the time goes elsewhere: to NumPy, to Python, to a library; do the work in the kernel",
    )
