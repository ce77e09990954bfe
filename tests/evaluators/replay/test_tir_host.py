"""Host code of TileLang's kernels is written anew: it calls the same, and nothing else of the IR gets into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.tir.host import generated_host
from kernelwright.evaluators.replay.values import UnplannableCallError

TARGET = {"kind": "cuda", "arch": "sm_90a"}
KINDS = ("pointer", "pointer", "int32", "float32")
Modules = tuple[Any, Any, Any]


def scaled() -> Any:
    """A kernel whose extents depend on its tensors, with numbers and a copy by TMA."""
    import tilelang.language as T  # noqa: N812

    rows, step = T.dynamic("rows"), 128

    @T.prim_func
    def scaled(A: T.Tensor((rows, 256), "float16"), B: T.Tensor((rows, 256), "float16"), n: T.int32, f: T.float32):
        with T.Kernel(T.ceildiv(rows, step), threads=128) as bx:
            S = T.alloc_shared((step, 256), "float16")
            T.copy(A[bx * step, 0], S)
            for i, j in T.Parallel(step, 256):
                S[i, j] = S[i, j] * T.Cast("float16", f) + T.Cast("float16", n)
            T.copy(S, B[bx * step, 0])

    return scaled


@pytest.fixture(scope="module")
def modules() -> Modules:
    """The function, and the lowered IR of host and device."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import lower_to_host_device_ir

    function = scaled()
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        host, device, *_ = lower_to_host_device_ir(function, create_backend_context(TARGET, None, "auto"))
    return function, host, device


