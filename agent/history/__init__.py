"""A recorded run, read back: turns, code, metrics, tools, exchanges with models, costs."""

from .run import History, load_history

__all__ = ["History", "load_history"]
