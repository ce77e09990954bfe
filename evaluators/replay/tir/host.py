"""The host part of TileLang's kernels for a GPU: written anew from the launches that the lowered IR describes.

The IR of the host comes from the candidate's process, and would become native code. So none of it is compiled. Only
data is read from it: tensors and numbers that it takes, descriptors of copies by TMA, kernels with their arguments and
extents. A function of ours does what these say, with names of ours; TileLang adds the checks of its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ....core.launch_plan import KernelCode
from ..values import UnplannableCallError
from .descriptors import descriptor

_KERNEL = re.compile(r"(?!_)[A-Za-z]\w{0,199}")
"""Names that are none of the runtime's own functions."""
_DTYPE = re.compile(r"u?int(8|16|32|64)|b?float\d+(_e\dm\d(fn)?(uz)?)?|bool")
_TAG = re.compile(r"(blockIdx|threadIdx)\.[xyz]|tir\.cluster_dim_[xyz]|tirx\.use_dyn_shared_memory")
"""Extents that a launch takes; the runtime reads others' names without a check."""
_TAGS_WITHOUT_ARGUMENT = ("tirx.use_programtic_dependent_launch", "tirx.use_cooperative_launch")
_DESCRIPTORS = ("__tvm_tensormap_create_tiled", "__tvm_tensormap_create_im2col")
_WINDOW, _RESET = "__tvm_cuda_stream_set_access_policy_window", "__tvm_cuda_stream_reset_access_policy_window"
_DEVICE = "__tvm_set_device"
"""Called before the first launch; the checks that TileLang adds do so."""
_VALUE, _ADDRESS = 15, 1
"""Fields of the packed interface: the value of an argument, and the address of a tensor."""
_STACK = ("tvm_ffi_any", 16)
"""Size of a descriptor on the stack."""
_ARITHMETIC = ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max")
_INTEGERS = ("int32", "int64")
ENTRY = "launch"
"""The name of the function."""


def generated_host(code: KernelCode, host: Any, device: Any, context: Any) -> Any:
    """Return a module of TVM whose only function launches the kernels of `device` as `host` says.

    Raises `UnplannableCallError` for anything in `host` that such a function cannot do.
    """
    import tilelang
    from tilelang import tvm

    functions = list(host.functions.values())
    if len(functions) != 1 or len(functions[0].params) != 4:
        raise UnplannableCallError(f"{code.name}: a host with something else than one function")
    written = _Host(code, tvm.tirx, _kernels(code, device), functions[0].params[1])
    written.read(functions[0].body)
    target = tvm.target.Target(context.target, context.target_host)
    attributes = {"global_symbol": ENTRY, "target": target, "tirx.is_entry_func": True}
    module = tvm.IRModule({ENTRY: written.function().with_attr(attributes)})
    return tilelang.transform.Simplify()(tilelang.transform.MakePackedAPI()(module))


def _kernels(code: KernelCode, device: Any) -> dict[str, tuple[Any, int]]:
    """Return parameters and number of extents of each kernel by name, after a check of what the launch reads."""
    found = {}
    for variable, function in device.functions.items():
        name, attributes = str(variable.name_hint), function.attrs
        tags = [str(item) for item in attributes.get("tirx.kernel_launch_params", [])]
        if not _KERNEL.fullmatch(name) or str(attributes.get("global_symbol", name)) != name:
            raise UnplannableCallError(f"{code.name}: a kernel of the name {name[:80]!r}")
        extents = [tag for tag in tags if tag not in _TAGS_WITHOUT_ARGUMENT]
        if len({*tags}) != len(tags) or not all(_TAG.fullmatch(extent) for extent in extents):
            raise UnplannableCallError(f"{code.name}: a kernel with the extents {', '.join(tags)[:200]}")
        found[name] = (list(function.params), len(extents))
    return found


