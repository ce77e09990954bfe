"""Element-wise ATen operators as Triton expressions: the only place that writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...core.dynamic_size import DynamicSize, UndecidedSizeError
from .indices import Index

FLOATS = ("float32", "float64", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
"""Dtypes that structures support; others, such as complex numbers, are left to torch."""
_NAN = "tl.PropagateNan.ALL"
"""Torch propagates NaN too."""
_TRITON = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}


@dataclass(frozen=True)
class Scalar:
    """An expression in a kernel, or a number, of a dtype."""

    text: str
    dtype: str
    """Dtype of the computation: floats of less than 32 bits are computed in fp32."""
    constant: bool = False
    index: Index | None = None
    """Its value as a sum of the kernel's indices, if it is an integer that follows from them."""

    loaded: str | None = None
    """The variable of its bytes, if it was only loaded."""
    source: str = ""
    """The loaded dtype."""

    def to(self, dtype: str) -> Scalar:
        """Return it in the form in which a dtype is computed."""
        wanted = computed(dtype)
        if self.dtype == wanted:
            return self
        if self.constant:
            return Scalar(_number(self.text, wanted), wanted, constant=True)
        if wanted == "bool":
            return Scalar(f"({self.text}) != 0", wanted)
        return Scalar(f"({self.text}).to({triton_name(wanted)})", wanted)


def computed(dtype: str) -> str:
    """Return the dtype in which values of a dtype are computed."""
    return "float32" if dtype in FLOATS and dtype != "float64" else dtype


def triton_name(dtype: str) -> str:
    """Return Triton's name of a dtype."""
    return f"tl.{_TRITON.get(dtype, dtype)}"


def constant(value: object, dtype: str) -> Scalar:
    """Return a Python number in a dtype; infinity and NaN may be strings."""
    if isinstance(value, DynamicSize):
        raise UndecidedSizeError("a size of the range is a number among elements")
    wanted = computed(dtype)
    return Scalar(_number(str(value), wanted), wanted, constant=True)


def _number(text: str, dtype: str) -> str:
    text = text.removeprefix('float("').removesuffix('")')
    if text in ("True", "False"):
        text = str(int(text == "True"))
    if dtype in FLOATS:
        value = float(text)
        return repr(value) if abs(value) < float("inf") else f'float("{value}")'
    if dtype == "bool":
        return str(float(text) != 0)
    return str(int(float(text)) if "." in text or "e" in text else int(text))


Write = Callable[[Sequence[str]], str]


def _form(text: str) -> Write:
    return lambda given: text.format(*given)


_ARITHMETIC: Mapping[str, str] = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "neg": "-{}",
    "abs": "tl.abs({})",
    "maximum": "tl.maximum({}, {}, tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({}, {}, tl.PropagateNan.ALL)",
    "relu": "tl.maximum({}, 0, tl.PropagateNan.ALL)",
    "square": "{0} * {0}",
    "bitwise_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}",
    "bitwise_not": "~{}",
    "bitwise_left_shift": "{} << {}",
    "bitwise_right_shift": "{} >> {}",
    "__lshift__": "{} << {}",
    "__rshift__": "{} >> {}",
    "__and__": "{} & {}",
    "__or__": "{} | {}",
    "__xor__": "{} ^ {}",
}
"""Computed in the result's dtype."""
_OF_FLOATS: Mapping[str, str] = {
    "div": "{} / {}",
    "true_divide": "{} / {}",
    "reciprocal": "1 / {}",
    "exp": "tl.exp({})",
    "exp2": "tl.exp2({})",
    "log": "tl.log({})",
    "log2": "tl.log2({})",
    "log10": "tl.log2({}) * 0.30102999566398120",
    "log1p": "libdevice.log1p({})",
    "expm1": "libdevice.expm1({})",
    "sqrt": "tl.sqrt({})",
    "rsqrt": "tl.rsqrt({})",
    "sin": "tl.sin({})",
    "cos": "tl.cos({})",
    "tan": "libdevice.tan({})",
    "tanh": "libdevice.tanh({})",
    "sigmoid": "1 / (1 + tl.exp(-{}))",
    "erf": "tl.erf({})",
    "floor": "tl.floor({})",
    "ceil": "tl.ceil({})",
    "round": "libdevice.nearbyint({})",
    "trunc": "libdevice.trunc({})",
    "atan2": "libdevice.atan2({}, {})",
    "fmod": "libdevice.fmod({}, {})",
    "hypot": "libdevice.hypot({}, {})",
}
_COMPARISONS: Mapping[str, str] = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
}
_OF_FLAGS: Mapping[str, str] = {
    "logical_and": "{} & {}",
    "logical_or": "{} | {}",
    "logical_xor": "{} ^ {}",
    "logical_not": "{} == 0",
}
CONVERSIONS = ("_to_copy", "convert_element_type")
"""Operators that change the dtype."""
COPIES = ("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous")
"""Operators that return their operand's elements."""
_OTHERS = ("where", "clamp", "clamp_min", "clamp_max", "pow", "isnan", "isinf", "sign", "remainder", "div_rounded")


def is_elementwise(operator: str) -> bool:
    """Return whether `written` knows an operator, by its plain name."""
    known = (_ARITHMETIC, _OF_FLOATS, _COMPARISONS, _OF_FLAGS, CONVERSIONS, COPIES, _OTHERS)
    return any(operator in names for names in known)


