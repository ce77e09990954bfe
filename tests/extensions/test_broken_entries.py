"""Entry points that cannot be used: one line that names the package, and only where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import kernelwright.core.language as language
import pytest
from kernelwright.agent.rules import known_rules
from kernelwright.core import OptionError, SearchSpace, known_languages
from kernelwright.evaluators.remote.machines import RemoteWorkers
from kernelwright.evaluators.remote.options import RemoteOptions
from kernelwright.runtime.command import find_command
from kernelwright.tuners import catalogue

from ..cli.commands import process
from ..toy_distribution import broken_site, installed

SPACE = SearchSpace.of({"A": [1, 2]})


def use_command() -> None:
    command = find_command("odd")
    assert command is not None and command.options


USES: dict[str, tuple[str, str, Callable[[], object]]] = {
    "commands": ("command", "module with a command", use_command),
    "evaluators": ("evaluator", "kernelwright.remote.EvaluatorEntry", lambda: RemoteWorkers(RemoteOptions("odd"))),
    "languages": ("kernel language", "module with a LANGUAGE", known_languages),
    "rules": ("rule", "kernelwright.Rule", known_rules),
    "tuners": ("tuner", "kernelwright.TunerEntry", lambda: catalogue.create_tuner("odd", SPACE)),
}
"""By group: what an entry is called, what it must be, and what uses one that is called odd."""


@pytest.fixture(autouse=True)
def _no_languages_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_REGISTRY", language._Registry())


@pytest.fixture(params=USES)
def group(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refusal(site: Path, group: str) -> str:
    """What using the entry is refused with."""
    with installed(site), pytest.raises(OptionError) as raised:
        USES[group][2]()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("value", "modules", "why"),
    [
        ("odd_module:thing", {}, "ModuleNotFoundError: No module named 'odd_module'"),
        ("odd_module:thing", {"odd_module": ""}, "AttributeError: module 'odd_module' has no attribute 'thing'"),
        ("odd_module", {"odd_module": r"raise ValueError('one\ntwo')"}, "ValueError: one two"),
        ("odd_module", {"odd_module": "raise SystemExit('no')"}, "SystemExit: no"),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, group: str, value: str, modules: dict[str, str], why: str) -> None:
    site = broken_site(tmp_path / "site", f"kernelwright.{group}", {"odd": value}, modules)
    place = f"the {USES[group][0]} odd of broken 0.1, {value},"
    says = f"{place} cannot be loaded ({why}); fix it, or uninstall broken"
    for _ in range(2):
        assert refusal(site, group) == says


@pytest.mark.parametrize(("source", "actual"), [("thing = 7", "of type int"), ("class thing: ...", "the class thing")])
def test_what_is_another_thing(tmp_path: Path, group: str, source: str, actual: str) -> None:
    what, wanted, _ = USES[group]
    entry = {"odd": "odd_module:thing"}
    site = broken_site(tmp_path / "site", f"kernelwright.{group}", entry, {"odd_module": source})
    says = f"the {what} odd of broken 0.1, odd_module:thing, is not a {wanted}: it is {actual}"
    says += "; fix it, or uninstall broken"
    assert refusal(site, group) == says


@pytest.mark.parametrize(
    ("group", "lacks"),
    [("commands", "is not a command: it has no Options"), ("languages", "is a module without a LANGUAGE")],
)
def test_a_module_that_lacks_what_it_must_have(tmp_path: Path, group: str, lacks: str) -> None:
    site = broken_site(tmp_path / "site", f"kernelwright.{group}", {"odd": "odd_module"}, {"odd_module": '"""Odd."""'})
    assert f"odd of broken 0.1, odd_module, {lacks}" in refusal(site, group)


@pytest.mark.parametrize(
    ("group", "name", "use"),
    [
        ("tuners", "portfolio", lambda: catalogue.create_tuner("portfolio", SPACE)),
        ("evaluators", "modal", lambda: RemoteWorkers(RemoteOptions("modal"))),
        ("rules", "split-k", known_rules),
    ],
)
def test_a_name_that_is_taken(tmp_path: Path, group: str, name: str, use: Callable[[], object]) -> None:
    source = "import dataclasses\nfrom kernelwright.agent.rules import RULES\n"
    source += "thing = dataclasses.replace(next(rule for rule in RULES if rule.name == 'split-k'))"
    site = broken_site(tmp_path / "site", f"kernelwright.{group}", {name: "odd_module:thing"}, {"odd_module": source})
    with installed(site), pytest.raises(OptionError, match=rf"{name} of broken 0\.1, .*has the name of another"):
        use()


def test_an_id_of_a_language_that_is_taken(tmp_path: Path) -> None:
    source = "import dataclasses\nfrom kernelwright.core.languages import TRITON\n"
    source += "LANGUAGE = dataclasses.replace(TRITON, name='T'{})"
    for more, why in (
        ("", "names no module with its support"),
        (", support='x'", "another kernel language with the id"),
    ):
        modules = {"odd_module": source.format(more)}
        site = broken_site(tmp_path / f"site{len(more)}", "kernelwright.languages", {"odd": "odd_module"}, modules)
        begin = r"the kernel language odd of broken 0\.1, odd_module, cannot be used"
        assert re.match(f"{begin} .*{why}", refusal(site, "languages"))


def test_only_what_is_broken_fails(tmp_path: Path) -> None:
    """Help lists names, and other commands go on."""
    site = broken_site(tmp_path / "site", "kernelwright.commands", {"odd": "odd_module"}, {})
    with installed(site):
        shown = process("--help", cwd=tmp_path)
        assert shown.returncode == 0 and "(cannot be read: odd_module of broken 0.1)" in shown.stdout
        assert process("evaluate", "--help", cwd=tmp_path).returncode == 0
        run = process("odd", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: the command odd of broken 0.1, odd_module, cannot be loaded (ModuleNotFound")
    assert len(run.stderr.splitlines()) == 1
