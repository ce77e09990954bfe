"""Imported by the process that workers are forked from, after the languages: does what each worker would do again."""

from .base import supports

for support in supports():
    support.preload()
