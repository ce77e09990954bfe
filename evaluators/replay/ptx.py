"""PTX: what it may contain.

The text comes from the candidate's process, so nothing in it is believed. A kernel may compute what it likes on its
arguments; it may have no variables that outlive a launch, call no function that it does not contain, and read no clock.
"""

from __future__ import annotations

import re

from ...core.launch_plan import KernelCode
from ..timing.scrub import LOCAL_BYTES
from .values import UnplannableCallError

_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
"""Comments and names of files."""
_DEBUG_DATA = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_POINTER = re.compile(r"\.ptr\s+\.\w+")
"""The state space that a parameter points to."""
_DIRECTIVES = re.compile(r"(?<![\w$%])(?:\.[A-Za-z_]\w*)+")
"""Directives, also joined (`.visible.global`); in an instruction (`ld.global`) a word precedes the point."""
_KEPT = frozenset({"global", "const", "tex", "texref", "surfref", "samplerref", "alias", "section"})
"""Directives that declare what outlives a launch, or what is not seen here."""
_TABLE = re.compile(r"\.global\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\d+\]\s*=\s*\{[\d,\s]*\}\s*;")
"""Constant tables of NVIDIA's library: digits of 2/pi, for reducing large arguments of sine and cosine."""
_UNKNOWN = re.compile(r"\.extern\b(?!\s*\.shared\b)|\bvprintf\b|\bmalloc\b|\bcudaLaunch\w+|\bcnp\w+")
_TELLING = re.compile(r"%(?:clock|globaltimer|pm\d|gridid|envreg|current_graph_exec)\w*")
"""Registers that count time, events or launches, or tell how a kernel was launched. PTX cannot put names together."""
_LOCAL = re.compile(r"(?<![\w$%])\.local\b[^;]*?\.[a-z](?P<bits>\d+)\s+[\w$]+(?:\[(?P<count>\d+)\])?")
"""Declarations of local memory."""
_INDIRECT = re.compile(r"\.(?:callprototype|calltargets)\b")
"""Declarations for calls of an address."""
_FUNCTION = re.compile(r"\.(?:func|entry)\b")
_NAME = re.compile(r"%?[\w$]+")
_LOAD = re.compile(r"(?<![\w$%.])ldu?\.")
_ON_ADDRESSES = re.compile(r"(?<![\w$%.])(?:mov|cvta?|add|sub|mad|selp)\.[\w.:]+\s+(?P<written>\{[^{}]*\}|%?[\w$]+)")


def require_ptx(code: KernelCode) -> None:
    """Raise `UnplannableCallError` where PTX contains anything that is not allowed."""
    if _ENTRY.findall(_SKIPPED.sub(" ", code.text)) != [code.entry]:
        raise UnplannableCallError(f"{code.name}: PTX with other kernels than the one that is launched")
    require_only_computes(code.name, code.text)


def checked_ptx(code: KernelCode) -> str:
    """Return PTX that passes `require_ptx`."""
    require_ptx(code)
    return code.text


def require_only_computes(name: str, text: str) -> None:
    """Raise `UnplannableCallError` where PTX keeps something beyond a launch, leaves its kernels, or reads a clock."""
    text = _POINTER.sub(".ptr", _DEBUG_DATA.sub(" ", _SKIPPED.sub(" ", text)))
    for pattern in (_UNKNOWN, _TELLING, _INDIRECT):
        if (found := pattern.search(text)) is not None:
            raise UnplannableCallError(f"{name}: PTX with '{found[0].strip()}'")
    local = sum(int(match["bits"]) // 8 * int(match["count"] or 1) for match in _LOCAL.finditer(text))
    if local > LOCAL_BYTES:
        raise UnplannableCallError(f"{name}: PTX with {local} bytes of local memory, which outlive a launch")
    tables = {match[1] for match in _TABLE.finditer(text)}
    text = _TABLE.sub(" ", text)
    for chain in _DIRECTIVES.findall(text):
        if kept := _KEPT.intersection(chain.split(".")):
            raise UnplannableCallError(f"{name}: PTX with '.{min(kept)}', which outlives a launch")
    # Registers belong to one function, and what passes an address to another is refused.
    if tables and not all(_only_reads(body, tables) for body in _FUNCTION.split(text)):
        raise UnplannableCallError(f"{name}: PTX that may write to {min(tables)}, which outlives a launch")


def _only_reads(text: str, tables: set[str]) -> bool:
    """Return whether addresses of the tables are only added to, copied and loaded from."""
    addresses: set[str] = set(tables)
    while True:
        known = len(addresses)
        for statement in text.split(";"):
            if _LOAD.search(statement) or addresses.isdisjoint(_NAME.findall(statement)):
                continue
            if (computes := _ON_ADDRESSES.search(statement)) is None:
                return False
            addresses.update(_NAME.findall(computes["written"]))
        if len(addresses) == known:
            return True
