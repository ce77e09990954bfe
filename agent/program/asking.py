"""What a model's errors mean for a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import dspy

from ...core import Waiting
from ..models.engines import NoReply
from ..models.models import Models
from ..proposer import RunEnded


@contextlib.contextmanager
def asking(models: Models) -> Iterator[None]:
    """Around a request: raise `Waiting` where a reply is missing, and `RunEnded` where the model failed.

    `ContextWindowExceededError` passes: a shorter prompt may follow.
    """
    try:
        yield
    except dspy.ContextWindowExceededError:
        raise
    except NoReply as error:
        raise Waiting(models.explain(error)) from None
    except dspy.LMError as error:
        raise RunEnded(models.explain(error)) from None
