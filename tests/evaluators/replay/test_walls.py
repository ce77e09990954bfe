"""Walls around tensors: on a CPU pages that end a process, elsewhere zones that are compared, also of the same code."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
import textwrap

import pytest
import torch
from kernelwright.evaluators.replay.walled_memory import ARENA_PART, CPU_ALIGNMENT, GRAIN, PAGE, in_arena, in_mappings
from kernelwright.evaluators.replay.walls import RULE, Form, Walled, Walls

arena = functools.partial(in_arena, device="cpu")
PLACES = [pytest.param(in_mappings, id="mappings"), pytest.param(arena, id="arena")]
SIZES = [1, 0, 64, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 20]
NAMES = [f"tensor {number}" for number in range(len(SIZES))]


def test_no_tensors_take_no_memory() -> None:
    """Most batches need no new ones, and many plans have neither weights nor constants."""
    placed = arena([])
    assert (placed.parts, placed.zones, placed.bounds) == ([], [], [])
    assert Walled(placed, []).drawn is None


def write(address: int, value: int = 1) -> None:
    """Change a byte, whatever is there."""
    ctypes.c_uint8.from_address(address).value ^= value


@pytest.mark.parametrize("place", PLACES)
def test_what_is_written_within_tensors_breaks_nothing(place: object) -> None:
    walls = Walls("cpu", place)  # type: ignore[arg-type]
    walled = walls.around(SIZES, NAMES)
    assert [len(part) for part in walled.parts] == SIZES
    for part in walled.parts:
        part.fill_(7)
    assert walls.broken() is None
    assert all(part.eq(7).all() for part in walled.parts), "they do not overlap"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [number for number, size in enumerate(SIZES) if size % CPU_ALIGNMENT])
def test_a_byte_beside_a_tensor_is_found(place: object, number: int) -> None:
    walls = Walls("cpu", place)  # type: ignore[arg-type]
    walled = walls.around(SIZES, NAMES)
    begin = walled.parts[number].data_ptr()
    before = [(begin - 1, "")] if begin % PAGE else []  # else a guard is there
    for at, says in ((begin + SIZES[number], "1 bytes behind the end of"), *before):
        write(at)
        found = walls.broken()
        assert found is not None and found.rule == RULE and says in found.where
        assert f"tensor {number}" in found.where or not says
        write(at)
        assert walls.broken() is None


@pytest.mark.parametrize("place", PLACES)
def test_a_view_reaches_no_further_than_its_tensor(place: object) -> None:
    """Also of torch's operators, which know the size of a storage only."""
    form = Form((3, 4), (8, 1), torch.float32)
    (tensor,) = Walls("cpu", place).around([form.bytes], ["x"]).tensors([form])  # type: ignore[arg-type]
    assert tensor.shape == (3, 4) and tensor.untyped_storage().nbytes() == form.bytes == 80
    with pytest.raises(RuntimeError, match="out of bounds"):
        tensor.as_strided((21,), (1,), 0)


def test_a_tensor_ends_where_its_mapping_does() -> None:
    walls = Walls("cpu")
    walled = walls.around(SIZES, NAMES)
    for part in walled.parts:
        if len(part):
            left = -(part.data_ptr() + len(part)) % PAGE
            assert part.data_ptr() % CPU_ALIGNMENT == 0 and left < CPU_ALIGNMENT


def test_the_ends_of_an_arena_and_the_distances_in_it_vary() -> None:
    distances = set()
    for _ in range(8):
        walled = Walls("cpu", arena).around([1000, 1000, 1000], ["a", "b", "c"])
        begins = [part.data_ptr() for part in walled.parts]
        assert {begin % GRAIN for begin in begins} == {begins[0] % GRAIN}
        distances |= {begins[1] - begins[0], begins[2] - begins[1]}
        assert min(distances) >= 1000 + GRAIN
        assert sum(map(len, walled.zones)) + 3000 >= ARENA_PART
        assert (sum(map(len, walled.zones)) + 3000) % ARENA_PART == 0, "no rounding leaves memory behind it"
    assert len(distances) > 3


def test_what_is_drawn_differs() -> None:
    walls = Walls("cpu")
    first, second = (walls.around([100], ["x"]).zones[0][:32].tolist() for _ in range(2))
    assert first != second


def test_memory_that_is_not_kept_is_not_compared() -> None:
    walls = Walls("cpu", arena)
    walled = walls.around([100], ["x"])
    zone = walled.zones[0]
    zone[-1] ^= 1
    assert walls.broken() is not None
    del walled
    assert walls.broken() is None


BEYOND = """
import ctypes, os, signal, sys
from kernelwright.evaluators.replay.faults import FaultHandler
from kernelwright.evaluators.replay.walls import Walls

walls = Walls("cpu")
walled = walls.around([100, 5000], ["the first", "the second"])

def tell(address):
    found = walls.touched(address)
    if found is not None:
        print(found.rule, found.where, flush=True)
    return found is not None

kept = FaultHandler(signal.SIGSEGV, tell)
if sys.argv[1] == "sent":
    os.kill(os.getpid(), signal.SIGSEGV)
at = {"end": walled.parts[1].data_ptr() + 5000 + 56 + 4096 * 5, "begin": walled.parts[0].data_ptr() - 4096, "zero": 0}
ctypes.memset(at[sys.argv[1]], 0, 1)
print("went on")
"""


@pytest.mark.parametrize(
    ("where", "said", "code"),
    [
        ("end", "out-of-bounds 20537 bytes behind the end of the second", 1),
        ("begin", "out-of-bounds 4096 bytes before the first", 1),
        ("zero", "", -11),
        ("sent", "", -11),
    ],
)
def test_a_wall_that_is_touched_is_named(where: str, said: str, code: int) -> None:
    """Any other memory that may not be touched ends the process as ever."""
    command = [sys.executable, "-c", textwrap.dedent(BEYOND), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.returncode) == (said, code), done.stderr


@pytest.mark.gpu
def test_zones_on_a_gpu() -> None:
    walls = Walls("cuda")
    walled = walls.around(SIZES, NAMES)
    for part in walled.parts:
        part.fill_(7)
    assert walls.broken() is None
    walled.zones[2][0] ^= 1
    found = walls.broken()
    assert found is not None and found.where == "1 bytes behind the end of tensor 1"
