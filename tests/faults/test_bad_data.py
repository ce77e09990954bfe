"""Whatever a file holds, a reader returns what it can use or ends with one line that names the file: no other error."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.agent.history.run import load_history
from kernelwright.agent.models.transcript import read_replies
from kernelwright.agent.program.signatures import read_program
from kernelwright.core import Archive, ArchivedRun, Experience, KernelwrightError, Target, read_journal
from kernelwright.core import files as core_files
from kernelwright.core.cache import Cache
from kernelwright.core.languages.triton import TRITON
from kernelwright.core.launch_plan import LaunchPlan, TensorLayout
from kernelwright.corpus.examples import read_gains
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset
from kernelwright.corpus.functions.table import read_table
from kernelwright.evaluators.kernelbench.run_folder import RunFolder
from kernelwright.evaluators.replay.saved import saved_constants, saved_plan
from kernelwright.runtime import configuration
from kernelwright.runtime.trusted_projects import TrustedProjects
from kernelwright.tuners import files
from kernelwright.tuners.formats import read_recording
from kernelwright.tuners.gemm.sizes import read_sizes
from kernelwright.tuners.gemm.stores.stamp import read_stamp
from kernelwright.tuners.gemm.stores.store import read_json
from kernelwright.tuners.mlir.cfg import read_cfg
from kernelwright.tuners.schedule.attention import Rates
from kernelwright.tuners.schedule.fitting import read_rates

from .. import made_up_runs
from ..corpus.flashinfer_trace.folders import definition


class Reader(NamedTuple):
    """What reads a file of a name, and an example of one."""

    name: str
    read: Callable[[Path], Any]
    whole: str


JOURNAL = "".join(json.dumps(record) + "\n" for record in made_up_runs.records())
SIZES = "- {M: 16, N: 1024, K: 1024}\n- [[16, 32], 1024, 1024]\n"
TABLE = "M: [16, 32]\nN: 4096\ninputs:\n  x: {shape: [M, N], dtype: float16}\n  eps: 1e-6\n"
CACHE = '{"tune_params_keys": ["A"], "cache": {"1": {"A": 1, "time": 2.0, "times": [2.0]}}}'
T4 = '{"metadata": {"timeunit": "ms"}, "results": [{"configuration": {"A": 1}, "invalidity": "correct", ' + (
    '"times": {"runtimes": [1.0]}, "measurements": [{"name": "time", "value": 1.0, "unit": "ms"}], '
    '"objectives": ["time"]}]}'
)
CFG = "[Env]\ninput_file = a.mlir\n[SearchSpace]\n[SearchStrategy]\nn_trial = 4\n"
GAINS = json.dumps({"a": {**dict.fromkeys(("before_ms", "after_ms", "speedup", "low", "high"), 2.0), "device": "cpu"}})
RATES = json.dumps({"rates": dict.fromkeys((field.name for field in dataclasses.fields(Rates)), 1.0)})
LAYOUT = TensorLayout(shape=(4,), strides=(1,), dtype="float32")
PLAN = LaunchPlan(inputs=(0,), layouts={0: LAYOUT}, codes={}, steps=(), outputs=(0,), returns="tensor")
EXCHANGE = '{"kind": "exchange", "number": 1, "lane": "1.0", "request": {"messages": []}, "reply": {"text": "a"}}\n'
ARCHIVED = ArchivedRun(run="a", problem="b", device="c", backend="triton", tried=(Experience(technique="d", gain=1.0),))


def plan(path: Path) -> object:
    found = saved_plan(path.parent)
    return saved_constants(path.parent, found)


READERS = [
    Reader("journal.jsonl", read_journal, JOURNAL),
    Reader("journal.jsonl", load_history, JOURNAL),
    Reader("journal.jsonl", read_recording, JOURNAL),
    Reader("transcript.jsonl", read_replies, EXCHANGE),
    Reader("archive.jsonl", lambda path: Archive(path).read(), ARCHIVED.model_dump_json()),
    Reader("recording.csv", read_recording, "A,B,time_ms,samples_ms\n1,x,2.0,1 2\n2,y,,\n"),
    Reader("cache.json", read_recording, CACHE),
    Reader("t4.json", read_recording, T4),
    Reader("sizes.yaml", read_sizes, SIZES),
    Reader("sizes.json", read_sizes, '[{"M": 16, "N": 1024, "K": 1024}, [[16, 32], 1024, 1024]]'),
    Reader("inputs.yaml", read_table, TABLE),
    Reader("auto-scheduler.cfg", read_cfg, CFG),
    Reader("measured.json", read_gains, GAINS),
    Reader("rates.json", read_rates, RATES),
    Reader(
        "kernelwright_versions.json",
        lambda path: read_stamp(path.parent),
        '{"a": {"triton": "3", "entries": {"16": {}}}}',
    ),
    Reader("configs.json", read_json, '{"16": {"BLOCK": 1}}'),
    Reader("plan.json", plan, PLAN.model_dump_json()),
    Reader("kernelwright.toml", lambda path: configuration.tables_in(path.parent), '[optimize]\nmodel = "rules"\n'),
    Reader("a.json", lambda path: Cache(path, dict).get("a"), '{"a": {"b": 1}}'),
    Reader("program.json", lambda path: read_program(path, TRITON, Target.CUDA), '{"language": "triton"}'),
    Reader("definitions/b/a.json", lambda path: TraceDataset.read(path.parents[2]), json.dumps(definition())),
    Reader("eval_results.json", lambda path: RunFolder(path.parent).speedups(), '{"1": []}'),
]
"""Each with a file that it reads, or nearly so."""

ENDLESS = {"recording.csv", "sizes.yaml", "sizes.json", "auto-scheduler.cfg", "rates.json", "configs.json"}
"""Those that a user names on a command line."""

WRONG = [
    None, True, -1, 1.5, 1e308, float("nan"), "", "x", "\x1b]0;title\x07", "a" * 5000, [], {}, [[]], [None], {"": None},
]  # fmt: skip
"""What may stand in the place of any value."""
DEEP = 20_000
HOSTILE = {
    "deep lists": "[" * DEEP,
    "deep objects": '{"kind":' * DEEP,
    "deep but whole": "[" * DEEP + "]" * DEEP,
    "deep mappings": "\n".join(" " * i + "a:" for i in range(1500)),
    "a long number": "9" * 5000,
    "a long number inside": '{"kind": "trial", "seconds": ' + "9" * 5000 + "}\n",
    "nothing": "",
    "a line": "\n",
    "null": "null\n",
    "a text": '"a"\n',
    "a date": "a: 2020-99-99\n",
    "an alias to itself": "&a [*a]\n",
    "a tag": "!!python/object/apply:os.system [true]\n",
    "no text": "\udcff\udcfe{",
    "control characters": "\x00\x1b[2J\x07\n",
}


def changed(value: Any, draw: random.Random) -> Any:
    """A value with one of its parts replaced, left out, or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        if draw.random() < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: changed(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], changed(value[place], draw), *value[place + draw.randrange(2) :]]
    return draw.choice(WRONG)


