"""The error for code that cannot become a first kernel."""


class UnsupportedCodeError(Exception):
    """Code that cannot be rewritten. The message names the unsupported part."""
