"""What Landlock does not cover: attributes of files by their paths, watches, and processes that leave their group."""

from __future__ import annotations

import os
from pathlib import Path

from kernelwright.evaluators.sandbox import system_calls

from .conftest import Untrusted
from .test_system_calls import CALLS


def test_a_hidden_file_keeps_its_mode_owner_times_and_attributes(untrusted: Untrusted, home: Path) -> None:
    """Whoever may open a user's key to others, or lock the user out, need not read it."""
    secret, folder = home / ".ssh/id_ed25519", home / ".ssh"
    before = [(path.stat().st_mode, path.stat().st_mtime_ns, os.listxattr(path)) for path in (secret, folder)]
    body = """
    import contextlib
    for path in paths:
        for change in (
            lambda: os.chmod(path, 0o777),
            lambda: os.chmod(path, 0),
            lambda: os.utime(path, (1, 1)),
            lambda: os.chown(path, -1, os.getgid()),
            lambda: os.setxattr(path, "user.kernelwright", b"kept"),
        ):
            with contextlib.suppress(OSError):
                change()
    """
    untrusted(body, paths=[str(secret), str(folder)])
    assert [(path.stat().st_mode, path.stat().st_mtime_ns, os.listxattr(path)) for path in (secret, folder)] == before


def test_each_such_call_does_nothing_and_says_so_as_compilers_expect(untrusted: Untrusted, home: Path) -> None:
    secret = home / ".netrc"
    before = (secret.stat().st_mode, secret.stat().st_mtime_ns)
    path = os.fsencode(secret)
    arguments = {
        "chmod": "path, 0o777",
        "fchmodat": "-100, path, 0o777",
        "fchmodat2": "-100, path, 0o777, 0",
        "chown": "path, -1, -1",
        "fchownat": "-100, path, -1, -1, 0",
        "utime": "path, None",
        "utimes": "path, None",
        "utimensat": "-100, path, None, 0",
    }
    tried = {name: system_calls.PRETENDED[name] for name in arguments if None not in system_calls.PRETENDED[name]}
    calls = ", ".join(f"{name!r}: call(table[{name!r}], {arguments[name]})" for name in tried)
    assert untrusted(f"{CALLS}return {{{calls}}}", table=tried, path=path) == dict.fromkeys(tried, "done")
    assert (secret.stat().st_mode, secret.stat().st_mtime_ns) == before


def test_a_file_that_it_reads_gets_no_flags_and_no_lease(untrusted: Untrusted) -> None:
    body = """
    import fcntl
    done = []
    with open(os.__file__, "rb") as file:
        flags = fcntl.ioctl(file, 0x80086601, bytes(8))
        for name, change in {
            "flags": lambda: fcntl.ioctl(file, 0x40086602, flags),
            "lease": lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),
            "notice": lambda: fcntl.fcntl(os.open(os.path.dirname(os.__file__), os.O_RDONLY), fcntl.F_NOTIFY, 1),
        }.items():
            try:
                change()
                done.append(name)
            except PermissionError:
                pass
    return done
    """
    assert untrusted(body) == []


def test_what_it_starts_stays_in_its_group(untrusted: Untrusted) -> None:
    """By the group a worker is ended, or stopped, with all that it started, whatever these processes do meanwhile."""
    body = """
    import subprocess, sys
    tried = []
    for leave in ("os.setsid()", "os.setpgid(0, 0)"):
        code = f"import os; {leave}; print('left')"
        tried.append(subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True).stdout)
    return tried
    """
    assert untrusted(body) == ["", ""]
