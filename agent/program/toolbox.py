"""The tools that a model calls: arguments are checked, responses are short, and a failure is a response too."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any, Literal, get_type_hints

import dspy
from pydantic import Field, PrivateAttr, TypeAdapter, ValidationError, validate_call

from ...core import Config, Kernel, KernelError, OptionError, Retriever, SpaceError, Status, ToolCall
from ...core.quotation import quoted
from ...core.space_inference import named_sizes
from ...prompts import guide_for, render, section, sections
from ...rag.render import within
from ..lane import Lane
from ..proposer import NoKernelError, TurnContext
from ..searches import WantedSearch
from . import briefing
from .answers import response_text
from .context import error_context
from .device import device_text
from .reply import kernel_of, laid_out
from .retrieval import question

TunerName = Literal["portfolio", "grid", "hill_climb", "xgboost"]
Value = int | float | str | bool
EXAMPLE_TOKENS = 6000
CALLS = 12
"""Tool calls in one attempt; after them the model can only submit."""

NAMES_LINES = (Status.COMPILE_ERROR, Status.RUNTIME_ERROR, Status.CRASHED)
"""Failures whose output may name lines of the kernel."""
LOCATED = "call explain_error for the lines around it, fix them, and evaluate again"
NOT_LOCATED = "fix what the message reports, and evaluate again"
NO_FASTER = "it is no faster: ask profile before you give it up, or submit the kernel you were given"


class ToolFailedError(BaseException):
    """A tool failed without the model's fault; `why` is the reason. DSPy reports every `Exception` to the model."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class Toolbox:
    """The tools of one attempt in a lane. Every call is recorded in the lane, with its cost."""

    def __init__(self, context: TurnContext, retriever: Retriever | None, observe: Callable[[ToolCall], None]) -> None:
        self._context = context
        self._lane: Lane = context.lane
        self._retriever = retriever
        self._observe = observe
        self._calls = 0
        self._guide = guide_for(context.candidate.kernel.language, context.candidate.kernel.target)

    def tools(self) -> list[dspy.Tool]:
        """Return the tools in DSPy's form."""
        functions = (
            self.evaluate, self.search_examples, self.tune, self.profile, self.read_guide, self.explain_error,
        )  # fmt: skip
        return [_Observed(self, function) for function in functions]

    def answering_all(self, offered: Mapping[str, dspy.Tool]) -> dict[str, dspy.Tool]:
        """Return DSPy's tools by name, with a response for unknown names too."""

        def unknown(name: str) -> Callable[..., str]:
            def answer(**arguments: Any) -> dict[str, Any]:
                return {"error": f"there is no tool {name}", "next": f"use one of {', '.join(offered)}"}

            return partial(self.call, name, answer)

        return _Answering(offered, unknown)

    def evaluate(self, kernel: str, config: dict[str, Value] | None = None) -> dict[str, Any]:
        """Evaluate a kernel, optionally with other constants."""
        candidate = self._candidate(kernel, config or {})
        evaluation = self._lane.evaluate(candidate, Config(config or {}), "evaluate")
        if not evaluation.ok:
            return {
                "result": quoted(briefing.failure_text(evaluation, log=True)),
                "next": LOCATED if evaluation.status in NAMES_LINES else NOT_LOCATED,
            }
        start = self._context.candidate.latency_ms
        gain = start / evaluation.latency_ms if evaluation.latency_ms else 1.0
        return {
            "result": briefing.measured_text(evaluation),
            "against_the_kernel_you_were_given": f"{gain:.3f} times as fast",
            "next": "submit it, or tune its parameters first" if gain > 1 else NO_FASTER,
        }

    def search_examples(
        self, query: str, technique: str | None = None, k: Annotated[int, Field(ge=1, le=5)] = 2
    ) -> dict[str, Any]:
        """Search worked examples."""
        if self._retriever is None:
            return {"result": "there are no examples in this run", "next": "go on without"}
        idea = f"{technique}: {query}" if technique else query
        hits = self._retriever.search(question(self._context, idea), k)
        found = within(hits, EXAMPLE_TOKENS)
        return {
            "result": quoted(found) if found else "nothing fits",
            "next": "take over the idea, not the code: sizes and names are another problem's",
        }

    def tune(
        self,
        kernel: str,
        space: dict[str, list[Value]],
        tuner: TunerName = "portfolio",
        trials: Annotated[int, Field(ge=1, le=200)] = 30,
        constraints: list[str] | None = None,
    ) -> dict[str, Any]:
        """Search the values of a kernel's constants."""
        candidate = self._candidate(kernel, space)
        if not space:
            raise SpaceError(f"the space is empty; name constants and values: it has {_named(candidate.config)}")
        sizes = named_sizes(self._context.problem, self._context.profile)
        searched = candidate.space(space, constraints or [], sizes)
        found = self._lane.tune(WantedSearch(candidate, searched, tuner, trials))
        if found.best is None or found.best.latency_ms is None:
            statuses = ", ".join(f"{count} {status.value}" for status, count in found.progress.statuses.items())
            return {"error": f"no config was correct: {statuses}", "next": "evaluate the unmodified kernel first"}
        start = found.start.latency_ms if found.start and found.start.latency_ms else None
        gain = f", {start / found.best.latency_ms:.3f} times as fast as the constants it had" if start else ""
        return {
            "result": f"best of {found.progress.trials} configs: {briefing.measured_text(found.best)}{gain}",
            "config": found.best.config,
            "next": "write these values into the constants and submit",
        }

    def profile(self) -> dict[str, Any]:
        """Describe the fastest kernel's position under the roofline."""
        context = self._context
        fastest = min(self._lane.tried, key=lambda tried: tried.latency_ms, default=context.candidate)
        return {
            "result": quoted(briefing.roofline_text(context.profile, fastest)),
            "device": device_text(context.profile),
            "next": "name the limit that the metrics show, and change that",
        }

    def read_guide(self, section_title: str) -> dict[str, Any]:
        """Return a section of the guide to the language."""
        return {"result": section(self._guide, section_title), "next": "use only what it says is accepted"}

    def explain_error(self) -> dict[str, Any]:
        """Show the last error with the source lines around it."""
        if self._lane.last is None or self._lane.last[1].ok:
            return {"result": "nothing has failed yet", "next": "evaluate a kernel first"}
        kernel, evaluation = self._lane.last
        return {
            "result": quoted(error_context(kernel, evaluation)),
            "next": f"fix it; the guide has sections {', '.join(sections(self._guide))}",
        }

    def call(self, name: str, function: Callable[..., dict[str, Any]], /, **arguments: Any) -> str:
        """Do one tool call and return the model's view of it; it is recorded, whatever its outcome."""
        start, before = time.monotonic(), self._lane.workbench.trials
        self._calls += 1
        answer: dict[str, Any]
        try:
            if late := self._lane.late() or (f"all {CALLS} tool calls are used up" if self._calls > CALLS else None):
                answer = {"error": late, "next": "submit the best kernel now"}
            else:
                answer = validate_call(function)(**arguments)
        except ValidationError as error:
            answer = {"error": "; ".join(_mistake(item) for item in error.errors()), "next": "call it again, corrected"}
        except (KernelError, NoKernelError, OptionError, SpaceError) as error:
            answer = {"error": str(error), "next": "fix that and call it again"}
        except Exception as error:  # DSPy would report our bug to the model, and continue
            raise ToolFailedError(error) from error
        if (left := CALLS - self._calls) in range(1, 4):
            answer["calls_left"] = left
        text = response_text(answer)
        call = ToolCall(
            name=name,
            arguments=arguments,
            result=text,
            ok="error" not in answer,
            seconds=round(time.monotonic() - start, 3),
            trials=self._lane.workbench.trials - before,
        )
        self._lane.tool_calls.append(call)
        self._observe(call)
        return text

    def _candidate(self, kernel: str, constants: Collection[str]) -> Kernel:
        """Return the model's kernel, which has these constants; raises `KernelError` if it has not."""
        # Formatted like a submitted kernel, so that an evaluated kernel is not measured again.
        before = self._context.candidate.kernel
        candidate = laid_out(kernel_of(kernel, self._context.problem, before.language, before.target))
        if unknown := sorted(set(constants) - set(candidate.config)):
            raise KernelError(
                f"the kernel has no constant {', '.join(unknown)} at module level; it has {_named(candidate.config)}"
            )
        return candidate


