"""The constexprs and options of the launches that a function leads to, wherever their values come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ...core import Value
from ...core.scopes import positional
from .autotuning import is_product, list_of_configs
from .launch_values import OPTIONS, OWN, is_tunable, values_of
from .modules import ModuleText, UserModules, is_kernel
from .reach import Reach
from .signatures import (
    builds_kernel,
    constexprs,
    default_of,
    heuristics,
    is_tile,
    positional_arguments,
    single_configs,
    takes_options,
)
from .sources import Site, SiteForm, Sources, constant


@dataclass(frozen=True)
class Launched:
    """A constexpr or a launch option of a kernel, and the places that give it."""

    kernel: str
    name: str
    sites: tuple[Site, ...]
    start: int
    """`OWN` where the user's code computes it."""
    values: tuple[Value, ...]
    """Values to try, including the start's."""
    constant: str = ""

    @property
    def form(self) -> SiteForm:
        """The constant's form at all of the places."""
        return self.sites[0].form


def launched(modules: UserModules, found: Reach) -> list[Launched]:
    """Return the parameters of all launches in the texts of the modules that a candidate may change."""
    sources = Sources(modules, found)
    rows: dict[tuple[Site, ...], Launched] = {}
    for module, nodes in sources.reached:
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                for row in _of_launch(sources, module, node, node.func.value):
                    rows.setdefault(row.sites, row)
            elif isinstance(node, ast.FunctionDef) and builds_kernel(node) and list_of_configs(node) is None:
                for row in _of_builder(sources, module, node):
                    rows.setdefault(row.sites, row)
    for name, kernels in found.kernels.items():
        text = sources.texts.get(name)
        for kernel in kernels if text is not None else ():
            if (name, kernel.name) in found.called:
                more = [*_of_heuristics(sources, text, kernel), *_of_config(sources, text, kernel)]  # type: ignore[arg-type]
                rows = {**{row.sites: row for row in more}, **rows}
    return _apart(list(rows.values()))


def _apart(rows: Sequence[Launched]) -> list[Launched]:
    """Return the parameters whose places no earlier one has, since a place takes one constant."""
    taken: set[Site] = set()
    found = []
    for row in rows:
        if not taken & set(row.sites):
            taken |= set(row.sites)
            found.append(row)
    return found


def _of_launch(sources: Sources, module: ModuleText, call: ast.Call, named: ast.expr) -> Iterator[Launched]:
    kernels = [found for found in sources.definitions(module, named) if is_kernel(found[1])]
    if not kernels and not any(word.arg in OPTIONS for word in call.keywords):
        return
    home, kernel = kernels[0] if kernels else (module, None)
    name = kernel.name if kernel is not None else ast.unparse(named).rpartition(".")[2]
    given = {str(word.arg): word.value for word in call.keywords if word.arg is not None}
    given |= dict(positional_arguments(call, positional(kernel))) if kernel is not None else {}
    more = [word for word in call.keywords if word.arg is None]
    unknown, in_tables = list[ast.expr](), dict[str, list[tuple[ModuleText, ast.expr]]]()
    for word in more:
        known = _entries(sources, module, word.value)
        given |= known or {}
        unknown += [word.value] if known is None else []
        for there, table in sources.entries.of(module, word.value) or () if known is None else ():
            for key, item in (_entries(sources, there, table) or {}).items():
                in_tables.setdefault(key, []).append((there, item))
    parameters = constexprs(kernel) if kernel is not None else [item for item in given if item.isupper()]
    maker = _Maker(sources, module, kernel, name)
    for parameter in parameters:
        if not is_tunable(parameter, kernel):
            continue
        if parameter in given:
            yield from maker.constexpr(parameter, given[parameter])
        elif sites := sources.entry_sites(in_tables.get(parameter, [])):
            yield from maker.row(parameter, sites)
        elif kernel is not None and (default := default_of(kernel, parameter)) is not None:
            yield from maker.at(home).constexpr(parameter, default)
        elif unknown and not maker.computed(parameter):
            yield from maker.merged(parameter, unknown[-1])
    if kernel is not None and not takes_options(kernel):
        return
    for option in OPTIONS:
        if option in given:
            yield from maker.option(option, given[option])
        elif sites := sources.entry_sites(in_tables.get(option, [])):
            yield from maker.row(option, sites)
        elif option in ("num_warps", "num_stages") and kernel is not None and not maker.computed(option):
            if option == "num_stages" and not _loops(sources, home, kernel):
                continue
            yield from maker.merged(option, unknown[-1]) if unknown else maker.added(option, call)