class _Host:
    """The host function as rewritten so far; keys are variables of the candidate's IR, values our own objects."""

    def __init__(self, code: KernelCode, tirx: Any, kernels: dict[str, tuple[Any, int]], arguments: Any) -> None:
        self._code, self._tirx, self._kernels, self._arguments = code, tirx, kernels, arguments
        self._parameters = [self._parameter(number, kind) for number, kind in enumerate(code.parameters)]
        self._numbers: dict[Any, int] = {}
        """Index of the argument that each variable holds: a number, or a tensor's description."""
        self._tensors: dict[Any, int] = {}
        """Numbers of the arguments whose addresses variables hold."""
        self._buffers: dict[int, Any] = {}
        self._integers: dict[Any, Any] = {}
        """Extents of tensors, and arguments that are integers."""
        self._descriptors: dict[Any, Any] = {}
        self._made: set[int] = set()
        """Identities of the descriptors that have been filled in."""
        self._steps: list[Any] = []
        self._windows = self._launches = 0

    def function(self) -> Any:
        """Return the function that does what was read, before its arguments are checked."""
        if not self._launches:
            raise self._refused("no launch")
        if self._windows:
            self._add(_RESET)
        body = self._tirx.SeqStmt(self._steps) if len(self._steps) > 1 else self._steps[0]
        tensors = {self._parameters[number]: buffer for number, buffer in self._buffers.items()}
        return self._tirx.PrimFunc(self._parameters, body, None, tensors)

    def read(self, statement: Any) -> None:
        """Read a statement. Checks of arguments are passed over: TileLang adds the same again."""
        tirx = self._tirx
        if isinstance(statement, tirx.SeqStmt):
            for item in statement.seq:
                self.read(item)
        elif isinstance(statement, tirx.AttrStmt):
            self.read(statement.body)
        elif isinstance(statement, tirx.Bind):
            self._bind(statement.var, statement.value)
        elif isinstance(statement, tirx.DeclBuffer):
            self._declare(statement.buffer)
        elif isinstance(statement, tirx.Evaluate):
            self._evaluate(statement.value)
        elif not isinstance(statement, tirx.AssertStmt):
            raise self._refused(f"a statement of the kind {type(statement).__name__}")

    def _parameter(self, number: int, kind: str) -> Any:
        if kind == "pointer":
            return self._tirx.Var(f"argument{number}_handle", "handle")
        if not _DTYPE.fullmatch(kind):
            raise self._refused(f"an argument of the type {kind[:40]!r}")
        return self._tirx.Var(f"argument{number}", kind)

    def _bind(self, variable: Any, value: Any) -> None:
        """Note what a variable holds. Of what is not known here nothing may be used later."""
        if self._is_call(value, "tvm_stack_alloca"):
            if tuple(getattr(argument, "value", None) for argument in value.args) != _STACK:
                raise self._refused("memory on the stack that is not a descriptor's")
            from tilelang import tvm

            kind = tvm.ir.PointerType(tvm.ir.PrimType("uint8x128"), "grid_constant")
            made = self._tirx.Var(f"descriptor{len(self._descriptors)}", kind)
            self._steps.append(
                self._tirx.Bind(made, self._tirx.call_intrin("handle", "tirx.tvm_stack_alloca", *_STACK))
            )
            self._once(self._descriptors, variable, made)
            return
        base, index, field = self._field(value)
        if base is None:
            return
        if base.same_as(self._arguments) and field == _VALUE and 0 <= index < len(self._parameters):
            self._once(self._numbers, variable, index)
            if self._code.parameters[index] in _INTEGERS:
                self._once(self._integers, variable, self._parameters[index])
        elif base in self._numbers and field == _ADDRESS and index == 0:
            self._once(self._tensors, variable, self._numbers[base])

    def _once(self, known: dict[Any, Any], variable: Any, value: Any) -> None:
        if variable in known:
            raise self._refused("a variable of two values")
        known[variable] = value

    def _field(self, value: Any) -> tuple[Any, int, int]:
        """Return variable, index and field that an expression reads, through casts and the choice of a handle."""
        while isinstance(value, self._tirx.Cast | self._tirx.Select):
            value = value.value if isinstance(value, self._tirx.Cast) else value.false_value
        if self._is_call(value, "tvm_struct_get") and len(value.args) == 3:
            base, index, field = value.args
            if isinstance(base, self._tirx.Var) and all(isinstance(item, self._tirx.IntImm) for item in (index, field)):
                return base, int(index), int(field)
        return None, 0, 0

    def _declare(self, buffer: Any) -> None:
        """Note the layout of an argument; the first one counts."""
        number = self._tensors.get(buffer.data)
        if number is None or number in self._buffers or self._code.parameters[number] != "pointer":
            return
        if not _DTYPE.fullmatch(str(buffer.dtype)):
            raise self._refused(f"a tensor of the type {str(buffer.dtype)[:40]!r}")
        shape, strides = ([self._extent(size) for size in sizes] for sizes in (buffer.shape, buffer.strides))
        self._buffers[number] = self._tirx.decl_buffer(
            shape, str(buffer.dtype), f"argument{number}", strides=strides or None
        )

    def _extent(self, value: Any) -> Any:
        if isinstance(value, self._tirx.Var) and value not in self._integers and str(value.dtype) in _INTEGERS:
            self._integers[value] = self._tirx.Var(f"extent{len(self._integers)}", str(value.dtype))
        return self._integer(value)

    def _evaluate(self, value: Any) -> None:
        if isinstance(value, self._tirx.IntImm) or self._is_call(value, "ret"):
            return
        if not self._is_call(value, "tvm_call_packed") or not isinstance(value.args[0], self._tirx.StringImm):
            raise self._refused("a call of something else than kernels")
        name, arguments = str(value.args[0].value), list(value.args[1:])
        if name in self._kernels:
            self._launch(name, arguments)
        elif name in _DESCRIPTORS:
            self._describe(name, arguments)
        elif name == _WINDOW:
            self._window(arguments)
        elif name not in (_RESET, _DEVICE):
            raise self._refused(f"a call of '{name[:80]}'")

    def _launch(self, name: str, arguments: Sequence[Any]) -> None:
        parameters, extents = self._kernels[name]
        if len(arguments) != len(parameters) + extents:
            raise self._refused(f"a launch of {name} with {len(arguments)} arguments")
        given = [self._given(*pair) for pair in zip(parameters, arguments, strict=False)]
        self._add(name, *given, *[self._integer(argument) for argument in arguments[len(parameters) :]])
        self._launches += 1

    def _given(self, parameter: Any, value: Any) -> Any:
        """Return the argument for a kernel's parameter: a descriptor, a tensor's address, or a number."""
        kind = parameter.type_annotation
        if getattr(kind, "storage_scope", "") == "grid_constant":
            made = self._descriptors.get(value)
            if id(made) not in self._made:
                raise self._refused("a launch with a descriptor that was not made")
            return made
        if str(parameter.dtype) == "handle":
            return self._tensor(value).data
        if isinstance(value, self._tirx.Var) and value in self._numbers:
            number = self._numbers[value]
            if self._code.parameters[number] == str(parameter.dtype):
                return self._parameters[number]
        return self._tirx.Cast(str(parameter.dtype), self._integer(value))

    def _tensor(self, value: Any) -> Any:
        """Return the tensor that a variable is the address of."""
        number = self._tensors.get(value) if isinstance(value, self._tirx.Var) else None
        if number is None or number not in self._buffers:
            raise self._refused("an address that is not a tensor's")
        return self._buffers[number]

    def _describe(self, name: str, arguments: Sequence[Any]) -> None:
        made = self._descriptors.get(arguments[0]) if arguments else None
        if made is None:
            raise self._refused("a descriptor somewhere else than on the stack")
        buffer = self._tensor(arguments[3] if len(arguments) > 3 else None)
        numbers = [self._integer(item) for item in (*arguments[1:3], *arguments[4:])]
        checks, numbers = descriptor(self._code.name, name == _DESCRIPTORS[0], buffer, numbers)
        message = [self._tirx.StringImm("a descriptor that reaches beyond its tensor")]
        self._steps += [self._tirx.AssertStmt(check, self._tirx.StringImm("RuntimeError"), message) for check in checks]
        self._add(name, made, *numbers[:2], buffer.data, *numbers[2:])
        self._made.add(id(made))

    def _window(self, arguments: Sequence[Any]) -> None:
        """Keep a part of a tensor in L2 for the launches that follow; it ends with the function."""
        if len(arguments) != 3 or not isinstance(arguments[2], self._tirx.FloatImm):
            raise self._refused("a window in L2 without its size and ratio")
        buffer, size, ratio = self._tensor(arguments[0]), arguments[1], arguments[2]
        self._add(_WINDOW, buffer.data, self._integer(size), self._tirx.FloatImm("float32", float(ratio.value)))
        self._windows += 1

    def _integer(self, value: Any) -> Any:
        """Return an expression of integers, made anew."""
        tirx = self._tirx
        if isinstance(value, tirx.IntImm) and str(value.dtype) in _INTEGERS:
            return tirx.IntImm(str(value.dtype), int(value))
        if isinstance(value, tirx.Var) and value in self._integers:
            return self._integers[value]
        if isinstance(value, tirx.Cast) and str(value.dtype) in _INTEGERS:
            return tirx.Cast(str(value.dtype), self._integer(value.value))
        kind = type(value).__name__
        if kind not in _ARITHMETIC or not isinstance(value, getattr(tirx, kind)):
            raise self._refused(f"a number of the kind {kind}")
        if kind.startswith("Floor") and not (isinstance(value.b, tirx.IntImm) and int(value.b) > 0):
            raise self._refused("a division by something else than a positive number")
        return getattr(tirx, kind)(self._integer(value.a), self._integer(value.b))

    def _add(self, name: str, *arguments: Any) -> None:
        self._steps.append(self._tirx.Evaluate(self._tirx.call_packed(name, *arguments)))

    def _is_call(self, value: Any, name: str) -> bool:
        return isinstance(value, self._tirx.Call) and getattr(value.op, "name", None) == f"tirx.{name}"

    def _refused(self, what: str) -> UnplannableCallError:
        return UnplannableCallError(f"{self._code.name}: host code with {what}")
