"""Selects the relevant output of a failure, and the lines of the kernel around its place."""

from __future__ import annotations

import re

from ...core import Evaluation, Kernel, known_languages, source_lines

AROUND = 4
MOST = 4
LOG_LINES = 20
GIST = 200
# An evaluator's line for each frame in the kernel's file: 'line 12: x = y'.
_FRAME = re.compile(r"^line (\d+): (.*)$", re.MULTILINE)
# How Python and compilers name files; the evaluator names the kernel's file kernel_N.py.
_FILE = re.compile(r"kernel_\d+\.py(?:\", line |:)(\d+)")


def error_context(kernel: Kernel, evaluation: Evaluation) -> str:
    """Return the message, and the source lines that it and the log name, with these places marked."""
    parts = [f"{evaluation.status}: {evaluation.message}"]
    lines = source_lines(kernel.source)
    if places := _places(lines, evaluation):
        parts.append(_excerpt(lines, places))
    else:
        parts.append("it names no line of the kernel")
    if log := last_lines(evaluation.log):
        parts.append(f"the last lines of its output:\n{log}")
    return "\n\n".join(parts)


def last_lines(log: str) -> str:
    """Return the end of a kernel's and its compiler's output, without irrelevant lines."""
    if any(language.noise and language.noise in log for language in known_languages()):
        return ""
    return "\n".join(log.strip().splitlines()[-LOG_LINES:])


def gist(message: str) -> str:
    """Return a failure in one line: the compiler's reason, not the code that it repeats."""
    kind, _, rest = message.strip().partition("\n")
    # If a function calls another one, only the called one has a reason.
    if reasons := [reason for _, reason in _excerpts(message) if reason]:
        kind = f"{kind.partition('at ')[0]}{reasons[-1]}"
    elif kind.endswith(":"):
        kind = f"{kind} {rest.strip().partition(chr(10))[0]}"
    return kind if len(kind) <= GIST else f"{kind[: GIST - 3]}..."


def _places(lines: list[str], evaluation: Evaluation) -> list[int]:
    """Return the named line numbers; of many, the last ones, which are closest to the cause."""
    found = [int(number) for number in _FILE.findall(f"{evaluation.message}\n{evaluation.log}")]
    for number, text in _FRAME.findall(evaluation.message):
        if 0 < int(number) <= len(lines) and lines[int(number) - 1].strip() == text.strip():
            found.append(int(number))
    found += [_end_of(source_lines(excerpt), lines) for excerpt, _ in _excerpts(evaluation.message)]
    output = f"{evaluation.message}\n{evaluation.log}"
    found += [int(number) for language in known_languages() for number in re.findall(language.log_line, output)]
    known = dict.fromkeys(number for number in found if 0 < number <= len(lines))
    return list(known)[-MOST:]


def _excerpts(message: str) -> list[tuple[str, str]]:
    """Excerpts of the source in compiler messages, up to the refused line, with the reason."""
    return [found for language in known_languages() for found in re.findall(language.excerpt, message)]


def _end_of(excerpt: list[str], lines: list[str]) -> int:
    """Return the number of the last line of an excerpt; 0 if the lines do not contain it."""
    wanted = [line.strip() for line in excerpt]
    present = [line.strip() for line in lines]
    ends = range(len(wanted), len(present) + 1) if wanted else ()
    return next((end for end in ends if present[end - len(wanted) : end] == wanted), 0)


def _excerpt(lines: list[str], places: list[int]) -> str:
    """Return the lines around the places, each once, with the places marked."""
    shown = sorted({n for place in places for n in range(place - AROUND, place + AROUND + 1) if 0 < n <= len(lines)})
    parts: list[str] = []
    for before, number in zip([0, *shown], shown, strict=False):
        if before and number > before + 1:
            parts.append("  ...")
        parts.append(f"{'>' if number in places else ' '} {number:4d} | {lines[number - 1]}")
    return "\n".join(parts)
