"""The console that text goes to; apart from `render`, since that imports far more than a replay needs."""

from __future__ import annotations

from rich.console import Console


def console(stderr: bool = False) -> Console:
    """A console that does not cut tables to 80 columns where there is no terminal to fit into."""
    plain = Console(stderr=stderr, highlight=False)
    return plain if plain.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=160)
