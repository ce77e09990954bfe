"""The rules of the static check: what each refuses, what it protects, and the alternative."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...core import Rejection

_WIDTH = 100


@dataclass(frozen=True)
class SourceRule:
    """One kind of code that no correct kernel needs."""

    name: str
    does: str
    """Completes the sentence that begins with the finding: 'torch.mm ...'."""
    instead: str
    """The alternative; '{language}' is the kernel's."""

    def broken(self, what: str, node: ast.AST, lines: list[str], language: str = "") -> Rejection:
        """Return the rejection for a node of the syntax tree; `lines` are those of the source."""
        number: int = getattr(node, "lineno", 1)
        line = lines[number - 1].strip() if number <= len(lines) else ""
        line = line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
        why = f"{what} {self.does}; {self.instead.format(language=language)}"
        return Rejection(rule=self.name, where=f"line {number}: {line}", why=why)


_RULES = (
    SourceRule(
        "patched-function",
        "changes what others rely on: the timer, the comparison and every library stay as they are",
        "keep changes to objects that the kernel's file defines",
    ),
    SourceRule(
        "timer",
        "reads or stops a clock, and a kernel that knows when it is timed cannot be timed",
        "leave timing to the evaluator",
    ),
    SourceRule(
        "stream",
        "moves work to where the timer may not wait for it, or replays it",
        "launch on the current stream, each time that forward is called",
    ),
    SourceRule(
        "background-thread",
        "lets work go on when forward has returned",
        "let forward do the work itself (a kernel for the CPU may split a grid over a "
        "concurrent.futures.ThreadPoolExecutor)",
    ),
    SourceRule(
        "background-process",
        "starts or controls another process, which is not timed",
        "do the work in forward",
    ),
    SourceRule(
        "introspection",
        "looks into the program that runs the kernel, where the expected results and the timer could be found",
        "use what forward is given",
    ),
    SourceRule(
        "dynamic-code",
        "runs code that cannot be read here",
        "write the code into the kernel's file",
    ),
    SourceRule(
        "hidden-name",
        "hides which function is called",
        "name the function in the code",
    ),
    SourceRule(
        "file-access",
        "reads or writes files, which could carry results from one run to the next",
        "compute from the inputs alone",
    ),
    SourceRule(
        "network",
        "reaches other machines",
        "compute from the inputs alone",
    ),
    SourceRule(
        "operating-system",
        "asks or changes the system around the kernel",
        "leave it out (os.cpu_count and platform are allowed)",
    ),
    SourceRule(
        "environment",
        "reads or changes environment variables, which steer the evaluator and the libraries",
        "use module constants",
    ),
    SourceRule(
        "global-state",
        "changes or reads state that belongs to the evaluator, such as seeds, default dtypes or threads",
        "pass a generator, dtype or device to the call that needs it",
    ),
    SourceRule(
        "lazy-result",
        "makes tensors that compute when they are read, not when they are timed",
        "return plain tensors",
    ),
    SourceRule(
        "reference-model",
        "is the evaluator's or the problem's own code, and a kernel has to replace that",
        "compute the result in the kernel's file",
    ),
    SourceRule(
        "other-language",
        "brings in code of another language than the one declared",
        "write it in {language}",
    ),
    SourceRule(
        "other-library",
        "gives the work to another library",
        "write it in {language}",
    ),
    SourceRule(
        "torch-compiler",
        "lets torch write the kernel",
        "write it in {language}, or allow it with --allow-torch all",
    ),
    SourceRule(
        "torch-operator",
        "does the work of the kernel",
        "write it in {language}, or allow it with --allow-torch all",
    ),
    SourceRule(
        "torch-computes",
        "computes, and --allow-torch none leaves allocation and views only",
        "write it in {language}, or allow it with --allow-torch glue",
    ),
    SourceRule(
        "unreadable",
        "is nested too deeply to be checked",
        "write it in shorter expressions",
    ),
)
RULES = {rule.name: rule for rule in _RULES}
"""Rules by name, in the order of the documentation."""
