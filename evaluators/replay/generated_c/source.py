"""Generated C, read and written anew. What is compiled has nothing but what was understood on the way."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError

from ....core.launch_plan import KernelCode
from ...languages.c_headers import HEADER, needed_headers
from ..generated_text import JOINING
from ..values import UnplannableCallError
from .arguments import Given
from .expressions import plain_type
from .names import PREFIX, Variable
from .prelude import PRELUDE
from .statements import Statements
from .types import TYPE_NAMES, Interval
from .values import State

_LINKAGE = re.compile(r'^#ifdef __cplusplus\s+extern "C"\s+#endif\s*$', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MARKS = ("#", '"', "'", *JOINING)
"""Start directives, string literals and joined lines, also as digraphs and trigraphs."""
_MAX_CHARACTERS = 1_000_000
_TYPES = " ".join(f"typedef int {name};" for name in TYPE_NAMES)
_PLAN_TYPES = {"float": "float32", "double": "float64", "bool": "int8"}
"""Plans' names of parameter types, if they differ from C's name without `_t`."""


def held_source(code: KernelCode, given: Given) -> str:
    """Return the C to compile for launches with such arguments.

    Raises `UnplannableCallError` where the text contains anything that is not allowed, or that could not be followed.
    """
    try:
        function = _only_function(code)
        written = _written(code, function, given)
    except UnplannableCallError as reason:
        raise UnplannableCallError(f"{code.name}: generated C with {reason}") from None
    except (ParseError, RecursionError) as error:
        raise UnplannableCallError(f"{code.name}: generated C that cannot be read: {str(error)[:200]}") from None
    return f'{needed_headers(written)}{PRELUDE}extern "C" {{\n{written}}}\n'


def _only_function(code: KernelCode) -> c_ast.FuncDef:
    if len(code.text) > _MAX_CHARACTERS:
        raise UnplannableCallError(f"more than {_MAX_CHARACTERS:,} characters")
    body = _LINKAGE.sub("", HEADER.sub("", _COMMENT.sub(" ", code.text)))
    if any(mark in body for mark in _MARKS) or not body.isascii():
        raise UnplannableCallError("directives or texts")
    functions = []
    for part in CParser().parse(f"{_TYPES}\n{body.replace('__restrict__', 'restrict')}").ext[len(TYPE_NAMES) :]:
        if isinstance(part, c_ast.FuncDef):
            functions.append(part)
        elif not isinstance(part, c_ast.Decl) or not isinstance(part.type, c_ast.FuncDecl) or part.storage:
            raise UnplannableCallError("something else than functions")
    if [function.decl.name for function in functions] != [code.entry]:
        raise UnplannableCallError(f"other functions than the one '{code.entry}'")
    return functions[0]


def _written(code: KernelCode, function: c_ast.FuncDef, given: Given) -> str:
    declared = function.decl.type
    if function.param_decls or function.decl.storage or plain_type(declared.type).name != "int32_t":
        raise UnplannableCallError("a function that is not of the form of TileLang's")
    parameters: Sequence[c_ast.Node] = declared.args.params if declared.args else ()
    if not len(parameters) == len(code.parameters) == len(given.parameters):
        raise UnplannableCallError(f"{len(parameters)} parameters, but {len(code.parameters)} in the plan")
    statements = Statements()
    expected = zip(parameters, code.parameters, given.parameters, strict=True)
    texts = [_parameter(statements, *item) for item in expected]
    body = statements.write(function.body)
    return f"int32_t {PREFIX}{code.entry}({', '.join(texts)}) {body.removesuffix('}')}return 0;\n}}\n"


def _parameter(statements: Statements, node: c_ast.Node, named: str, given: int | Interval | None) -> str:
    """Declare a parameter, which must be of the type that the plan calls it with."""
    if not isinstance(node, c_ast.Decl) or node.storage:
        raise UnplannableCallError("a parameter without a name")
    scopes, state = statements.expressions.scopes, statements.expressions.state
    if isinstance(node.type, c_ast.PtrDecl):
        if named != "pointer" or not isinstance(given, int):
            raise UnplannableCallError(f"a pointer '{node.name}' where the plan has {named}")
        kind = plain_type(node.type.type)
        alone = " __restrict__" if "restrict" in node.type.quals else ""
        return f"{kind.stored}*{alone} {scopes.declare(node.name, kind, 'pointer', given).name}"
    kind = plain_type(node.type)
    if named != _PLAN_TYPES.get(kind.name, kind.name.removesuffix("_t")):
        raise UnplannableCallError(f"'{node.name}' of {kind.name} where the plan has {named}")
    variable = scopes.declare(node.name, kind)
    if kind.whole:
        _know(state, variable, given)
    return f"{kind.name} {variable.name}"


def _know(state: State, variable: Variable, given: int | Interval | None) -> None:
    if not isinstance(given, Interval) or not given.within(variable.type.interval):
        raise UnplannableCallError(f"an argument that is not a {variable.type.name}")
    state.set(variable.name, given)
