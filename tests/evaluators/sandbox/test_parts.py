"""Choosing a sandbox, what it hides, and reading files of untrusted code: the parts that need no server."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from kernelwright.core import DeviceError
from kernelwright.evaluators.sandbox import bubblewrap, containment, landlock
from kernelwright.evaluators.sandbox.containment import contain
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.sandbox.untrusted_files import read_untrusted_file
from kernelwright.evaluators.settings import Sandbox

from .conftest import BWRAP, CHECKOUT, LANDLOCK


class TestChoice:
    """Which sandbox is used where not all of them work."""

    @pytest.fixture
    def without_bwrap(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

    @pytest.fixture
    def without_landlock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(landlock, "abi", lambda: 0)

    @pytest.mark.usefixtures("without_bwrap")
    def test_what_is_missing_is_reported(self) -> None:
        with pytest.raises(DeviceError, match=r"`sandbox` bwrap: .*apt install bubblewrap"):
            contain(Sandbox.BWRAP, "cpu")

    def test_what_does_not_work_is_reported(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        fake = tmp_path / "bwrap"
        fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        bubblewrap._trial.cache_clear()
        with pytest.raises(DeviceError, match=r"No permissions to create new namespace.*user namespaces"):
            contain(Sandbox.BWRAP, "cpu")
        bubblewrap._trial.cache_clear()

    @pytest.mark.usefixtures("without_landlock")
    def test_landlock_must_be_there_when_it_is_asked_for(self) -> None:
        with pytest.raises(DeviceError, match="`sandbox` landlock: this kernel has no Landlock"):
            contain(Sandbox.LANDLOCK, "cpu")

    def test_a_machine_without_a_filter_of_calls_has_no_sandbox(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
        containment._warn.cache_clear()
        with pytest.raises(DeviceError, match="`sandbox` landlock: no filter of system calls is known for riscv64"):
            contain(Sandbox.LANDLOCK, "cpu")
        assert contain(Sandbox.AUTO, "cpu").used is Sandbox.NONE
        assert "without a sandbox" in caplog.text

    @pytest.mark.usefixtures("without_bwrap")
    @LANDLOCK
    def test_without_bubblewrap_it_is_landlock(self, caplog: pytest.LogCaptureFixture) -> None:
        assert contain(Sandbox.AUTO, "cpu").used is Sandbox.LANDLOCK
        assert not caplog.records

    @BWRAP
    def test_bubblewrap_comes_first(self) -> None:
        assert contain(Sandbox.AUTO, "cpu").used is Sandbox.BWRAP

    @pytest.mark.usefixtures("without_bwrap", "without_landlock")
    def test_without_both_there_is_one_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        containment._warn.cache_clear()
        for _ in range(2):
            found = contain(Sandbox.AUTO, "cpu")
            assert found.used is Sandbox.NONE and found.rules([], []) is None and found.command([], []) == []
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "apt install bubblewrap" in caplog.text


class TestPlaces:
    """Which files are hidden, shown again, hidden again."""

    def test_the_deepest_place_decides(self, tmp_path: Path) -> None:
        root = tmp_path.resolve()
        for name in ("home/env/lib", "home/env/checkout/core", "home/.ssh"):
            (root / name).mkdir(parents=True)
        (root / "link").symlink_to(root / "home")
        places = Places(
            (root / "home", root / "home/env/checkout"), (root / "home/env", root / "home/env/checkout/core")
        )
        readable = {str(path.relative_to(root)) for path in places.readable() if root in path.parents}
        assert readable == {"home/env/lib", "home/env/checkout/core"}

    def test_home_and_working_folder_are_hidden_and_the_interpreter_is_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "work").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path / "work")
        places = Places.of_this_process()
        assert {tmp_path.resolve() / "home", tmp_path.resolve() / "work", CHECKOUT} <= set(places.hidden)
        readable = places.readable()
        for path in (os.__file__, containment.__file__, shutil.which("sh")):
            assert path and any(allowed in Path(path).resolve().parents for allowed in readable)

    @pytest.mark.parametrize("folder", ["/", "/usr", "/usr/lib", "/etc", sys.prefix, f"{sys.base_prefix}/lib"])
    def test_what_runs_a_worker_is_shown_wherever_home_is(self, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
        monkeypatch.setenv("HOME", folder)
        monkeypatch.chdir(folder)
        readable = Places.of_this_process().readable()
        for path in (
            os.__file__,
            pytest.__file__,
            containment.__file__,
            sys.executable,
            "/usr/lib",
            "/etc/ld.so.cache",
        ):
            real = Path(path).resolve()
            assert not {real, *real.parents}.isdisjoint(readable), path

    @pytest.mark.parametrize("inside", ["/usr/share", "/usr/lib", f"{sys.base_prefix}/lib", f"{sys.prefix}/share"])
    def test_a_working_folder_inside_of_what_is_shown_is_hidden(
        self, monkeypatch: pytest.MonkeyPatch, inside: str
    ) -> None:
        if not os.access(inside, os.W_OK):
            pytest.skip(f"{inside} is not ours to write")
        with tempfile.TemporaryDirectory(dir=inside, prefix="kernelwright-") as name:
            folder = Path(name).resolve()
            monkeypatch.chdir(folder)
            readable = Places.of_this_process().readable()
            monkeypatch.undo()
        assert {folder, *folder.parents}.isdisjoint(readable)
        assert any(folder.parent in path.parents for path in readable), "what lies beside it is shown"

    def test_of_a_folder_on_the_path_only_modules_are_shown(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for folder in ("package", "data", "package.libs"):
            (tmp_path / folder).mkdir()
        for name in ("package/__init__.py", "module.py", ".env", "data/key", "notes.txt", "package.libs/libx.so.5"):
            (tmp_path / name).touch()
        monkeypatch.syspath_prepend(str(tmp_path))
        readable = {path.name for path in Places.of_this_process().readable() if tmp_path.resolve() in path.parents}
        assert readable == {"package", "module.py", "package.libs"}

    def test_secrets_of_the_system_are_hidden(self) -> None:
        readable = Places.of_this_process().readable()
        for path in ("/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/var/lib", "/opt", "/srv", "/mnt"):
            assert {Path(path), *Path(path).parents}.isdisjoint(readable), path


class TestHanded:
    """Reading files of untrusted code."""

    def test_a_plain_file_is_read_from_where_one_says(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        assert read_untrusted_file(tmp_path / "file", 4, 3) == b"3456"
        with pytest.raises(OSError, match="2 bytes are missing"):
            read_untrusted_file(tmp_path / "file", 4, 8)

    def test_what_leads_elsewhere_or_nowhere_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        (tmp_path / "link").symlink_to(tmp_path / "file")
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "link", tmp_path / "pipe", tmp_path, tmp_path / "none", Path("/dev/zero")):
            with pytest.raises(OSError, match=r"not a plain file|links|No such file|directory"):
                read_untrusted_file(path, 4)
