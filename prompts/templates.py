"""Instruction texts: Jinja2 templates in Markdown files in this folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all templates, such as 'rewrite' and 'tools/evaluate', sorted."""
    files = [path.relative_to(_FOLDER) for folder in (".", "tools") for path in (_FOLDER / folder).glob("*.md")]
    return sorted(path.with_suffix("").as_posix() for path in files)


def render(name: str, **values: object) -> str:
    """Render the template `name`, without a final newline.

    The values must be exactly the template's variables. Raises `ValueError`, which names the template, for a template
    that does not exist, a variable without a value, or a value without a variable: a model would otherwise get an
    incomplete text unnoticed.
    """
    from jinja2 import UndefinedError

    if name not in names():
        raise ValueError(f"no template {name!r}; there are {', '.join(names())}")
    template, variables = _compiled(_FOLDER / f"{name}.md")
    if missing := sorted(variables - values.keys()):
        raise ValueError(f"template {name!r} needs a value for {', '.join(missing)}")
    if unused := sorted(values.keys() - variables):
        raise ValueError(f"template {name!r} does not use {', '.join(unused)}")
    try:
        return template.render(values)
    except UndefinedError as error:
        raise ValueError(f"template {name!r}: {error}") from None


@functools.cache
def _compiled(path: Path) -> tuple[Template, set[str]]:
    """Return a template and its variables; for a program a dozen are rendered."""
    from jinja2 import Environment, StrictUndefined
    from jinja2.meta import find_undeclared_variables

    environment = Environment(undefined=StrictUndefined)
    text = path.read_text(encoding="utf-8")
    return environment.from_string(text), find_undeclared_variables(environment.parse(text))