def written(host: Any, device: Any) -> str:
    """The C of the host."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import host_codegen

    code = KernelCode(name="scaled", kind="tir", text="", entry="scaled", parameters=KINDS)
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        context = create_backend_context(TARGET, None, "auto")
        return str(host_codegen(generated_host(code, host, device, context), context).inspect_source())


def with_body(host: Any, change: Callable[[Any], Any]) -> Any:
    from tilelang import tvm

    ((name, function),) = host.functions.items()
    return tvm.IRModule({name: function.with_body(change(function.body))})


def with_calls(host: Any, name: str, change: Callable[[list[Any]], list[Any]]) -> Any:
    """The host with other arguments of what it calls by this name."""
    from tilelang import tvm

    def changed(call: Any) -> Any:
        if call.op.name != "tirx.tvm_call_packed" or call.args[0].value != name:
            return None
        return tvm.tirx.call_packed(name, *change(list(call.args[1:])))

    return with_body(host, lambda body: tvm.tirx.stmt_functor.ir_transform(body, None, changed, ["tirx.Call"]))


def test_it_calls_what_tilelangs_own_calls(modules: Modules) -> None:
    from .host_calls import assert_ours_calls_the_same

    calls = assert_ours_calls_the_same(*modules)
    assert [name for name, *_ in calls] == ["__tvm_set_device", "__tvm_tensormap_create_tiled", "scaled_kernel"]
    assert calls[-1][3:] == (3.0, 3, 500, 4, 128, 1, 1, 65536)


def test_a_window_in_l2_ends_with_the_call() -> None:
    import tilelang.language as T  # noqa: N812
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import lower_to_host_device_ir

    from .host_calls import assert_ours_calls_the_same

    @T.prim_func
    def doubled(A: T.Tensor((512,), "float32"), B: T.Tensor((512,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            T.annotate_l2_hit_ratio({A: 0.5})
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2

    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        host, device, *_ = lower_to_host_device_ir(doubled, create_backend_context(TARGET, None, "auto"))
    calls = assert_ours_calls_the_same(doubled, host, device)
    assert [name.removeprefix("__tvm_cuda_stream_") for name, *_ in calls][1:] == [
        "set_access_policy_window", "doubled_kernel", "reset_access_policy_window",
    ]  # fmt: skip


def statements() -> dict[str, Callable[[Any], Any]]:
    """Statements that do harm in native code, given the number of arguments as a variable."""
    from tilelang import tvm

    tirx = tvm.tirx

    def stored(index: Callable[[Any], Any]) -> Callable[[Any], Any]:
        buffer = tirx.decl_buffer((4,), "int64", "kept")
        store = lambda number: tirx.BufferStore(buffer, tirx.IntImm("int64", 1), [index(number)])  # noqa: E731
        return lambda number: tirx.SeqStmt([tirx.AllocBuffer(buffer), store(number)])

    nothing = tirx.Evaluate(0)
    return {
        "past an array": stored(lambda _: tirx.IntImm("int32", 400)),
        "before an array": stored(lambda _: tirx.IntImm("int32", -9)),
        "at an argument": stored(lambda number: number),
        "a store alone": lambda number: stored(lambda _: number)(number).seq[1],
        "a loop": lambda number: tirx.For(tirx.Var("i", "int32"), 0, 9, tirx.ForKind.SERIAL, nothing),
        "an endless loop": lambda number: tirx.While(number > 0, nothing),
        "a branch": lambda number: tirx.IfThenElse(number > 0, nothing, None),
        "a C function": lambda number: tirx.Evaluate(tirx.call_extern("int32", "system", "true")),
        "a packed function": lambda number: tirx.Evaluate(tirx.call_packed("runtime.ModuleLoadFromFile", "/tmp/a")),
        "a field": lambda number: tirx.Evaluate(
            tirx.call_intrin("int32", "tirx.tvm_struct_set", tirx.IntImm("uint64", 64), 0, 15, 1)
        ),
        "memory on the stack": lambda number: tirx.Bind(
            tirx.Var("kept", "handle"), tirx.call_intrin("handle", "tirx.tvm_stack_alloca", "arg_value", 4)
        ),
    }


STATEMENTS = (
    "past an array", "before an array", "at an argument", "a store alone", "a loop", "an endless loop", "a branch",
    "a C function", "a packed function", "a field", "memory on the stack",
)  # fmt: skip
"""Their names, without an import of TileLang while tests are collected."""


def test_all_statements_are_tried() -> None:
    assert tuple(statements()) == STATEMENTS


@pytest.mark.parametrize("kind", STATEMENTS)
def test_statements_of_other_kinds_are_refused(modules: Modules, kind: str) -> None:
    from tilelang import tvm

    _, host, device = modules
    number = next(iter(host.functions.values())).params[2]
    added = statements()[kind](number)
    for forged in (lambda body: tvm.tirx.SeqStmt([added, body]), lambda body: tvm.tirx.AttrStmt(0, "a", "b", added)):
        with pytest.raises(UnplannableCallError, match="host code with"):
            written(with_body(host, forged), device)


def test_what_is_not_called_gets_nowhere(modules: Modules) -> None:
    """Values and checks are read, not copied; names are ours."""
    from tilelang import tvm

    tirx = tvm.tirx
    _, host, device = modules
    called = tirx.call_extern("int32", "system", "true")
    text = tirx.StringImm("system")
    forged = with_body(
        host,
        lambda body: tirx.SeqStmt(
            [tirx.Bind(tirx.Var("system", "int32"), called), tirx.AssertStmt(called > 0, text, [text]), body]
        ),
    )
    assert written(forged, device) == written(host, device)
    assert "system" not in written(forged, device)
    assert "rows" not in written(host, device)


TILED = "__tvm_tensormap_create_tiled"


def at(place: int, value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda given: [*given[:place], value(given) if callable(value) else value, *given[place + 1 :]]


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (TILED, at(0, lambda given: given[3]), "somewhere else than on the stack"),
        (TILED, at(1, 13), "of elements 13"),
        (TILED, at(2, 6), "rank 6"),
        (TILED, at(3, lambda given: given[0]), "not a tensor's"),
        (TILED, at(4, 257), "beyond its tensor"),
        (TILED, at(4, 0), "beyond its tensor"),
        (TILED, at(5, lambda given: given[5] + 1), "beyond its tensor"),
        (TILED, at(7, -512), "beyond its tensor"),
        (TILED, at(8, 512), "with the numbers"),
        (TILED, at(8, lambda given: given[5]), "depends on an argument"),
        (TILED, at(13, 9), "with the numbers"),
        (TILED, lambda given: [*given, 0], "with the numbers"),
        (TILED, lambda given: given[:1], "not a tensor's"),
        (TILED, lambda given: given[:4], "with the numbers"),
        ("scaled_kernel", at(0, lambda given: given[1]), "not a tensor's"),
        ("scaled_kernel", at(0, lambda given: given[3]), "not a tensor's"),
        ("scaled_kernel", at(1, lambda given: given[0]), "was not made"),
        ("scaled_kernel", at(5, lambda given: given[3] // given[4]), "a division"),
        ("scaled_kernel", lambda given: [*given, 1], "with 11 arguments"),
        ("scaled_kernel", lambda given: given[:4], "with 4 arguments"),
    ],
)
def test_calls_with_other_arguments_are_refused(
    modules: Modules, name: str, change: Callable[[list[Any]], list[Any]], says: str
) -> None:
    _, host, device = modules
    with pytest.raises(UnplannableCallError, match=says):
        written(with_calls(host, name, change), device)


def test_pointers_are_those_of_tensors(modules: Modules) -> None:
    from tilelang import tvm

    tirx = tvm.tirx
    _, host, device = modules
    made = tirx.call_intrin("handle", "tirx.reinterpret", tirx.IntImm("uint64", 4096))
    moved = lambda given: tirx.call_intrin("handle", "tirx.handle_add_byte_offset", given[0], 4096)  # noqa: E731
    loaded = tirx.BufferLoad(tirx.decl_buffer((4,), "int32", "kept"), [9])
    for place, value in ((0, made), (0, moved), (5, loaded), (5, tirx.call_extern("int32", "system", "true"))):
        with pytest.raises(UnplannableCallError, match=r"not a tensor's|a number of the kind"):
            written(with_calls(host, "scaled_kernel", at(place, value)), device)


@pytest.mark.parametrize(("place", "value"), [(5, lambda given: 2 * given[5] - 3), (7, 514), (7, 2**40)])
def test_what_depends_on_an_extent_is_checked_at_each_launch(modules: Modules, place: int, value: Any) -> None:
    """Each of these is within its tensor where that has few rows."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import host_codegen

    from .host_calls import arguments_of, calls_of

    function, host, device = modules
    forged = with_calls(host, TILED, at(place, value))
    code = KernelCode(name="scaled", kind="tir", text="", entry="scaled", parameters=KINDS)
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        context = create_backend_context(TARGET, None, "auto")
        ours = host_codegen(generated_host(code, forged, device, context), context)
    with pytest.raises(RuntimeError, match="beyond its tensor"):
        calls_of(ours, arguments_of(function), ["scaled_kernel"])


@pytest.mark.parametrize(
    "tags", [["blockIdx.\x7f"], ["vthread"], ["blockIdx.x", "blockIdx.x"], ["threadIdx.xy"], ["blockIdx."]]
)
def test_the_runtime_reads_known_extents_only(modules: Modules, tags: list[str]) -> None:
    from tilelang import tvm

    _, host, device = modules
    ((name, kernel),) = device.functions.items()
    forged = tvm.IRModule({name: kernel.with_attr("tirx.kernel_launch_params", tags)})
    with pytest.raises(UnplannableCallError, match="with the extents"):
        written(host, forged)


@pytest.mark.parametrize("name", ["__tvm_set_device", "a.b", "system(1)"])
def test_a_kernel_has_a_name_of_its_own(modules: Modules, name: str) -> None:
    from tilelang import tvm

    _, host, device = modules
    (kernel,) = device.functions.values()
    for forged in (
        {name: kernel.with_attr("global_symbol", name)},
        {"scaled_kernel": kernel.with_attr("global_symbol", name)},
    ):
        with pytest.raises(UnplannableCallError, match="a kernel of the name"):
            written(host, tvm.IRModule(forged))
