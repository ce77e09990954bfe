"""Every instruction text for a language model, and the guides to the kernel languages that it can look up."""

from .guides import guide_for, section, sections
from .templates import names, render

__all__ = ["guide_for", "names", "render", "section", "sections"]
