"""How TileLang runs a product on tensor cores: which warps copy, and how the others share a tile."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import appended, keyword_argument
from ...analysis.search import find_all
from ...analysis.tilelang import cuda_tilelang, is_prim_func
from ...analysis.tilelang_cuda.space import redeclared
from ...analysis.tilelang_cuda.splitting import POLICIES
from ..rule import rule

_GEMM = m.Call(func=m.Attribute(m.Name("T"), m.Name("gemm")))
_PIPELINED = m.For(iter=m.Call(func=m.Attribute(m.Name("T"), m.Name("Pipelined"))))
_COMPILE = m.Call(func=m.Attribute(m.Name("tilelang"), m.Name("compile")))
_SWITCH = '{"tl.disable_warp_specialized": not WARP_SPECIALIZED}'


@rule(
    "product-schedule",
    category="parallelism",
    work="products",
    why="warps that only copy help long loops, and more blocks on an SM help short ones",
    reads=cuda_tilelang,
)
def product_schedule(module: cst.Module, change: Change) -> Rewritten:
    """Make warp specialization a parameter, and the policy of every T.gemm that has none.

    On sm_90 a pipelined loop with TMA gets warps of its own for the copies: 128 more threads, one block on an SM.
    Without them the same warps copy ahead by cp.async, and more blocks fit. Neither changes a result. Needs a T.gemm in
    a pipelined loop, and a `tilelang.compile` of that prim_func without pass configs.
    """
    change.require_free("WARP_SPECIALIZED", "GEMM_POLICY")
    functions = [cst.ensure_type(match, cst.FunctionDef) for match in find_all(module, m.FunctionDef())]
    products = {function.name.value for function in functions if is_prim_func(function) and _has_product(function)}
    require(products, "no T.gemm in a pipelined loop")
    scheduler = _Scheduler(products)
    change.module = cst.ensure_type(module.visit(scheduler), cst.Module)
    require(scheduler.compiled, "no `tilelang.compile` of the product without pass configs")
    change.parameters.append(Parameter("WARP_SPECIALIZED", (False, True), False))
    if scheduler.policies:
        change.parameters.append(Parameter("GEMM_POLICY", POLICIES, "FullRow"))
    did = "made warp specialization and the sharing of a product's tile parameters"
    return change.finished(redeclared(change), did)


def _has_product(function: cst.FunctionDef) -> bool:
    return any(find_all(loop, _GEMM) for loop in find_all(function, _PIPELINED))


class _Scheduler(cst.CSTTransformer):
    def __init__(self, products: set[str]) -> None:
        self.products = products
        self.compiled = 0
        self.policies = 0
        self._inside: list[bool] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._inside.append(node.name.value in self.products)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self._inside.pop()
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        given = {arg.keyword.value for arg in original_node.args if arg.keyword}
        if m.matches(original_node, _COMPILE) and "pass_configs" not in given:
            first = original_node.args[0].value
            if isinstance(first, cst.Name) and first.value in self.products:
                self.compiled += 1
                return _with(updated_node, "pass_configs", _SWITCH)
        # With more than the three tiles by position, the policy may be among them.
        positional = sum(arg.keyword is None for arg in original_node.args)
        if m.matches(original_node, _GEMM) and any(self._inside) and "policy" not in given and positional <= 3:
            self.policies += 1
            return _with(updated_node, "policy", "T.GemmWarpPolicy[GEMM_POLICY]")
        return updated_node


def _with(call: cst.Call, keyword: str, text: str) -> cst.Call:
    return call.with_changes(args=appended(call.args, [keyword_argument(keyword, text)]))
