"""Imported by the process that a GPU's workers are forked from, after the languages: does what each would do again."""

from .base import supports

for support in supports():
    support.preload()
