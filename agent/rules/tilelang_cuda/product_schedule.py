"""How TileLang runs a product on tensor cores: which warps copy, and how the others share a tile."""

from __future__ import annotations

import libcst as cst

from ....core import Parameter
from ...analysis.source import code
from ...analysis.template import matches
from ...analysis.tilelang import cuda_tilelang, is_prim_func
from ...analysis.tilelang_cuda.splitting import POLICIES
from ...analysis.tree import calls_in, contains, find_all
from ..rule import Change, Rewritten, require, rule

_SWITCH = '{"tl.disable_warp_specialized": not WARP_SPECIALIZED}'


@rule("parallelism", "products", cuda_tilelang).because(
    "warps that only copy help long loops, and more blocks on an SM help short ones"
)
def product_schedule(module: cst.Module, change: Change) -> Rewritten:
    """Make warp specialization a parameter, and the policy of every T.gemm that has none.

    On sm_90 a pipelined loop with TMA gets warps of its own for the copies: 128 more threads, one block on an SM.
    Without them the same warps copy ahead by cp.async, and more blocks fit. Neither changes a result. Needs a T.gemm in
    a pipelined loop, and a `tilelang.compile` of that prim_func without pass configs.
    """
    change.require_free("WARP_SPECIALIZED", "GEMM_POLICY")
    loops = [loop for loop in find_all(module, cst.For) if matches(loop.iter, "T.Pipelined(q__)")]
    pipelined = [loop for loop in loops if calls_in(loop, "T.gemm")]
    functions = [function for function in find_all(module, cst.FunctionDef) if is_prim_func(function)]
    functions = [function for function in functions if any(contains(function, loop) for loop in pipelined)]
    products, policies = {function.name.value for function in functions}, 0
    require(products, "no T.gemm in a pipelined loop")
    compiled = [call for call in calls_in(module, "tilelang.compile") if code(call.args[0].value) in products]
    compiled = [call for call in compiled if "pass_configs" not in _keywords(call)]
    require(compiled, "no `tilelang.compile` of the product without pass configs")
    for call in compiled:
        change.add_arguments(call, {"pass_configs": _SWITCH})
    for call in [call for function in functions for call in calls_in(function, "T.gemm")]:
        # With more than the three tiles by position, the policy may be among them.
        if "policy" not in _keywords(call) and len(call.args) - len(_keywords(call)) <= 3:
            policies += 1
            change.add_arguments(call, {"policy": "T.GemmWarpPolicy[GEMM_POLICY]"})
    change.parameters.append(Parameter("WARP_SPECIALIZED", (False, True), False))
    if policies:
        change.parameters.append(Parameter("GEMM_POLICY", POLICIES, "FullRow"))
    return change.settled("made warp specialization and the sharing of a product's tile parameters")


def _keywords(call: cst.Call) -> list[str]:
    return [arg.keyword.value for arg in call.args if arg.keyword]