def written(operator: str, given: Sequence[Scalar], dtype: str, rounding: str | None = None) -> Scalar:
    """Return an element-wise operator of these operands as an expression; `dtype` is that of the result.

    Raises `KeyError` for an operator that it does not know, or a form of one.
    """
    wanted = computed(dtype)
    if operator in COPIES:
        return given[0].to(dtype)
    if operator in CONVERSIONS:
        return converted(given[0], dtype)
    if operator == "div" and rounding is not None:
        if wanted not in FLOATS:
            if rounding != "floor":
                raise KeyError(rounding)
            left, right = (item.to(wanted).text for item in given)
            below = f"({left} % {right} != 0) & (({left} < 0) != ({right} < 0))"
            return Scalar(f"tl.where({below}, {left} // {right} - 1, {left} // {right})", wanted)
        inner = written("div", given, dtype)
        return written("floor" if rounding == "floor" else "trunc", [inner], dtype)
    if operator in _COMPARISONS:
        common = _common(given)
        return Scalar(_COMPARISONS[operator].format(*(_operand(item.to(common)) for item in given)), "bool")
    if operator in _OF_FLAGS:
        return Scalar(_OF_FLAGS[operator].format(*(_operand(item.to("bool")) for item in given)), "bool")
    if operator in _OF_FLOATS:
        if wanted not in FLOATS:
            if operator == "fmod":
                return Scalar(" % ".join(_operand(item.to(dtype)) for item in given), wanted)
            return given[0].to(dtype)  # rounding integers
        if operator == "tanh" and dtype in ("bfloat16", "float16"):
            # Its absolute error of 1e-7 is far below these dtypes' steps; the exact one has branches.
            return Scalar(f"1 - 2 / (tl.exp(2 * {_operand(given[0].to(dtype))}) + 1)", wanted)
        return Scalar(_OF_FLOATS[operator].format(*(_operand(item.to(dtype)) for item in given)), wanted)
    if operator in _ARITHMETIC:
        form = _ARITHMETIC[operator]
        if operator == "bitwise_not" and wanted == "bool":
            form = "{} == 0"
        return Scalar(form.format(*(_operand(item.to(dtype)) for item in given)), wanted)
    return _other(operator, given, wanted)


def converted(item: Scalar, dtype: str) -> Scalar:
    """Return a value rounded to a dtype, in the dtype of its computation."""
    if dtype in FLOATS and computed(dtype) != dtype and not item.constant:
        return Scalar(f"({item.text}).to({triton_name(dtype)}).to(tl.float32)", "float32")
    return item.to(dtype)


def _other(operator: str, given: Sequence[Scalar], wanted: str) -> Scalar:
    first = _operand(given[0].to(wanted)) if operator not in ("where", "isnan", "isinf") else given[0].text
    match operator:
        case "where":
            left, right = (item.to(wanted).text for item in given[1:])
            return Scalar(f"tl.where({given[0].to('bool').text}, {left}, {right})", wanted)
        case "clamp":
            lower, upper = (item.to(wanted).text if item.text != "None" else None for item in given[1:])
            inner = f"tl.maximum({first}, {lower}, {_NAN})" if lower is not None else first
            return Scalar(f"tl.minimum({inner}, {upper}, {_NAN})" if upper is not None else inner, wanted)
        case "clamp_min" | "clamp_max":
            function = "tl.maximum" if operator == "clamp_min" else "tl.minimum"
            return Scalar(f"{function}({first}, {given[1].to(wanted).text}, {_NAN})", wanted)
        case "pow":
            return _power(first, given, wanted)
        case "isnan":
            return Scalar(f"({first}) != ({first})", "bool")
        case "isinf":
            return Scalar(f'tl.abs({given[0].to("float32").text}) == float("inf")', "bool")
        case "sign":
            return Scalar(f"({first} > 0).to({triton_name(wanted)}) - ({first} < 0).to({triton_name(wanted)})", wanted)
        case "remainder" if wanted in FLOATS:
            second = _operand(given[1].to(wanted))
            return Scalar(f"{first} - tl.floor({first} / {second}) * {second}", wanted)
        case "remainder":
            second = _operand(given[1].to(wanted))
            return Scalar(f"(({first} % {second}) + {second}) % {second}", wanted)
    raise KeyError(operator)


def _power(base: str, given: Sequence[Scalar], wanted: str) -> Scalar:
    exponent = float(given[1].text) if given[1].constant and "float(" not in given[1].text else None
    if exponent in (1.0, 2.0, 3.0, 4.0):
        return Scalar(" * ".join([base] * int(exponent)), wanted)
    if wanted in FLOATS:
        simple = {
            0.5: f"tl.sqrt({base})",
            -0.5: f"tl.rsqrt({base})",
            -1.0: f"1 / {base}",
            -2.0: f"1 / ({base} * {base})",
        }
        if exponent in simple:
            return Scalar(simple[exponent], wanted)
        if given[0].constant and not given[1].constant:  # a power of a number
            return Scalar(f"libdevice.pow(tl.full([1], {base}, tl.float32), {given[1].to(wanted).text})", wanted)
        return Scalar(f"libdevice.pow({base}, {given[1].to(wanted).text})", wanted)
    raise KeyError("pow")


def _common(given: Sequence[Scalar]) -> str:
    """Return the dtype in which values are compared."""
    kinds = [item.dtype for item in given if not item.constant] or [given[0].dtype]
    if any(item.constant and item.dtype in FLOATS for item in given) and not any(kind in FLOATS for kind in kinds):
        return "float32"
    return max(kinds, key=lambda kind: (kind in FLOATS, kind != "bool", kind))


def _operand(item: Scalar) -> str:
    return item.text if item.text.isidentifier() or item.text.replace(".", "").isdigit() else f"({item.text})"
