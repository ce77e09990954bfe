"""What a worker reads where the working folder and the home lie among what it needs, as root and as another user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernelwright
import pytest

from .conftest import BWRAP, LANDLOCK

NOBODY = 65534
PROGRAM = '''
import json, sys
from kernelwright.core import PythonKernel
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.settings import Limits, Sandbox
KERNEL = find_kernel("1_19", "tilelang_cpu").read()
READ = f"""
read = []
for path in {sys.argv[2:]!r}:
    try:
        with open(path, "rb") as file:
            file.read(1)
        read.append(path)
    except OSError:
        pass
import json
raise RuntimeError("read " + json.dumps(read))
"""
processes = Processes("cpu", Limits(), Sandbox(sys.argv[1]))
problem = find_problem("1_19").read().at("tiny")
processes.servers.load([KERNEL.language], KERNEL.language)
with processes.compilers(problem, processes.cache(KERNEL), 1) as pool:
    print(pool.submit(READ).result(timeout=120).message.splitlines()[0])
    print(pool.submit(KERNEL.source).result(timeout=120).status)
processes.close()
'''


@pytest.fixture
def project() -> Iterator[Path]:
    """A project under /opt with a virtual environment inside."""
    if not os.access("/opt", os.W_OK):
        pytest.skip("/opt is not ours to write")
    with tempfile.TemporaryDirectory(dir="/opt", prefix="kernelwright-") as name:
        project = Path(name)
        project.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / "env"], check=True)
        site = next((project / "env" / "lib").glob("python3*/site-packages"))
        (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        # A clone's folder may have any name, and a .pth does not run the hooks of editable installs.
        (site / "kernelwright").symlink_to(Path(kernelwright.__path__[0]))
        (project / ".env").write_text("secret")
        yield project


@pytest.fixture
def home() -> Iterator[Path]:
    if not os.access("/usr/share", os.W_OK):
        pytest.skip("/usr/share is not ours to write")
    with tempfile.TemporaryDirectory(dir="/usr/share", prefix="kernelwright-") as name:
        Path(name).chmod(0o777)
        (Path(name) / ".netrc").write_text("secret")
        yield Path(name)


@pytest.mark.parametrize("as_root", [True, False])
@pytest.mark.parametrize("sandbox", [pytest.param("landlock", marks=LANDLOCK), pytest.param("bwrap", marks=BWRAP)])
def test_home_and_working_folder_are_hidden_among_what_is_needed(
    project: Path, home: Path, sandbox: str, as_root: bool
) -> None:
    python = str(project / "env" / "bin" / "python")
    another: dict[str, Any] = {} if as_root else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if not as_root:
        try:
            subprocess.run([python, "-c", "import torch"], check=True, capture_output=True, **another)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this user cannot be another one, or that one may not read this Python environment")
    secrets = [str(project / ".env"), str(home / ".netrc"), "/etc/shadow", "/etc/gshadow", "/etc/passwd-"]
    run = subprocess.run(
        [python, "-P", "-c", PROGRAM, sandbox, *secrets, "/etc/passwd"],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        **another,
    )
    assert run.stdout.splitlines() == [f"RuntimeError: read {json.dumps(['/etc/passwd'])}", "compiled"], run.stderr
