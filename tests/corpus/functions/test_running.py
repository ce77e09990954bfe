"""Code of a module that is run to learn its configs, or what it imports: in a sandbox, whoever wrote it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from kernelwright.corpus.functions.translation import UserFunction
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places

from ...user_packages import RMS_NORM

pytestmark = pytest.mark.skipif(
    not landlock.abi() and bubblewrap.obstacle(Places.of_this_process()) is not None, reason="no sandbox works here"
)
SECRET = "PLANTED-SECRET"


def changed(tmp_path: Path, expression: str) -> UserFunction:
    """A package whose list of configs is computed with this expression, which must be 4."""
    folder = RMS_NORM.copied(tmp_path)
    path = folder / "rownorm" / "ops" / "rms_norm.py"
    text = path.read_text()
    assert "num_warps=warps" in text
    text = text.replace("import torch\n", "import os\nimport socket\nimport sys\n\nimport torch\n", 1)
    path.write_text(text.replace("num_warps=warps", f"num_warps={expression}"))
    return RMS_NORM.translated(folder)


def test_torch_is_imported_only_where_a_list_needs_it(tmp_path: Path) -> None:
    """Importing it takes longer than all else, and what a package uses at its import is there."""
    unused = changed(tmp_path / "unused", "8 if 'torch.nn' in sys.modules else 4").kernel
    assert {config["NUM_WARPS"] for config in unused.declared_configs} == {4}
    used = changed(tmp_path / "used", "torch.finfo(torch.float16).bits // 4").kernel
    assert {config["NUM_WARPS"] for config in used.declared_configs} == {4}


def test_it_writes_no_file_of_the_user(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    code = f"(4 if os.system('true > {victim}') else 8)"
    assert {config["NUM_WARPS"] for config in changed(tmp_path, code).kernel.declared_configs} == {4}
    assert not victim.exists()


@pytest.mark.parametrize("place", ["secret", "environ"])
def test_it_reads_no_file_of_the_user(tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "secret" if place == "secret" else Path(f"/proc/{os.getpid()}/environ")
    (tmp_path / "secret").write_text(SECRET)
    assert changed(tmp_path, f"len(open({str(secret)!r}).read())").kernels == ()
    assert re.search(r"cannot be evaluated here: (PermissionError|FileNotFoundError)", caplog.text)


def test_it_has_no_network_and_signals_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for code in (
        "socket.create_connection(('127.0.0.1', 9), 1)",
        f"os.kill({os.getpid()}, 0)",
    ):
        caplog.clear()
        assert changed(tmp_path / str(time.monotonic_ns()), code).kernels == ()
        assert re.search(r"(PermissionError|ConnectionRefusedError|ProcessLookupError)", caplog.text)


def test_nothing_of_the_working_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    for name in ("json", "ctypes", "resource", "kernelwright"):
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path / "here")
    assert changed(tmp_path, "max(warps, 1)").kernel.declared_configs
    assert not (tmp_path / "imported").exists()


def test_it_imports_other_packages_of_pythons_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed into a folder of their own, which the sandbox does not list."""
    (other := tmp_path / "installed" / "of_others").mkdir(parents=True)
    (other / "__init__.py").write_text("WARPS = 8\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(other.parent), os.environ.get("PYTHONPATH", "")]))
    found = changed(tmp_path, "__import__('of_others').WARPS")
    assert {config["NUM_WARPS"] for config in found.kernel.declared_configs} == {8}