def damaged(whole: str, draw: random.Random) -> bytes:
    """A file with some bytes changed, or, where its lines are JSON, with another value in one of them."""
    if draw.random() < 0.6:
        lines = whole.splitlines(keepends=True)
        place = draw.randrange(len(lines))
        try:
            lines[place] = json.dumps(changed(json.loads(lines[place]), draw)) + "\n"
            return "".join(lines).encode()
        except ValueError:
            pass
    data = bytearray(whole.encode())
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(data)) if data else 0
        part = draw.choice([b"", b"\xff", b"\x00", b"{", b"]", b'"', b":", b"9" * 40, b"- ", b"\n", b"-1", b"e400"])
        data[place : place + draw.choice([0, 1, 1, 9])] = part
    return bytes(data)


def one_line_or_a_result(reader: Reader, folder: Path, content: bytes) -> None:
    path = folder / reader.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    said = ""
    try:
        reader.read(path)
    except KernelwrightError as error:
        said = str(error)
    assert "\n" not in said and "\x1b" not in said and len(said) < 2000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.name}-{reader.read.__name__}")
def test_a_damaged_file_is_one_line(reader: Reader, folder: Path) -> None:
    @settings(max_examples=40, deadline=None, database=None)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        one_line_or_a_result(reader, folder, damaged(reader.whole, random.Random(seed)))

    check()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.name}-{reader.read.__name__}")
def test_a_hostile_file_is_one_line(reader: Reader, folder: Path, text: str) -> None:
    one_line_or_a_result(reader, folder, text.encode(errors="surrogateescape"))


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "recording.csv.gz"
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    path.write_bytes(gzip.compress(b"\0" * (1 << 22)))
    with pytest.raises(KernelwrightError, match="unpacks to more than"):
        read_recording(path)


def test_a_device_without_an_end_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a user names is read for ever: a link to /dev/zero stands for all of them."""
    monkeypatch.setattr(core_files, "MOST_BYTES", 1 << 20)
    endless = [reader for reader in READERS if reader.name in ENDLESS]
    assert {reader.name for reader in endless} == ENDLESS
    for reader in endless:
        path = folder / reader.name
        path.symlink_to("/dev/zero")
        with pytest.raises(KernelwrightError) as caught:
            reader.read(path)
        assert "has more than 1 MB" in str(caught.value) and "\n" not in str(caught.value), reader.name
        path.unlink()


def test_a_pipe_is_read_to_its_end(folder: Path) -> None:
    """As of a shell's `<(...)`."""
    os.mkfifo(folder / "sizes.yaml")
    writer = threading.Thread(target=(folder / "sizes.yaml").write_text, args=(SIZES,))
    writer.start()
    found = read_sizes(folder / "sizes.yaml")
    writer.join()
    (folder / "whole.yaml").write_text(SIZES)
    assert found == read_sizes(folder / "whole.yaml")


def test_a_damaged_list_of_trusted_projects_trusts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    projects = TrustedProjects()
    path = projects._file(folder)
    path.parent.mkdir(parents=True)
    for text in HOSTILE.values():
        path.write_bytes(text.encode(errors="surrogateescape"))
        assert TrustedProjects().all() == [] and not TrustedProjects().allows(folder)
