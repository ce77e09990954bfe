"""The query that finds worked examples for a turn."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core import Hit, Query, WorkedExample
from ...core.technique_words import techniques_in
from ..proposer import TurnContext

_PRODUCT = re.compile(r"^(mm|addmm|bmm|baddbmm|mv|addmv|matmul|linear|dot|einsum)$")
_SOFTMAX = re.compile(r"^_?(log_)?softmax$")
_NAMED = (
    ("attention", re.compile(r"attention")),
    ("convolution", re.compile(r"conv")),
    ("cross-entropy", re.compile(r"nll_loss|cross_entropy")),
    ("matmul", _PRODUCT),
    ("layernorm", re.compile(r"layer_norm|group_norm")),
    ("rmsnorm", re.compile(r"rms_norm")),
    ("softmax", _SOFTMAX),
    ("scan", re.compile(r"^(cumsum|cumprod|cummax|logcumsumexp)$")),
)
_SUMS = re.compile(r"^(sum|mean|amax|amin|max|min|prod|argmax|argmin|var|norm|linalg_vector_norm|mse_loss)$")
_ROOTS = re.compile(r"^r?sqrt$")


def question(context: TurnContext, text: str) -> Query:
    """Return a query for examples like the kernel to improve, by an idea in words; never of the problem itself."""
    kernel = context.candidate.kernel
    return Query(
        text=text,
        language=kernel.language,
        target=kernel.target,
        device=context.profile.device,
        operation=operation_of(context.profile.operators),
        category=context.analysis.category,
        source=kernel.source,
        exclude=context.problem.id,
    )


def technique_of(suggestion: str) -> str:
    """Return the name of an idea without place and reason: 'TMA' of 'TMA: the loads; fewer instructions'."""
    return suggestion.partition(":")[0]


def relevant(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return the hits that have something to do with the technique in the query's text.

    They use a technique that it names, in the same language or for the same operation. Where it names none, they are
    for the same operation in the same language; where the operation is unknown too, the language has to do.
    """
    named = techniques_in(query.text)

    def fits(example: WorkedExample) -> bool:
        at_home = example.language == query.language and example.target == query.target
        same = query.operation in (None, example.operation)
        if named:
            return bool(named.intersection(example.techniques)) and (at_home or same)
        return at_home and same

    return [hit for hit in hits if fits(hit.example)]


def operation_of(operators: Sequence[str]) -> str | None:
    """Return a problem's operation, in the vocabulary of the examples, from the operators that its reference ran.

    'matmul', 'softmax', 'rmsnorm' and so on; None where the reference ran nothing.
    """
    if not operators:
        return None
    if any(map(_SOFTMAX.match, operators)) and sum(1 for operator in operators if _PRODUCT.match(operator)) > 1:
        return "attention"
    for operation, pattern in _NAMED:
        if any(map(pattern.search, operators)):
            return operation
    if any(map(_SUMS.match, operators)):
        return "rmsnorm" if any(map(_ROOTS.match, operators)) else "reduction"
    return "elementwise"
