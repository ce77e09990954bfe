"""A language that no file of kernelwright knows: the example of docs/languages.md, as a plug-in."""

from __future__ import annotations

import importlib
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kernelwright.core.language as language
import pytest
from kernelwright.agent.program.context import error_context
from kernelwright.core import (
    Config,
    DeviceError,
    Evaluation,
    KernelError,
    OptionError,
    Problem,
    PythonKernel,
    Status,
    TorchProblem,
    find_language,
)
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline import servers
from kernelwright.evaluators.pipeline.servers import languages_of
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.settings import AllowTorch, Sampling, SearchSettings
from kernelwright.evaluators.workers.client import Worker
from kernelwright.prompts.guides import guide_for, section
from kernelwright.testing import LanguageSuite

from ...conftest import FAST, SCALE_KERNEL

PAGE = Path(__file__).parents[3] / "docs" / "languages.md"
FILES = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
SCALE = FILES["scale.py"]
QUICK = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, heeds_load=False)
GUARDED = replace(FAST, allow_torch=AllowTorch.GLUE)


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The plug-in's folder, which this process and those that it starts can import from."""
    folder = tmp_path_factory.mktemp("plugin")
    for name in ("tinyc.py", "tinyc_language.py"):
        (folder / name).write_text(FILES[name])
    (folder / "tinyc.md").write_text("# TinyC\n\n## Statements\n\nOne line of C per element.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "_REGISTRY", language._Registry())
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        language.register(importlib.import_module("tinyc_language").LANGUAGE)
        yield folder
    for name in ("tinyc", "tinyc_language"):
        sys.modules.pop(name, None)


class TestTinyC(LanguageSuite):
    @pytest.fixture
    def language(self) -> language.Language:
        return find_language("tinyc")

    @pytest.fixture
    def right(self) -> str:
        return SCALE

    @pytest.fixture
    def idle(self) -> str:
        return SCALE.replace("        scale(x, self.weight, y)\n", "        y.copy_(x).mul_(self.weight)\n")

    @pytest.fixture
    def broken(self) -> str:
        return SCALE.replace("c[i] = a[i]", "c[i] = nothing[i]")


def test_it_is_told_from_others() -> None:
    # What is built on a language imports that too, and is not taken for it.
    assert PythonKernel.parse(f"import triton\n{SCALE}").language.id == "tinyc"
    with pytest.raises(KernelError, match="neither tilelang nor triton nor tinyc"):
        PythonKernel.parse(SCALE.replace("import tinyc", ""))


def test_a_section_of_its_guide_is_found() -> None:
    kernel = PythonKernel.parse(SCALE)
    assert section(guide_for(kernel.language, kernel.target), "statements").endswith("One line of C per element.")


def test_the_lines_that_its_compiler_names_are_shown() -> None:
    failed = Evaluation(
        status=Status.COMPILE_ERROR, kernel_digest="k", message="refused", log="tinyc: line 10: no such name"
    )
    (marked,) = [line for line in error_context(PythonKernel.parse(SCALE), failed).splitlines() if line.startswith(">")]
    assert marked.endswith('@tinyc.kernel("c[i] = a[i] * b[i % 256]", FLAGS)')


def test_a_search_compiles_ahead(scale_problem: Problem) -> None:
    searching = replace(GUARDED, search=SearchSettings(compilers=2, window=2, sampling=QUICK))
    configs = [Config({"FLAGS": flags}) for flags in ("-O1", "-O2")]
    with LocalEvaluator(settings=searching, rng=random.Random(1)) as evaluator:
        found = list(evaluator.evaluate(scale_problem, PythonKernel.parse(SCALE), configs))
    assert [evaluation.status for evaluation in found] == [Status.OK, Status.OK], [
        evaluation.message for evaluation in found
    ]
    assert len({evaluation.code_digest for evaluation in found} - {None}) == 2, "both were traced, and told apart"


def test_a_language_is_imported_when_a_kernel_needs_it(scale_problem: Problem) -> None:
    other, both = PythonKernel.parse(SCALE_KERNEL), PythonKernel.parse(f"# As TinyC does.\nimport triton\n{SCALE}")
    with LocalEvaluator(settings=GUARDED) as evaluator:
        processes = evaluator.processes
        processes.servers.load(languages_of(other), other.language)
        assert processes.server.knows("tilelang") and not processes.server.knows("tinyc")
        with processes.compilers(scale_problem, processes.cache(other), 1) as pool:
            late = pool.submit(SCALE).result(timeout=60)
        assert late.digest is not None, "a compiler that imports it with the source captures its launches too"
        processes.servers.load(languages_of(both), both.language)
        assert processes.server.knows("tinyc") and processes.server.knows("triton")


def test_languages_are_imported_while_a_new_reference_opens(
    scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, opened = PythonKernel.parse(SCALE_KERNEL), ReferenceClient.__init__
    with LocalEvaluator(settings=GUARDED) as evaluator:
        processes = evaluator.processes

        def open_late(client: ReferenceClient, problem: TorchProblem, worker: Worker, *more: Any) -> None:
            deadline = time.monotonic() + 60
            while not processes.server.knows("tilelang"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            opened(client, problem, worker, *more)

        monkeypatch.setattr(ReferenceClient, "__init__", open_late)
        processes.servers.expect(languages_of(kernel))
        assert not processes.server.knows("tilelang")
        assert processes.reference_client(TorchProblem.of(scale_problem)).alive


def test_a_language_that_a_kernel_only_names_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = language.known_languages
    absent = replace(find_language("tinyc"), id="absent", modules=("absent",))
    monkeypatch.setattr(servers, "known_languages", lambda: (*there(), absent))
    with LocalEvaluator(settings=GUARDED) as evaluator:
        kernel = PythonKernel.parse(f"# Unlike absent.\n{SCALE}")
        assert languages_of(kernel) == (kernel.language, absent)
        evaluator.processes.servers.load(languages_of(kernel), kernel.language)
        with pytest.raises(DeviceError, match="cannot import absent: No module named 'absent'"):
            evaluator.processes.servers.load([absent], absent)


def test_the_variable_names_plug_ins(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_REGISTRY", language._Registry())
    monkeypatch.setenv(language.VARIABLE, "tinyc_language")
    assert find_language("tinyc").name == "TinyC"
    assert language.plugin_environment() == {language.VARIABLE: "tinyc_language"}
    monkeypatch.setattr(language, "_REGISTRY", language._Registry())
    monkeypatch.setenv(language.VARIABLE, "no_such_module")
    with pytest.raises(OptionError, match="no_such_module cannot be loaded"):
        find_language("tinyc")


def test_an_id_is_taken_once() -> None:
    with pytest.raises(OptionError, match="another kernel language with the id 'triton'"):
        language.register(replace(find_language("tinyc"), id="triton"))
    with pytest.raises(OptionError, match="set Language"):
        language.register(replace(find_language("tinyc"), id="other", support=""))
    with pytest.raises(OptionError, match="no kernel language 'other'; there are tilelang, triton, tinyc"):
        find_language("other")
