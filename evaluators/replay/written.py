"""Which of its tensors a kernel may write to, by its generated C: launches that share what both only read are parallel.

What is said here orders the steps of a recording, whose results are compared: nothing depends on its being right.
"""

from __future__ import annotations

import re

from ...core.launch_plan import KernelCode

_STATEMENT = re.compile(r"[;{}]")
_ASSIGNMENT = re.compile(r"(?<![<>=!])=(?!=)|\+\+|--")
_NAME = re.compile(r"[A-Za-z_]\w*")


def written_positions(code: KernelCode) -> frozenset[int]:
    """Return the positions of the arguments that a launch may write to; all where the code is not generated C.

    A parameter counts as read only where it is indexed, or an index is added to it, on the right of an assignment.
    """
    everything = frozenset(range(len(code.parameters)))
    heads = [*re.finditer(rf"\b{re.escape(code.entry)}\s*\(([^)]*)\)\s*\{{", code.text)] if code.kind == "c" else []
    if len(heads) != 1:
        return everything
    names = [(_NAME.findall(part) or [""])[-1] for part in heads[0][1].split(",")]
    if len(names) != len(code.parameters) or len({*names}) != len(names):
        return everything
    body = code.text[heads[0].end() :]
    found = set()
    for statement in _STATEMENT.split(body):
        assignments = [*_ASSIGNMENT.finditer(statement)]
        found |= {*_NAME.findall(statement[: assignments[-1].end()])} if assignments else set()
    return frozenset(at for at, name in enumerate(names) if name in found or _escapes(name, body))


def _escapes(name: str, body: str) -> bool:
    """Return whether a name stands anywhere but before an index: a function could be given its address."""
    uses = len(re.findall(rf"\b{re.escape(name)}\b", body))
    plain = re.findall(rf"(?<![&\w])\(?\b{re.escape(name)}(?:\[|\s\+)", body)
    addresses = re.findall(rf"&\s*\(*\s*{re.escape(name)}\b", body)
    return len(plain) != uses or bool(addresses)
