"""A model writes the first kernel of a problem that has none."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from ...core import (
    Evaluation,
    Kernel,
    Language,
    Problem,
    Profile,
    PythonKernel,
    Query,
    Retriever,
    Target,
)
from ...core.quotation import quoted
from ...prompts import guide_for, render, sections
from ...rag.render import tokens_of, within
from ..models.models import REWRITE, Models
from ..proposer import RunEndedError
from . import briefing
from .adapter import KernelAdapter
from .asking import asking
from .device import device_text
from .inputs import EXAMPLE_TOKENS, PYTHON, reference_text
from .reply import kernel_of, laid_out
from .retrieval import operation_of

LANE = "first"


class WriteFirstKernel(dspy.Signature):
    """Replaced by prompts/first.md."""

    reference: str = dspy.InputField(desc="the problem: the PyTorch model whose results are correct")
    workload: str = dspy.InputField(desc="the sizes at which the kernel is checked and timed")
    device: str = dspy.InputField(desc="the device, its measured ceilings and its limits")
    work: str = dspy.InputField(desc="the operators of the reference, the work, and the floor under its time")
    examples: str = dspy.InputField(desc="worked kernels of similar problems, and one for this problem if there is one")
    guide: str = dspy.InputField(desc="what is known to compile here")
    failed: str = dspy.InputField(desc="earlier attempts and how they failed")
    kernel: str = dspy.OutputField(desc="the whole file in one ```python block")


class FirstKernelWriter:
    """Asks a model for a kernel in a language; `rag_k` worked examples are shown to it."""

    def __init__(self, models: Models, retriever: Retriever | None, rag_k: int) -> None:
        self._models = models
        self._retriever = retriever
        self._rag_k = rag_k

    def write(
        self,
        problem: Problem,
        profile: Profile,
        language: Language,
        target: Target,
        failed: Sequence[tuple[Kernel | None, Evaluation | str]] = (),
        structures: tuple[PythonKernel, float | None] | None = None,
    ) -> PythonKernel:
        """Return the model's kernel. `failed` are its earlier ones, each with its evaluation or why there was none.

        `structures` is the kernel for this problem that structures give, with its milliseconds, to be shown.
        Raises `NoKernelError` for a reply without a usable kernel, `RunEndedError` where the model fails, and
        `ReplyPendingError`.
        """
        contract = render("contract", language=language.id, imports=language.dialect(target).imports)
        signature = WriteFirstKernel.with_instructions(render("first", language=language.id, contract=contract))
        lm = self._models.lm(REWRITE, LANE)
        with dspy.context(lm=lm, adapter=KernelAdapter(native=False)), asking(self._models):
            try:
                text = dspy.Predict(signature)(
                    **self._inputs(problem, profile, language, target, failed, structures)
                ).kernel
            except dspy.AdapterParseError as error:
                text = error.lm_response
            except dspy.ContextWindowExceededError as error:
                raise RunEndedError(self._models.explain(error)) from None
        return laid_out(kernel_of(str(text or ""), problem, language, target))

    def _inputs(
        self,
        problem: Problem,
        profile: Profile,
        language: Language,
        target: Target,
        failed: Sequence[tuple[Kernel | None, Evaluation | str]],
        structures: tuple[PythonKernel, float | None] | None,
    ) -> dict[str, str]:
        own = _of_structures(*structures) if structures else ""
        others = self._examples(problem, profile, language, target, EXAMPLE_TOKENS - tokens_of(own))
        examples = "\n\n".join(filter(None, [own, others]))
        return {
            "reference": quoted(reference_text(problem), PYTHON),
            "workload": quoted(briefing.workload_text(problem)),
            "device": device_text(profile),
            "work": quoted(briefing.work_text(profile)),
            "examples": quoted(examples) if examples else "none",
            "guide": "\n\n".join(sections(guide_for(language, target)).values()),
            "failed": "\n\n".join(_attempt(*item) for item in failed) or "none",
        }

    def _examples(self, problem: Problem, profile: Profile, language: Language, target: Target, tokens: int) -> str:
        if self._retriever is None or not self._rag_k:
            return ""
        query = Query(
            text=f"a kernel for {', '.join(profile.operators)}",
            language=language,
            target=target,
            device=profile.device,
            operation=operation_of(profile.operators),
            exclude=problem.id,
        )
        return within(self._retriever.search(query, self._rag_k), tokens)


def _of_structures(kernel: PythonKernel, ms: float | None) -> str:
    """Return the kernel of structures as a worked example; one that is too long is left out."""
    time = "neither checked nor timed" if ms is None else f"correct, {ms:.4g} ms on this device"
    text = f"A kernel for this very problem, made of structures, {time}:\n\n{quoted(kernel.source, PYTHON)}"
    return text if tokens_of(text) <= EXAMPLE_TOKENS else ""


def _attempt(kernel: Kernel | None, outcome: Evaluation | str) -> str:
    why = outcome if isinstance(outcome, str) else briefing.failure_text(outcome, log=True)
    return quoted(why) if kernel is None else f"{quoted(kernel.source, PYTHON)}\n{quoted(why)}"