class _Observed(dspy.Tool):
    """A tool whose arguments are checked here: dspy would show the model an internal traceback."""

    _toolbox: Toolbox = PrivateAttr()

    def __init__(self, toolbox: Toolbox, function: Callable[..., dict[str, Any]]) -> None:
        super().__init__(function, desc=render(f"tools/{function.__name__}"), args=_schema(function))
        self._toolbox = toolbox

    def __call__(self, **arguments: Any) -> str:
        assert self.name is not None
        return self._toolbox.call(self.name, self.func, **arguments)


class _Answering(dict[str, Any]):
    """Has an entry for every name. DSPy would respond to an unknown one by itself, outside of the history."""

    def __init__(self, offered: Mapping[str, dspy.Tool], missing: Callable[[str], Callable[..., str]]) -> None:
        super().__init__(offered)
        self._missing = missing

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[..., str]:
        return self._missing(name)


def _schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON schema of each argument, with its bounds, which dspy would leave out."""
    hints = get_type_hints(function, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        found[name] = TypeAdapter(hints[name]).json_schema()
        if parameter.default is not parameter.empty:
            found[name]["default"] = parameter.default
    return found


def _named(config: Config) -> str:
    return ", ".join(config) or "none"


def _mistake(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "arguments"
    return f"{where}: {error['msg']}"
