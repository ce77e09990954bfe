"""Generated C of others, written anew so that no access leaves its array."""

from .arguments import Given
from .names import PREFIX
from .prelude import FLOAT_TO_INTEGER
from .source import held_source
from .types import Interval

__all__ = ["FLOAT_TO_INTEGER", "PREFIX", "Given", "Interval", "held_source"]
