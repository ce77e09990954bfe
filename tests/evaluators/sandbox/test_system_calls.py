"""System calls that reach beyond a process: what untrusted code gets that makes them, and what still works."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.evaluators.sandbox import system_calls

from .conftest import Untrusted

CALLS = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
column = ["x86_64", "aarch64"].index(platform.machine())
def call(numbers, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(numbers[column], *arguments)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"
"""
# What each would do without harm; its arguments are valid, so that the kernel itself would do it for root.
HARMLESS = {
    "settimeofday": "None, None",
    "clock_settime": "99, None",
    "adjtimex": "bytes(256)",
    "sethostname": "os.uname().nodename.encode(), len(os.uname().nodename)",
    "shmget": "0, 4096, 0o1600",
    "semget": "0, 1, 0o1600",
    "msgget": "0, 0o1600",
    "mq_open": "b'kernelwright', 0o102, 0o600, None",
    "add_key": "b'user', b'kernelwright', b'x', 1, -1",
    "request_key": "b'user', b'kernelwright', None, 0",
    "keyctl": "0, -1, 0",
    "inotify_init1": "0",
    "inotify_add_watch": "0, b'/', 0x100",
    "fanotify_init": "0, 0",
    "ptrace": "0, 0, 0, 0",
    "process_vm_readv": "os.getpid(), None, 0, None, 0, 0",
    "process_vm_writev": "os.getpid(), None, 0, None, 0, 0",
    "kcmp": "os.getpid(), os.getpid(), 3, 0, 0",
    "pidfd_getfd": "os.pidfd_open(os.getpid()), 0, 0",
    "perf_event_open": "bytes(128), 0, -1, -1, 0",
    "bpf": "0, bytes(72), 72",
    "userfaultfd": "1",
    "syslog": "10, None, 0",
    "personality": "0xFFFFFFFF",
    "mount": "None, b'/', None, 1 << 18, None",
    "umount2": "b'/', 0",
    "chroot": "b'/'",
    "open_tree": "-100, b'/', 0",
    "unshare": "0",
    "setns": "0, 0",
    "open_by_handle_at": "-100, bytes(8), 0",
    "name_to_handle_at": "-100, b'/', bytes(16), bytes(8), 0",
    "swapon": "b'/', 0",
    "quotactl": "0, None, 0, None",
    "acct": "b'/'",
    "kexec_load": "0, 0, None, 0",
    "init_module": "None, 0, b''",
    "delete_module": "b'none', 0",
    "reboot": "0, 0, 0, None",
}


def test_what_reaches_beyond_the_process_is_refused(untrusted: Untrusted) -> None:
    tried = {name: system_calls.REFUSED[name] for name in HARMLESS}
    calls = ", ".join(f"{name!r}: call(table[{name!r}], {arguments})" for name, arguments in HARMLESS.items())
    assert untrusted(f"{CALLS}return {{{calls}}}", table=tried) == dict.fromkeys(HARMLESS, "EPERM")


def test_what_a_filter_cannot_see_or_nobody_has_looked_at_does_not_exist(untrusted: Untrusted) -> None:
    other = {"later": (system_calls.NEWEST + 1,) * 2, "x32": (0x40000000 | 39,) * 2}
    tried = {**system_calls.UNKNOWN, **other, **system_calls.MEMFD}
    body = f"{CALLS}return {{name: call(numbers, 0, 0, 0) for name, numbers in table.items()}}"
    assert untrusted(body, table=tried) == dict.fromkeys(tried, "ENOSYS")


def test_no_privilege_is_left(untrusted: Untrusted) -> None:
    body = """
    import subprocess
    with open("/proc/self/status") as file:
        own = file.read()
    program = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    kept = [line.split() for text in (own, program) for line in text.splitlines()]
    names = ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:", "NoNewPrivs:")
    return {(line[0], int(line[1], 16)) for line in kept if line and line[0] in names}
    """
    none = dict.fromkeys(("CapInh:", "CapPrm:", "CapEff:", "CapAmb:"), 0)
    assert untrusted(body) == {*none.items(), ("NoNewPrivs:", 1)}


def test_it_gets_no_namespace_of_its_own(untrusted: Untrusted) -> None:
    kinds = {"NS": 17, "CGROUP": 25, "UTS": 26, "IPC": 27, "USER": 28, "PID": 29, "NET": 30}
    body = f"{CALLS}return {{name: call(numbers, 1 << bit | 17, 0, 0, 0, 0) for name, bit in kinds.items()}}"
    assert untrusted(body, numbers=system_calls.CLONE["clone"], kinds=kinds) == dict.fromkeys(kinds, "EPERM")


def test_it_sends_nothing_to_a_service_by_its_address(untrusted: Untrusted, tmp_path: Path) -> None:
    """A pair of sockets for single messages needs no `socket` and no `connect`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(str(tmp_path / "service"))
        service.settimeout(0.1)
        body = """
        done = []
        for kind in ("SOCK_DGRAM", "SOCK_STREAM", "SOCK_SEQPACKET"):
            try:
                one, another = socket.socketpair(socket.AF_UNIX, getattr(socket, kind))
                one.send(b"to the other one")
                another.recv(100)
                done.append(kind)
                one.sendto(b"anybody there?", address)
            except OSError:
                pass
        return done
        """
        assert untrusted(body, address=str(tmp_path / "service")) == ["SOCK_STREAM", "SOCK_SEQPACKET"]
        with pytest.raises(TimeoutError):
            service.recv(1)


@pytest.mark.parametrize("column", [0, 1])
def test_the_numbers_are_those_of_linux(column: int) -> None:
    header = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"][column]
    if not Path(header).exists():
        pytest.skip(f"no {header}")
    given = [f"-D__ARCH_WANT_{name}" for name in ("SYS_CLONE3", "MEMFD_SECRET")]
    command = ["gcc", "-E", "-dM", "-D__BITS_PER_LONG=64", *given, header]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\b", text)}
    tables = [value for name, value in vars(system_calls).items() if name.isupper() and isinstance(value, dict)]
    ours = {name: row[column] for table in tables for name, row in table.items() if row[column] is not None}
    assert len(ours) > 80 and known.get("openat")
    assert {name: known.get(name, number) for name, number in ours.items()} == ours


CUDA = """
import json, mmap, os, socket
from kernelwright.evaluators.sandbox import privileges, seccomp
privileges.give_up()
seccomp.restrict_calls(cuda=True, streams=STREAMS)
done = {}
def tried(name, call):
    try:
        call()
        done[name] = True
    except OSError as error:
        done[name] = False
def asked():
    one, another = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    one.bind(f"\\0kernelwright-{os.getpid()}")
    one.listen()
    another.connect(one.getsockname())
tried("asked", asked)
for kind in ("SOCK_STREAM", "SOCK_DGRAM"):
    tried(kind, lambda: socket.socket(socket.AF_UNIX, getattr(socket, kind)))
tried("AF_INET", lambda: socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET))
tried("memory", lambda: (os.memfd_create("a"), mmap.mmap(-1, 4096)))
tried("time", lambda: __import__("time").clock_settime(11, 0))
print(json.dumps(done))
"""


@pytest.mark.parametrize("streams", [False, True])
def test_cuda_may_ask_other_processes_for_memory_and_no_service(streams: bool) -> None:
    """But for the sockets over which NVIDIA's tools talk to a program, where one is watched."""
    code = CUDA.replace("STREAMS", str(streams))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = dict.fromkeys(["SOCK_DGRAM", "AF_INET", "time"], False)
    assert json.loads(run.stdout) == {"asked": True, "memory": True, "SOCK_STREAM": streams, **others}
