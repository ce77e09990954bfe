"""Proof that the candidate's own kernel ran: counts its launches and distinguishes its kernels from a library's.

Names alone prove little (anyone can name a kernel like cuBLAS's), so names that libraries use never count as the
candidate's, and `torch_share` checks the work of torch besides the kernel.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...core import KernelProfile, Language, Rejection, known_languages
from ...core.syntax_tree import syntax_tree
from ..languages.base import LanguageSupport, imported_supports
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

_REGISTERING = re.compile(r"\b(custom_op|triton_op)\s*\(")


class LaunchCounter:
    """Counts the launches of one call: `with counter: call()`; `counter.counts` has them by name.

    A kernel has the name of its function. Nothing is replaced outside the `with`, so timed calls run at full
    speed; do not use it while anything is timed. With `torch`, what torch's operators take in this thread counts as
    the launches' time too.
    """

    def __init__(self, device: str, torch: bool = False) -> None:
        self.device = device
        self._torch = torch
        self._languages = imported_supports()  # of now: before a candidate's code runs
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
        for support in self._languages:
            self._replaced.enter_context(support.counting(self._counted))
        if self._torch:
            self._replaced.enter_context(self._operators())
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.call_ms = (time.perf_counter() - self._start) * 1e3
        self._replaced.close()
        self.own_ms = None if self.device.startswith("cuda") else covered(self._intervals) * 1e3

    def _operators(self) -> Any:
        """Return a context that takes the time of torch's own operators."""
        from torch.utils._python_dispatch import TorchDispatchMode

        intervals = self._intervals

        class CountingMode(TorchDispatchMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                return False  # as in `profiling.op_counter`

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if func.namespace not in ("aten", "prims"):
                    with self:
                        return func(*args, **(kwargs or {}))
                start = time.perf_counter()
                try:
                    return func(*args, **(kwargs or {}))
                finally:
                    intervals.append((start, time.perf_counter()))

        return CountingMode()

    def _counted(self, name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] += 1
            start = time.perf_counter()
            try:
                return launch(*args, **kwargs)
            finally:
                self._intervals.append((start, time.perf_counter()))

        return counted


def covered(intervals: Collection[tuple[float, float]]) -> float:
    """Return the length of the union."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def own_names(source: str) -> set[str]:
    """Return the names of the functions in a kernel language that a source defines, found by their decorators.

    Empty for invalid Python. Names that a library could use are left out: see `is_own`.
    """
    try:
        tree = syntax_tree(source)
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


def registers_operators(source: str) -> bool:
    """Return whether a source registers operators of torch: their names hold for the whole process."""
    return _REGISTERING.search(source) is not None


def _makes_kernels(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return any(name in language.decorators for language in known_languages())


def is_own(kernel_name: str, names: Collection[str], languages: Sequence[LanguageSupport]) -> bool:
    """Whether the profiler's kernel is one of the `own_names`.

    No language mangles names as C++ does: a library's name that contains the word is not taken for it.
    """
    if _LIBRARIES.search(kernel_name):
        return False
    return kernel_name in names or any(language.source_name(kernel_name) in names for language in languages)


def launches_nothing(function: str, language: Language) -> Rejection:
    """Return the violation of a user's function that launches no kernel at all."""
    missing = [module for module in language.modules if importlib.util.find_spec(module) is None]
    here = f"; {missing[0]} is not installed here, so nothing of it can run" if missing else ""
    why = f"{function} launches no kernel{here or '; name the function that launches it'}"
    return Rejection(rule="no-own-kernel", where="one call: nothing was launched", why=why)


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

    For kernels of the CPU, whose time is known. Calls under a few milliseconds pass, since Python's share is large in
    any kernel then.
    """
    if allow_torch is AllowTorch.ALL or call_ms - own_ms < _FEW_MS or own_ms > _OWN_SHARE * call_ms:
        return None
    return Rejection(
        rule="no-own-kernel",
        where=f"one call: {own_ms:.3g} of {call_ms:.3g} ms in compiled kernels",
        why="nearly all of the time goes elsewhere: to NumPy, to Python, to a library; do the work in the kernel",
    )
