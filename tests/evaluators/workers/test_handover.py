"""What one process hands to another through a file."""

from pathlib import Path

import pytest
import torch
from kernelwright.evaluators.workers.handover import Handover, taken
from kernelwright.evaluators.workers.tensor_ipc import OpenMemory, Outputs, rewritten, write


def test_what_is_handed_over_again_is_written_over_what_was_there(tmp_path: Path) -> None:
    giving, path = Handover("cpu"), tmp_path / "inputs.bin"
    for size in (5000, 3, 9000):
        values = [torch.randn(size), 3, torch.randn(size, 2).T]
        described = giving.give(values, path, share=False)
        assert path.stat().st_size == 12 * size
        got = taken(described, "cpu", OpenMemory())
        assert got[1] == 3
        assert torch.equal(got[0], values[0]) and torch.equal(got[2], values[2])


def test_a_file_that_is_rewritten_keeps_its_memory_and_ends_with_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "outputs.bin"
    path.write_bytes(b"first and longer")
    place = path.stat().st_ino
    with rewritten(path) as file:
        file.write(b"second")
        file.flush()
        assert path.read_bytes() == b"second" + b"first and longer"[6:]
    assert path.read_bytes() == b"second"
    assert path.stat().st_ino == place


@pytest.mark.parametrize("sizes", [(4, 2), (2, 4)])
def test_outputs_of_another_size_are_read_whole(sizes: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "outputs.bin"
    for size in sizes:
        (described,) = write([wanted := torch.randn(size)], path)
        assert torch.equal(Outputs(path).next(described, wanted), wanted)
    assert path.stat().st_size == 4 * sizes[1]
