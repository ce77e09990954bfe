"""A session has the module's functions, without what it fixes, and hands its servers from one call to the next."""

from __future__ import annotations

import ast
import gc
import inspect
from pathlib import Path

import kernelwright
import pytest
from kernelwright import python_api
from kernelwright.commands import batch, optimize
from kernelwright.core.events import ignore
from kernelwright.evaluators.pipeline.kept_processes import KeptProcesses
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.events import Event, Step
from kernelwright.runtime.options.trust import TimingOptions
from kernelwright.runtime.runtime import Runtime

NAMES = sorted(python_api.names() & {*kernelwright.__all__} - {"tune_attention"})


def kept_by(opened: kernelwright.Session) -> list[Processes]:
    """What is free."""
    return [processes for several in opened._kept._free.values() for processes in several]


def test_calls_share_servers_until_the_session_is_closed(kernel_file: Path) -> None:
    heard: list[Event] = []
    with kernelwright.Session(device="cpu", sandbox="none", on_event=heard.append) as opened:
        problem = str(kernel_file.parent / "level1" / "999_Scale.py")
        assert opened.evaluate(str(kernel_file), problem=problem, quick=True).correct
        (processes,) = kept_by(opened)
        started = processes.server_pids
        assert opened.profile(str(kernel_file), problem=problem, quick=True).correct
        assert kept_by(opened) == [processes] and processes.server_pids == started
        assert any(isinstance(event, Step) for event in heard)
    assert not processes.folder.exists() and not Path(f"/proc/{started[0]}").exists()
    with pytest.raises(kernelwright.KernelwrightError, match=r"^the session is closed; open another one$"):
        opened.evaluate(str(kernel_file))


def test_a_mistake_costs_no_servers(kernel_file: Path) -> None:
    with kernelwright.Session(device="cpu") as opened:
        with pytest.raises(kernelwright.KernelwrightError):
            opened.evaluate("no_such_kernel.py")
        assert kept_by(opened) == [] and not opened._kept._lent


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_the_options_of_the_function_but_what_is_fixed(name: str) -> None:
    with kernelwright.Session(device="cpu") as opened:
        method, function = getattr(opened, name), getattr(kernelwright, name)
    ours, all_of_them = inspect.signature(method).parameters, inspect.signature(function).parameters
    assert [*ours] == [option for option in all_of_them if option not in ("device", "sandbox")]
    assert method.__name__ == name and "    device:" not in method.__doc__


def test_type_checkers_know_all_methods() -> None:
    tree = ast.parse(inspect.getsource(kernelwright.Session))
    (block,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    declared = [node.targets[0].id for node in block.body if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    with kernelwright.Session(device="cpu") as opened:
        assert declared == NAMES and {*NAMES} <= {*dir(opened)}
        assert not hasattr(opened, "tune_attention") and not hasattr(opened, "load_plan")


def test_what_the_session_fixes_is_no_option_of_a_call() -> None:
    with kernelwright.Session(device="cpu", sandbox="landlock") as opened:
        with pytest.raises(
            kernelwright.KernelwrightError, match=r"^`device` is the session's: cpu; leave it out of the"
        ):
            opened.evaluate("1_19", device="cpu")
        with pytest.raises(kernelwright.KernelwrightError, match=r"^`sandbox` is the session's: landlock; "):
            opened.tune("1_19", sandbox="none")
        assert len(opened.retrieve("row softmax", k=1).hits) == 1  # it has neither option


def test_what_cannot_be_is_said_when_the_session_opens() -> None:
    with pytest.raises(kernelwright.KernelwrightError, match="no device 'tpu'"):
        kernelwright.Session(device="tpu")
    with pytest.raises(kernelwright.KernelwrightError, match="`sandbox` 'cage'"):
        kernelwright.Session(sandbox="cage")


def test_a_session_that_is_forgotten_ends_its_servers() -> None:
    opened = kernelwright.Session(device="cpu")
    kept, options = opened._kept, TimingOptions()
    with Runtime(ignore, kept) as runtime, runtime.local_evaluator("cpu", options)() as evaluator:
        folder = evaluator.processes.folder
    assert folder.exists()
    del opened
    gc.collect()
    assert not folder.exists()


def test_every_evaluator_of_a_runtime_takes_kept_processes() -> None:
    kept, options = KeptProcesses(), TimingOptions()
    with Runtime(ignore, kept) as runtime:
        for opened in (
            runtime.local_evaluator("cpu", options),
            runtime.evaluator("cpu", options),
            runtime.evaluators("cpu", 1, options),
            runtime.searcher(["cpu"], options, "portfolio", 120.0),
        ):
            with opened():
                assert len(kept._lent) == 1
            assert sum(map(len, kept._free.values())) == 1
    kept.close()


@pytest.mark.parametrize(
    ("command", "options"),
    [(optimize, optimize.Options("1_19", device="cpu")), (batch, batch.Options(("1_19",), device="cpu"))],
)
def test_runs_take_kept_processes(command: object, options: object, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptProcesses()
    monkeypatch.setattr(Processes, "start", lambda self: None)
    monkeypatch.setattr(Processes, "start_compilers", lambda self: None)
    with Runtime(ignore, kept) as runtime:
        plan = command.plan(options, runtime)  # type: ignore[attr-defined]
        with plan.open_optimizer(ignore):
            assert len(kept._lent) == 1
    assert sum(map(len, kept._free.values())) == 1
    kept.close()
