"""Bad input of `kernelwright tune kernel` gets one line that says what to do, and nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ..conftest import TORCH_KERNEL
from .commands import SCALE, process, refused, refused_here
from .made_up import tuned_here
from .tuning import Finished, journal_in, tune

REFUSED: list[tuple[list[str], str]] = [
    (["--param", "BLOCK"], "--param 'BLOCK' names no values; write it as BLOCK_M=32,64,128"),
    (["--param", "=1,2"], "names no values"),
    (["--param", "BLOCK="], "names no values"),
    (["--param", "BLOCK=4,,8"], "has an empty value"),
    (["--param", "BLOCK=4,4"], "parameter BLOCK names a value twice"),
    (["--param", "BLOCK=4", "--param", "BLOCK=8"], "--param BLOCK is given twice"),
    (["--param", "BLOCK=4,1e999"], "inf is none; give whole numbers"),
    (["--param", "WARPS=4,8"], "has no parameter WARPS; its constants are BLOCK"),
    (["--constraint", "BLOCK > 100"], "no config satisfies 'BLOCK > 100'; loosen it"),
    (["--constraint", "BLOCK > 8", "--constraint", "BLOCK < 8"], "'BLOCK < 8' together with 'BLOCK > 8'"),
    (["--constraint", "WARPS * BLOCK < 64"], "uses WARPS; the parameters are BLOCK"),
    (["--constraint", "open('x') or BLOCK"], "Call is not allowed"),
    (["--constraint", "BLOCK.real > 1"], "Attribute is not allowed"),
    (["--constraint", "BLOCK >"], "is not an expression"),
    (["--constraint", "BLOCK + 'x' > 1"], "does not fit its parameters"),
    (["--tuner", "genetic"], "there is no tuner 'genetic'; use one of portfolio, xgboost, hill_climb, annealing"),
    (["--trials", "0"], "--trials must be at least 1, not 0"),
    (["--stride", "2"], "--stride is for the grid, and the tuner is portfolio; use --tuner grid"),
    (["--stride", "0", "--tuner", "grid"], "--stride must be at least 1, not 0"),
    (["--patience", "-1"], "--patience must be at least 1"),
    (["--compilers", "0"], "--compilers must be at least 1"),
    (["--seconds", "0"], "--seconds must be above 0"),
    (["--seconds", "nan"], "--seconds must be above 0"),
    (["--compile-limit", "inf"], "--compile-limit must be above 0"),
    (["--device", "cuda:99"], "no device cuda:99"),
    (["--device", "cpu,cpu"], "names a device twice"),
    (["--device", "tpu"], "use cpu, cuda, cuda:N or auto"),
    (["--warm", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
    (["--warm", "other.jsonl"], "other.jsonl records the parameters SIZE, but the space has BLOCK"),
    (["--results", "1_999.py"], "choose another"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_bad_input_is_one_line(
    folder: Path, finished: Finished, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    """Within this process, since they are many; the next test starts one."""
    other = journal_in(finished[0]).read_text().replace('"BLOCK"', '"SIZE"')
    (folder / "other.jsonl").write_text(other)
    monkeypatch.chdir(folder)
    found = tuned_here(*arguments)
    assert says in refused_here(found)
    assert found.stdout == ""
    assert not (folder / "results").exists()


def test_a_process_ends_so_too(folder: Path) -> None:
    arguments, says = REFUSED[3]
    assert says in refused(process("tune", "kernel", "1_999.py", *SCALE, *arguments, cwd=folder))


@pytest.mark.parametrize("arguments", [["--trials", "many"], ["--no-such-option"], ["--seconds", "1s"]])
def test_options_that_do_not_parse(folder: Path, arguments: list[str]) -> None:
    run = tune(*arguments, cwd=folder)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


def test_a_kernel_without_parameters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for declaration in ("", "SEARCH_SPACE = {}"):
        top = f"EPS = 1e-5\n{declaration}"
        (folder / "1_999.py").write_text(TORCH_KERNEL.format(top=top, body="return x * self.weight"))
        assert "declares no SEARCH_SPACE" in refused_here(tuned_here())
    assert "the nearest are" in refused(tune(cwd=folder, kernel="level2/2_11.py"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda lines: [lines[0], lines[1][:60], *lines[2:]], "journal.jsonl, line 2 is corrupt"),
        (
            lambda lines: [lines[0].replace('"kernel":"', '"kernel":"0'), *lines[1:]],
            "of another run: kernel changed",
        ),
    ],
)
def test_a_journal_that_cannot_be_resumed(finished: Finished, tmp_path: Path, damage: Any, says: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    journal = journal_in(folder)
    journal.write_text("\n".join(damage(journal.read_text().splitlines())) + "\n")
    before = journal.read_bytes()
    assert says in refused(tune("--resume", cwd=folder))
    assert journal.read_bytes() == before