@dataclass(frozen=True)
class _Maker:
    """Makes the parameters of one kernel."""

    sources: Sources
    module: ModuleText
    kernel: ast.FunctionDef | None
    name: str

    def at(self, module: ModuleText) -> _Maker:
        """Return the same for values in another module."""
        return replace(self, module=module)

    def constexpr(self, name: str, value: ast.expr) -> Iterator[Launched]:
        sites = self.sources.sites(self.module, value)
        computed = not sites or sites[0].form is not SiteForm.LITERAL
        if sites and (not computed or self.kernel is None or is_tile(self.kernel, name)):
            yield from self.row(name, sites)

    def option(self, name: str, value: ast.expr) -> Iterator[Launched]:
        sites = self.sources.sites(self.module, value)
        if not sites or sites[0].form is not SiteForm.LITERAL:
            # Nothing else depends on an option, so each launch has its own.
            sites = [self.sources.site(self.module, value, SiteForm.CHOSEN)] if self._is_here() else []
        yield from self.row(name, sites)

    def added(self, name: str, call: ast.Call) -> Iterator[Launched]:
        offsets = self.sources.offsets(self.module)
        ends = [*map(offsets.end, call.args), *map(offsets.end, call.keywords)]
        if ends and self._is_here():
            at = max(ends) + _closing(offsets.data[max(ends) : offsets.end(call) - 1])
            yield from self.row(name, [Site(self.module.name, at, at, SiteForm.ADDED, name, OPTIONS[name])])

    def merged(self, name: str, value: ast.expr) -> Iterator[Launched]:
        if self._is_here():
            yield from self.row(name, [self.sources.site(self.module, value, SiteForm.MERGED, name)])

    def computed(self, name: str) -> bool:
        """Return whether a heuristic of the kernel gives a parameter."""
        return self.kernel is not None and name in dict(heuristics(self.kernel))

    def _is_here(self) -> bool:
        return self.module.name in self.sources.texts

    def row(self, name: str, sites: Sequence[Site]) -> Iterator[Launched]:
        """Yield the parameter with these places, if there is another value to try; one for each entry of a table."""
        if not sites:
            return
        if len(sites) > 1 and all(site.is_entry for site in sites):
            for site in sites:
                yield from self.row(name, [site])
            return
        single = len(sites) == 1 and sites[0].form in (SiteForm.LITERAL, SiteForm.ADDED)
        start = (sites[0].value or OWN) if single else OWN
        values = values_of(name, start, self.kernel is not None and is_product(self.kernel))
        if len(values) > 1:
            yield Launched(self.name, name, tuple(sites), start, values)


def _of_heuristics(sources: Sources, module: ModuleText, kernel: ast.FunctionDef) -> Iterator[Launched]:
    maker = _Maker(sources, module, kernel, kernel.name)
    for name, value in heuristics(kernel):
        if not (is_tunable(name, kernel) or name in OPTIONS):
            continue
        if isinstance(value, ast.Lambda):
            bodies = [value.body]
        else:
            bodies = [
                node.value
                for there, function in sources.definitions(module, value)
                if there.name == module.name
                for node in ast.walk(function)
                if isinstance(node, ast.Return) and node.value is not None
            ]
        if bodies and (name in OPTIONS or is_tile(kernel, name)):
            found = [site for body in bodies for site in [sources.site(module, body, SiteForm.CHOSEN)]]
            numbers = [constant(body) for body in bodies]
            if len(bodies) == 1 and numbers[0] is not None:
                found = [replace(found[0], form=SiteForm.LITERAL, value=numbers[0])]
            yield from maker.row(name, found)


