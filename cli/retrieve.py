"""`kernelwright retrieve`: worked optimizations, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.options.retrieve import RetrieveOptions
from ..api.retrieve import run_retrieve
from ..core import Hit
from .parameters import chosen
from .render import Display, Screen


def show_retrieve(given: Mapping[str, Any], source: bool, display: Display) -> int:
    """Print what is found; 0 when something is."""
    screen = Screen(display)
    hits = run_retrieve(chosen(given, RetrieveOptions), screen.emit)
    if display.json:
        display.print_json({"examples": [_record(hit) for hit in hits]})
        return 0 if hits else 1
    for hit in hits:
        example = hit.example
        screen.print(f"[bold]{escape(example.slug)}[/]: {escape(example.title)}")
        screen.print(escape(f"  {', '.join(example.techniques)}; {example.gain or 'not measured'}"))
        screen.print(escape(f"  {hit.why}"))
        screen.print(escape(f"  {example.story}"))
        if source:
            screen.print(escape(example.after))
    return 0 if hits else 1


def _record(hit: Hit) -> dict[str, Any]:
    example = hit.example
    return {
        "example": example.slug,
        "title": example.title,
        "score": hit.score,
        "why": hit.why,
        "techniques": list(example.techniques),
        "category": example.category,
        "story": example.story,
        "gain": example.gain.model_dump(mode="json") if example.gain else None,
        "before": example.before,
        "after": example.after,
    }
