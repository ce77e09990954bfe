"""Workers of any role, and the folder in which they keep what they compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem, known_languages
from kernelwright.evaluators.pipeline.servers import COMPILERS_IMPORT, server_environment, servers_import
from kernelwright.evaluators.workers.client import Worker
from kernelwright.evaluators.workers.problem_file import problem_options
from kernelwright.evaluators.workers.server_client import ForkServer

NewWorker = Callable[..., Worker]


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """One for all tests: it starts cold, since Triton is not the interpreter here."""
    languages = [language.modules[0] for language in known_languages()]
    server = ForkServer([*servers_import(), *languages, COMPILERS_IMPORT], server_environment("cuda"))
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "shared-cache"


@pytest.fixture
def new_worker(server: ForkServer, tmp_path: Path, cache: Path) -> NewWorker:
    serial = itertools.count()

    def start(problem: Problem, role: str = "compilation.worker", device: str = "cpu", **options: Any) -> Worker:
        folder = tmp_path / f"{role.partition(chr(46))[0]}-{next(serial)}"
        folder.mkdir()
        return server.fork(
            role, folder, device=device, cache=str(cache), **problem_options(problem, tmp_path), **options
        )

    return start