def _of_config(sources: Sources, module: ModuleText, kernel: ast.FunctionDef) -> Iterator[Launched]:
    """Yield the arguments that a package's own decorator takes from a single `triton.Config` and gives to a kernel."""
    configs, seen = list[tuple[ModuleText, ast.Call]](), set[ast.FunctionDef]()
    open_ = [found for item in kernel.decorator_list for found in _called(sources, module, item)]
    while open_:
        there, function = open_.pop()
        if function not in seen and there.name in sources.texts:
            seen.add(function)
            configs += [(there, call) for call in single_configs(function)]
            open_ += _called(sources, there, function)
    if len(configs) != 1:
        return
    ((there, call),) = configs
    entries = _entries(sources, there, call.args[0]) if call.args else None
    options = {str(word.arg): word.value for word in call.keywords if word.arg in OPTIONS}
    maker = _Maker(sources, there, kernel, kernel.name)
    for name, value in {**(entries or {}), **options}.items():
        if name in OPTIONS:
            yield from maker.option(name, value)
        elif name in constexprs(kernel) and is_tunable(name, kernel):
            yield from maker.constexpr(name, value)


def _called(sources: Sources, module: ModuleText, node: ast.AST) -> list[tuple[ModuleText, ast.FunctionDef]]:
    """Return the functions that the calls in a node reach, and those passed to them."""
    calls = [item for item in ast.walk(node) if isinstance(item, ast.Call)]
    return [found for call in calls for found in sources.definitions(module, call.func)]


def _of_builder(sources: Sources, module: ModuleText, builder: ast.FunctionDef) -> Iterator[Launched]:
    """Yield the numbers that a function which builds a TileLang kernel has for tiles: its own, and its parameters'."""
    maker, seen = _Maker(sources, module, None, builder.name), set[str]()
    own = sources.scopes(module).inner[builder].names
    for node in ast.walk(builder):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in own and is_tunable(node.id):
            sites = sources.sites(module, node) if node.id not in seen else []
            seen.add(node.id)
            if len(sites) == 1 and sites[0].form is SiteForm.LITERAL:
                yield from maker.row(node.id, sites)


def _entries(sources: Sources, module: ModuleText, value: ast.expr) -> dict[str, ast.expr] | None:
    """Return the entries of a dict of arguments; None if the text does not tell them all."""
    if isinstance(value, ast.Name):
        bindings = sources.scopes(module).find(value) or []
        if len(bindings) != 1 or bindings[0].value is None:
            return None
        found = _entries(sources, module, bindings[0].value)
        # What is stored under a key afterwards is the user's own, and may be one of the options.
        for node in sources.scopes(module).uses(value.id) if found is not None else ():
            use = sources.scopes(module).parents.get(node)
            if isinstance(use, ast.Subscript) and isinstance(use.ctx, ast.Store):
                key = use.slice.value if isinstance(use.slice, ast.Constant) else None
                known = isinstance(key, str) and key not in OPTIONS
                found = found if known else None
            if isinstance(use, ast.Attribute) and use.attr in ("update", "setdefault"):
                found = None
        return found
    if isinstance(value, ast.Dict):
        if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in value.keys):
            return None
        return {
            str(key.value): item
            for key, item in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "dict" and not value.args:
        return (
            None if any(word.arg is None for word in value.keywords) else {str(w.arg): w.value for w in value.keywords}
        )
    return None


def _closing(tail: bytes) -> int:
    """Return the end of a call's last argument, after the parentheses around it."""
    code = re.sub(rb"#[^\n]*", lambda found: b" " * len(found.group()), tail)
    return code.rfind(b")") + 1


def names_in(module: ModuleText) -> Collection[str]:
    """Return the names in use in a module, including its kernels' parameters."""
    nodes = list(ast.walk(module.tree))
    found = {*module.definitions, *module.imports, *(item.id for item in nodes if isinstance(item, ast.Name))}
    return found | {item.arg for item in nodes if isinstance(item, ast.arg)}


def _loops(sources: Sources, module: ModuleText, kernel: ast.FunctionDef, steps: int = 3) -> bool:
    """Return whether a kernel, or a function that it calls, has a loop that stages can overlap."""
    calls = []
    for node in ast.walk(kernel):
        if isinstance(node, ast.For | ast.While):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and steps:
            calls.append(node.func)
    called = [found for name in calls for found in sources.definitions(module, name) if is_kernel(found[1])]
    return any(_loops(sources, there, function, steps - 1) for there, function in called)
