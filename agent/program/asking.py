"""Translates errors of models into errors of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import dspy

from ...core import ReplyPendingError
from ..models.engines import NoReplyError
from ..models.models import Models
from ..proposer import RunEndedError


@contextlib.contextmanager
def asking(models: Models) -> Iterator[None]:
    """Wrap a request: raise `ReplyPendingError` if a reply is missing, and `RunEndedError` if the model failed.

    `ContextWindowExceededError` passes: a shorter prompt may follow.
    """
    try:
        yield
    except dspy.ContextWindowExceededError:
        raise
    except NoReplyError as error:
        raise ReplyPendingError(models.explain(error)) from None
    except dspy.LMError as error:
        raise RunEndedError(models.explain(error)) from None
