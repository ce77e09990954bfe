"""Prompts for new instructions, from the outcomes of the current ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dspy

from ...core import ReplyPendingError
from ...core.quotation import NOTICE
from ...prompts import render
from ..models.engines import NoReplyError
from ..models.models import Models
from ..program.signatures import KernelProgram
from ..proposer import RunEndedError
from .outcome import ANALYSE, REPAIR, REWRITE
from .recorded import Kind
from .rollout import Rollouts

REFLECT = "reflect"
CONTRACT = "{{contract}}"
"""Stands for the contract while instructions are improved."""
_PARTS = {
    ANALYSE: "finds the bottleneck of a kernel and suggests what to change; the first suggestion is then carried out",
    REWRITE: "carries out a suggestion in a kernel, with tools in reach, and submits the whole new file",
    REPAIR: "fixes a rewritten kernel that failed, with tools in reach, and submits the whole fixed file",
}


class ImproveInstructions(dspy.Signature):
    """Replaced by prompts/reflect.md."""

    part: str = dspy.InputField(desc="what the part does whose instructions these are")
    present: str = dspy.InputField(desc="its present instructions")
    pages: str = dspy.InputField(desc=f"how it did with them, situation by situation, and what was measured. {NOTICE}")
    new_instructions: str = dspy.OutputField(desc="the complete new instructions")


class Reflection:
    """GEPA's `ProposalFn`, which returns new instructions.

    The contract of a kernel, and what DSPy adds about its tools, are kept from changes: the one stands as a
    mark in the text that is improved, the other is taken off and put back.
    """

    def __init__(self, models: Models, rollouts: Rollouts, program: KernelProgram, kind: Kind) -> None:
        self._models = models
        self._rollouts = rollouts
        language = kind[0].id
        # The contract is what fills its place in the text of a rewrite.
        head, tail = render("rewrite", language=language, contract=CONTRACT).split(CONTRACT)
        self._contract = program.rewrite.signature.instructions.removeprefix(head).removesuffix(tail)
        self._tools = {
            name: agent.react.signature.instructions.removeprefix(agent.signature.instructions)
            for name, agent in ((REWRITE, program.rewrite), (REPAIR, program.repair))
        }
        self._improve = dspy.Predict(ImproveInstructions.with_instructions(render("reflect", language=language)))
        self._asked = 0

    def __call__(
        self,
        candidate: Mapping[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: Sequence[str],
    ) -> dict[str, str]:
        """The new instructions by component. GEPA passes over a reply that cannot be read."""
        found = {}
        for component in components_to_update:
            predictor = component.removeprefix("program.")
            pages = [str(item["Feedback"]) for item in reflective_dataset.get(component, ())]
            text = self._rollouts.guarded(partial(self._ask, predictor, candidate[component], pages))
            if not text:
                raise ValueError("the reply contains no new instructions")
            found[component] = self.unfolded(predictor, text)
        return found

    def folded(self, predictor: str, instructions: str) -> str:
        """Return the part of the instructions that may be changed."""
        return instructions.removesuffix(self._tools.get(predictor, "")).replace(self._contract, CONTRACT)

    def unfolded(self, predictor: str, text: str) -> str:
        """The instructions with all that they must hold."""
        if predictor == ANALYSE:
            return text
        if CONTRACT not in text:
            text += f"\n\n# Contract\n\n{CONTRACT}"
        head, tail = text.split(CONTRACT, 1)
        return f"{head}{self._contract}{tail.replace(CONTRACT, 'the contract')}{self._tools[predictor]}"

    def _ask(self, predictor: str, instructions: str, pages: Sequence[str]) -> str:
        """Return the text of the reply; empty if it has none."""
        self._asked += 1
        lm = self._models.lm(REFLECT, f"reflect {self._asked}")
        with dspy.context(lm=lm, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False), trace=[]):
            try:
                answer = self._improve(
                    part=_PARTS[predictor],
                    present=self.folded(predictor, instructions),
                    pages="\n\n".join(f"# Situation {n}\n\n{page}" for n, page in enumerate(pages, start=1)),
                )
            except dspy.AdapterParseError:
                return ""
            except NoReplyError as error:
                raise ReplyPendingError(self._models.explain(error)) from None
            except dspy.LMError as error:
                raise RunEndedError(self._models.explain(error)) from None
        return str(answer.new_instructions or "").strip()
