"""Applies rules to kernels in sequence, and caches the results: a kernel, or the reason why there is none."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import replace

import black

from ..core import Kernel, PythonKernel
from ..core.text import first_line
from ..core.turn_record import SkippedRule
from .analysis.applicability import NotApplicableError, OtherLanguageError
from .rules import Machine, Rewritten, Rule, known_rules

_LOG = logging.getLogger(__name__)
LINE_LENGTH = 120


class AppliedRules:
    """Results of rules on kernels. Each sequence of rules is applied to a kernel once.

    Without `rules` all are applied that are known: this package's, and those of others.
    """

    def __init__(self, machine: Machine, rules: Sequence[Rule] | None = None) -> None:
        self.rules = known_rules() if rules is None else rules
        self.failed_together: list[SkippedRule] = []
        """Failed combinations that were not reported yet; who reports them empties the list."""
        self._machine = machine
        self._made: dict[tuple[str, tuple[str, ...]], tuple[Rewritten, ...] | SkippedRule] = {}

    def apply(self, rules: Sequence[Rule], kernel: Kernel) -> tuple[Rewritten, ...] | SkippedRule:
        """Return the results of rules applied in sequence, or the first rule that made no change.

        Results of prefixes are cached, since longer sequences start with them.
        """
        if not rules:
            return ()
        key = (kernel.digest, tuple(rule.name for rule in rules))
        if key not in self._made:
            before = self.apply(rules[:-1], kernel)
            self._made[key] = before if isinstance(before, SkippedRule) else self._more(before, rules[-1], kernel)
        return self._made[key]

    def skipped(self, kernel: Kernel, categories: Sequence[str] = ()) -> list[SkippedRule]:
        """Return the rules that make no change of a kernel, those of the first of the `categories` first.

        Rules for other languages are left out.
        """
        places = {category: place for place, category in enumerate(categories)}
        rules = sorted(self.rules, key=lambda rule: places.get(rule.category, len(places)))
        made = (self.apply([rule], kernel) for rule in rules)
        return [item for item in made if isinstance(item, SkippedRule) and item.reason]

    def _more(self, before: tuple[Rewritten, ...], rule: Rule, kernel: Kernel) -> tuple[Rewritten, ...] | SkippedRule:
        latest = before[-1].kernel if before else kernel
        if not isinstance(latest, PythonKernel):
            return SkippedRule(rule=rule.name, reason="")  # rules rewrite Python
        try:
            rewritten = rule.apply(latest, self._machine)
            return (*before, replace(rewritten, kernel=formatted(rewritten.kernel)))
        except OtherLanguageError:
            return SkippedRule(rule=rule.name, reason="")
        except NotApplicableError as reason:
            _LOG.debug("rule %s does not fit: %s", rule.name, reason)
            return SkippedRule(rule=rule.name, reason=str(reason))
        except Exception as error:  # a bug of this rule, which the others need not pay for
            _LOG.exception("rule failed: %s", rule.name)
            what = first_line(f"{type(error).__name__}: {error}")
            if before:
                what = f"after {len(before)} other{'s' * (len(before) > 1)}: {what}"
            failed = SkippedRule(rule=rule.name, reason=what, failed=True)
            self.failed_together += [failed] if before else []
            return failed


def formatted(kernel: PythonKernel) -> PythonKernel:
    """Return the kernel with its source formatted by black."""
    return replace(kernel, source=_formatted(kernel.source))


@functools.lru_cache(maxsize=256)
def _formatted(source: str) -> str:
    """Format a file. It is cached, since black takes 60 ms, and lanes and tools of a turn format the same files."""
    return black.format_str(source, mode=black.Mode(line_length=LINE_LENGTH))
