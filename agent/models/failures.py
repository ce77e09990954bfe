"""Describes failures of models in one line that gives the fix."""

from __future__ import annotations

from collections.abc import Callable

import dspy

from .engines import BudgetSpentError, NoReplyError, NothingRecordedError


def explained(error: Exception, model: str, redact: Callable[[str], str]) -> str:
    """Return one line for an error of DSPy's language models."""
    why = redact(short_message(error))
    provider = model.partition("/")[0].upper()
    match error:
        case NoReplyError() | NothingRecordedError() | BudgetSpentError():
            return why
        case dspy.LMNotConfiguredError():
            names = " or ".join(getattr(error, "env_keys", None) or ())
            return f"there is no key for {model}; set {names}" if names else f"{model} is not configured: {why}"
        case dspy.LMAuthError():
            return f"the key for {model} was refused; set another {provider}_API_KEY ({why})"
        case dspy.LMBillingError():
            return f"the account behind {model} cannot pay; look at its billing page ({why})"
        case dspy.LMUnsupportedModelError():
            return f"there is no model {model}; look up its name at the provider ({why})"
        case dspy.LMRateLimitError():
            pause = f"for the next {error.retry_after:.0f} s" if error.retry_after else "for now"
            return f"{model} allows no more requests {pause}; wait, then go on with `resume` ({why})"
        case _ if isinstance(error, dspy.LMTimeoutError) or "timed out" in why:
            return f"{model} did not answer in time; go on with `resume`, or use a faster model ({why})"
        case dspy.ContextWindowExceededError():
            return f"the prompt is too long for {model} even without examples; use a model with more context ({why})"
        case dspy.LMTransportError() | dspy.LMServerError():
            return f"the server of {model} failed; check `api_base` and the network, then `resume` ({why})"
    if "Provider NOT provided" in why:
        provider, _, name = model.partition("/")
        return f"there is no provider {provider}; for a server of your own write openai/{name} and `api_base` URL"
    return f"{model} failed: {why}"


def short_message(error: Exception) -> str:
    """Return the error's message on one line, shortened."""
    return " ".join(str(getattr(error, "message", None) or error).split())[:300]
