"""What generated C may contain, and its compilation with flags of ours.

The text comes from the candidate's process, so nothing in it is believed: loops, arithmetic, local arrays, pointers to
its arguments and functions of mathematics are allowed; everything that could keep state, reach the system or the
preprocessor is not.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...core.launch_plan import KernelCode
from ..languages.c_headers import HEADER, VECTORS, needed_headers, standard_for
from .generated_text import JOINING, calls_through_pointer, tokens_of
from .values import UnplannableCall

FLAGS = re.compile(
    r"-O[0-3]|-Ofast|-march=native|-mtune=native|-mavx2|-mfma|-mavx512\w*|-mprefer-vector-width=\d+|-funroll-loops"
    r"|-ffast-math|-D__FAST_MATH__|-fmath-errno|-fno-math-errno|-fno-trapping-math|-fassociative-math|-freciprocal-math|-ffp-contract=\w+"
    r"|-fno-signed-zeros|-fopenmp-simd|-ftree-vectorize|-fvect-cost-model=\w+|-fno-semantic-interposition|-std=c\+\+\d\d|-w"
)
"""Compiler flags that a kernel's file may ask for."""
_ALWAYS = ("-w", "-fPIC", "-shared", "-nostartfiles", "-ftrivial-auto-var-init=pattern")
"""Without start files, since `-Ofast` would add one that flushes denormal numbers in the whole process. Local variables
get a pattern, so that they hold nothing of an earlier call."""
_LINKAGE = re.compile(r'^#ifdef __cplusplus\s+extern "C"\s+#endif\s*$', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TYPES = _words(
    """
    void bool char int long short float double signed unsigned half int8_t int16_t int32_t int64_t uint8_t uint16_t
    uint32_t uint64_t size_t
    """
)
KEYWORDS = _words(
    "for if else while do break continue return const sizeof true false restrict __restrict__ NULL INFINITY NAN"
)
FORBIDDEN = _words(
    """
    static extern asm volatile goto typedef union struct class template using namespace register thread_local auto
    decltype operator new delete throw try catch
    """
)
_MATHEMATICS = _words(
    """
    sqrt rsqrt exp exp2 expm1 exp10 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh erf erfc fabs floor ceil round trunc rint nearbyint fmax fmin fma fmod copysign ldexp cbrt hypot max min abs
    isnan isinf isfinite lrint lround
    """
)
FUNCTIONS = _MATHEMATICS | {f"{name}f" for name in _MATHEMATICS}
_MARKS = ("#", '"', "'", *JOINING)
"""Of directives, texts and joined lines, also as digraphs and trigraphs."""
PREFIX = "own_"
"""Before every name that the text declares: the headers have variables and macros too, such as `errno`, `signgam` and
one that stands for `static`, and linkers know names such as `_init`."""
_COMPILE_S = 120.0


def checked_source(code: KernelCode) -> str:
    """Return the C to compile. Raises `UnplannableCall` where the text contains anything that is not allowed."""
    body = _COMMENT.sub(" ", code.text)
    body = _LINKAGE.sub("", HEADER.sub("", body))
    if any(mark in body for mark in _MARKS) or not body.isascii():
        raise UnplannableCall(f"{code.name}: generated C with directives or texts")
    tokens = tokens_of(body)
    defined = set(re.findall(r"\bint32_t\s+(\w+)\s*\([^)]*\)\s*\{", body))
    if code.entry not in defined:
        raise UnplannableCall(f"{code.name}: generated C without its function")
    _check_calls(code.name, tokens, defined)
    require_only_functions(code.name, tokens)
    own = _own_names(code.name, tokens, defined)
    renamed = _NAME.sub(lambda found: f"{PREFIX}{found[0]}" if found[0] in own else found[0], body)
    return f'{needed_headers(body)}extern "C" {{\n{renamed}\n}}\n'


def is_type(token: str) -> bool:
    """Return whether a word of generated C is a type."""
    return token in TYPES or VECTORS.fullmatch(token) is not None


def _check_calls(name: str, tokens: Sequence[str], defined: set[str]) -> None:
    """Only functions of mathematics and of the text itself are called, and none through a pointer."""
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in FORBIDDEN:
            raise UnplannableCall(f"{name}: generated C with '{token}'")
        if token.startswith("__") and token not in KEYWORDS:
            raise UnplannableCall(f"{name}: generated C with '{token}'")
        if following == "(" and re.match(r"[A-Za-z_]", token):
            known = token in KEYWORDS or token in FUNCTIONS or token in defined or is_type(token)
            if not known:
                raise UnplannableCall(f"{name}: generated C that calls '{token}'")
    if calls_through_pointer(tokens, is_type):
        raise UnplannableCall(f"{name}: generated C that calls through a pointer")


def require_only_functions(name: str, tokens: Sequence[str]) -> None:
    """Outside of functions there are only functions: no variable outlives a call."""
    depth = 0
    statement: list[str] = []
    for token in tokens:
        if token == "{":
            if depth == 0 and not _is_function(statement):
                raise UnplannableCall(f"{name}: generated C with something else than functions")
            depth += 1
            statement = []
        elif token == "}":
            depth -= 1
            statement = []
        elif depth == 0:
            if token == ";" and statement and not _is_function(statement):
                raise UnplannableCall(f"{name}: generated C with a variable outside of a function")
            statement = [] if token == ";" else [*statement, token]


def _is_function(statement: Sequence[str]) -> bool:
    """Return whether this declares a function: a type, a name, and parameters that each begin with a type."""
    if "(" not in statement or statement[-1] != ")" or statement.count("(") != 1:
        return False
    opened = statement.index("(")
    if opened < 2 or is_type(statement[opened - 1]) or not re.match(r"[A-Za-z_]", statement[opened - 1]):
        return False
    if not all(is_type(one) or one in ("const", "*") for one in statement[: opened - 1]):
        return False
    begins = True
    for one in statement[opened + 1 : -1]:
        if begins and not (is_type(one) or one == "const"):
            return False
        if not (re.match(r"[A-Za-z_]", one) or one in ("*", ",")):
            return False
        begins = one == ","
    return True


def _own_names(name: str, tokens: Sequence[str], defined: set[str]) -> set[str]:
    """Return the names that the text declares; every name in it must be one of them, or known."""
    declared, after_type = set(defined), False
    for token in tokens:
        if is_type(token):
            after_type = True
        elif after_type and token not in ("*", "const", "restrict", "__restrict__"):
            declared.add(token)
            after_type = False
    for token in tokens:
        known = token in KEYWORDS or token in FUNCTIONS or token in declared or is_type(token)
        if re.match(r"[A-Za-z_]", token) and not known:
            raise UnplannableCall(f"{name}: generated C with '{token}', which it does not declare")
    return {one for one in declared if re.match(r"[A-Za-z_]", one)} - KEYWORDS - (FUNCTIONS - defined)


def compile_c(code: KernelCode, folder: Path) -> Path:
    """Compile generated C to a library in the folder, once. Raises `UnplannableCall` where that fails."""
    source = checked_source(code)
    for flag in code.flags:
        for one in flag.split():
            if not FLAGS.fullmatch(one):
                raise UnplannableCall(f"{code.name}: the compiler flag {one}, which is not among the allowed ones")
    flags = [one for flag in code.flags for one in flag.split() if not one.startswith("-std")]
    library = folder / f"{hashlib.sha256((source + ' '.join(flags)).encode()).hexdigest()}.so"
    if library.exists():
        return library
    text = library.with_suffix(".cpp")
    text.write_text(source)
    partial = library.with_suffix(".partial")
    command = [
        _compiler(),
        standard_for(source),
        *_ALWAYS,
        *flags,
        f"-I{_templates()}",
        "-o",
        str(partial),
        str(text),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode:
        raise UnplannableCall(f"{code.name}: generated C that does not compile: {done.stderr.strip()[:200]}")
    partial.rename(library)
    return library


def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise UnplannableCall("no C++ compiler (g++) to compile the plan with")
    return found


def _templates() -> Path:
    """TileLang's folder of headers, found without importing TileLang."""
    import importlib.util

    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise UnplannableCall("TileLang's headers are not installed")
    return Path(spec.origin).parent / "src"
