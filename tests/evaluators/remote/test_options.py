"""Where to evaluate: which options go together, and what they make."""

from __future__ import annotations

import pytest
from kernelwright.core import OptionError
from kernelwright.evaluators.remote.machines import RemoteWorkers
from kernelwright.evaluators.remote.modal_app import time_limit_s
from kernelwright.evaluators.remote.options import LOCAL, MODAL, RAY, RemoteOptions
from kernelwright.evaluators.settings import Limits, Settings

pytest.importorskip("modal")


def test_this_machine_needs_no_workers() -> None:
    assert RemoteOptions.checked(LOCAL, None, None, "cuda:1") is None


@pytest.mark.parametrize(
    ("where", "gpu", "address", "device", "words"),
    [
        (LOCAL, "H100", None, "auto", "`gpu` H100 is for `evaluator` modal"),
        (RAY, "H100", None, "auto", "`gpu` H100 is for `evaluator` modal"),
        (LOCAL, None, "a:1", "auto", "`ray_address` is for `evaluator` ray"),
        (MODAL, None, "a:1", "auto", "`ray_address` is for `evaluator` ray"),
        (MODAL, None, None, "cpu", "`device` cpu is of this machine; with `evaluator` modal, `gpu`"),
        (RAY, None, None, "cuda:1", "`device` cuda:1: with `evaluator` ray it is cpu, cuda or auto"),
        ("slurm", None, None, "auto", "there is no evaluator 'slurm'; use one of local, modal, ray"),
        (MODAL, "H1OO", None, "auto", "`gpu` H1OO: Modal has T4, L4, .*H100, .*B200"),
    ],
)
def test_what_does_not_go_together(where: str, gpu: str | None, address: str | None, device: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        RemoteOptions.checked(where, gpu, address, device)


def test_modal_takes_any_case_and_has_a_default() -> None:
    assert RemoteOptions.checked(MODAL, "h200", None, "auto") == RemoteOptions(MODAL, "H200")
    assert RemoteOptions.checked(MODAL, None, None, "cuda") == RemoteOptions(MODAL, "H100", device="cuda")


def test_evaluators_of_one_command_share_their_workers() -> None:
    with RemoteWorkers(RemoteOptions(MODAL, "H200"), Limits(compile_s=60)) as remote:
        assert (remote.device, remote.label) == ("cuda", "Modal H200")
        full, search = remote.evaluator(), remote.search_evaluator(None, adaptive=False)
        assert full._workers is search._workers
        assert full.settings == Settings()
        assert search.settings.search is not None
        assert (search.settings.search.compilers, search.settings.search.window) == (8, 32)
        adaptive = remote.search_evaluator(None, adaptive=True).settings.search
        assert adaptive is not None and (adaptive.compilers, adaptive.window) == (4, 4)
        few = remote.search_evaluator(3, adaptive=False, settings=Settings(checks=2)).settings
        assert few.search is not None and (few.checks, few.search.window) == (2, 12)


def test_a_container_has_time_for_a_whole_window() -> None:
    assert time_limit_s(Settings(limits=Limits(compile_s=100, call_s=10))) == 600 + 300
    with RemoteWorkers(RemoteOptions(MODAL)) as remote:
        assert time_limit_s(remote.search_evaluator(None, adaptive=False).settings) > 32 * 120


def test_another_name_of_a_gpu_is_taken() -> None:
    options = RemoteOptions.checked(MODAL, "A10G", None, "auto")
    assert options is not None and options.gpu == "A10"
