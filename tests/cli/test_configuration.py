"""Options from files and the environment: which one counts, and what is said of a mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli import main
from kernelwright.cli.main import app
from kernelwright.core import OptionError
from kernelwright.runtime import configuration
from kernelwright.runtime.command import settable_options
from kernelwright.runtime.configuration import OTHER_VARIABLES
from typer.testing import CliRunner

from .commands import refused_here


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project" / "below"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("KERNELWRIGHT_QUICK")
    return folder


def write(here: Path, own: str = "", project: str = "") -> None:
    if own:
        (here.parent / "kernelwright.toml").write_text(own)
    if project:
        (here.parent / "pyproject.toml").write_text(project)


def trust(*folders: Path) -> None:
    for folder in folders:
        assert CliRunner().invoke(app, ["trust", str(folder)]).exit_code == 0


def settings(*command: str) -> dict[str, tuple[Any, str]]:
    run = CliRunner().invoke(app, ["config", *command, "--json"])
    assert run.exit_code == 0, run.stderr
    return {row["option"]: (row["value"], row["where"]) for row in json.loads(run.stdout)}


def test_a_variable_that_nothing_reads_is_named_with_the_nearest(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["list", "--backend", "triton"]
    for name in ("KERNELWRIGHT_DEVICE", "KERNELWRIGHT_TUNE_KERNEL_TRIALS", "KERNELWRIGHT_CACHE"):
        monkeypatch.setenv(name, "cpu")
    assert CliRunner().invoke(app, command).stderr == ""
    monkeypatch.setenv("KERNELWRIGHT_DEVCE", "cpu")
    monkeypatch.setenv("KERNELWRIGHT_TUNE_KERNAL_TRIALS", "3")
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 0 and run.stderr.splitlines() == [
        "warning: nothing reads the variable KERNELWRIGHT_DEVCE; the nearest is KERNELWRIGHT_DEVICE",
        "warning: nothing reads the variable KERNELWRIGHT_TUNE_KERNAL_TRIALS; "
        "the nearest is KERNELWRIGHT_TUNE_KERNEL_TRIALS",
    ]


def test_a_command_that_is_broken_stops_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OptionError("the command of another package cannot be loaded")

    monkeypatch.setattr(configuration, "settable_options", broken)
    assert list(configuration.unknown_variables(["KERNELWRIGHT_TUNE_KERNEL_TRIALS"], ("list",), ())) == []


def test_every_variable_that_code_reads_is_known() -> None:
    root = Path(__file__).parents[2]
    folders = [path.parent for path in root.glob("*/__init__.py") if path.parent.name != "tests"]
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    read = {name for source in sources for name in re.findall(r'"(KERNELWRIGHT_[A-Z_]*[A-Z])"', source)}
    assert len(read) > 10 and read - OTHER_VARIABLES == set()


def test_the_more_particular_counts_and_of_sources_the_nearer(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        here,
        own='device = "cpu"\nseed = 1\n[tune]\nseed = 2\n[tune.kernel]\ntrials = 30\npatience = 9\n'
        '[check]\njunit = "a.xml"',
        project='[tool.kernelwright]\nsandbox = "bwrap"\n[tool.kernelwright.tune.kernel]\ntrials = 20\nsave = false\n',
    )
    trust(here.parent)
    monkeypatch.setenv("KERNELWRIGHT_PATIENCE", "7")
    monkeypatch.setenv("KERNELWRIGHT_TUNE_KERNEL_BASELINE", "compile, max-autotune")
    monkeypatch.setenv("KERNELWRIGHT_TUNE_KERNEL_PLOT", "yes")
    monkeypatch.setenv("KERNELWRIGHT_STRIDE", "")
    found = settings("tune", "kernel")
    own, project = str(here.parent / "kernelwright.toml"), str(here.parent / "pyproject.toml")
    assert found["device"] == ("cpu", f"{own}: device")
    assert found["seed"] == (2, f"{own}: [tune] seed")
    assert found["trials"] == (30, f"{own}: [tune.kernel] trials")
    assert found["patience"] == (7, "KERNELWRIGHT_PATIENCE")
    assert found["sandbox"] == ("bwrap", f"{project}: [tool.kernelwright] sandbox")
    assert found["save"] == (False, f"{project}: [tool.kernelwright.tune.kernel] save")
    assert found["baseline"][0] == ["compile", "max-autotune"]
    assert found["plot"][0] is True
    assert found["stride"] == (None, "default")
    assert settings("check")["junit"][0] == str(here.parent / "a.xml"), "paths are the file's own"
    assert "junit" in settings() and "precision" not in settings()


def test_a_command_takes_them_and_its_line_goes_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, own="[retrieve]\nk = 2\narchive = false\nbackend = 'triton'\n")
    given: dict[str, Any] = {}
    monkeypatch.setattr("kernelwright.cli.execution.work", lambda _, found, *__: given.update(found) or 0)
    assert CliRunner().invoke(app, ["retrieve", "softmax"]).exit_code == 0
    assert (given["k"], given["archive"], given["backend"]) == (2, False, "triton")
    monkeypatch.setenv("KERNELWRIGHT_RETRIEVE_ARCHIVE", "1")
    monkeypatch.setenv("KERNELWRIGHT_ARCHIVE", "/a/file")  # which has meant a file for longer
    assert CliRunner().invoke(app, ["retrieve", "softmax", "--k", "3"]).exit_code == 0
    assert (given["k"], given["archive"], given["text"]) == (3, True, "softmax")


def test_the_command_optimize_alone_has_the_table_of_its_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, own="[optimize]\nkernel = '2_10'\ntarget_speedup = 3")
    trust(here.parent)
    given: dict[str, Any] = {}
    monkeypatch.setattr("kernelwright.cli.optimize.work", lambda _, found, *__: given.update(found) or 0)
    monkeypatch.setattr("sys.argv", ["optimize"])
    with pytest.raises(SystemExit, match="0"):
        main.optimize_main()
    assert (given["kernel"], given["target_speedup"]) == ("2_10", 3.0)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ("devise = 'cpu'", "kernelwright.toml: devise is not an option; the nearest are device"),
        (
            "[tune.kernel]\ntrails = 3",
            "kernelwright.toml: [tune.kernel] trails is not an option; the nearest are trials",
        ),
        ("[optimise]\nbeam = 2", "[optimise] is a table, and no command is called so"),
        ("[retrieve]\nbeam = 2", "[retrieve] beam is not an option"),
        ("[retrieve]\ntext = 'softmax'", "[retrieve] text is not an option"),
        ("k = 'many'", "kernelwright.toml: k = 'many': input should be a valid integer"),
        ("k = 0", "kernelwright.toml: k: k must be at least 1, not 0"),
        ("backend = 'cobol'", "backend = 'cobol': input should be 'tilelang_cpu'"),
        ("k = ", "kernelwright.toml is not TOML"),
        ("k = " + "[" * 20000 + "]" * 20000, "kernelwright.toml is not TOML"),
        ("k = " + "9" * 5000, "kernelwright.toml is not TOML"),
        ("#" * (9 << 20), "kernelwright.toml has 9 MB"),
    ],
)
def test_mistakes_are_one_line_with_file_and_key(here: Path, own: str, says: str) -> None:
    write(here, own=own)
    assert says in refused_here(CliRunner().invoke(app, ["retrieve", "softmax"]))
    assert CliRunner().invoke(app, ["retrieve", "--help"]).exit_code == 0


def test_a_link_to_a_device_is_no_configuration(here: Path) -> None:
    """A project may contain links; this one has no end."""
    (here / "kernelwright.toml").symlink_to("/dev/zero")
    assert settings() == {}


def test_a_variable_that_is_wrong_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_K", "x")
    assert "KERNELWRIGHT_K = 'x'" in refused_here(CliRunner().invoke(app, ["retrieve", "softmax"]))


def test_files_of_others_do_not_matter(here: Path) -> None:
    write(here, project="[tool.ruff]\nline-length = 120\n[broken")
    assert settings() == {}
    assert "there is no command 'optimise'" in refused_here(CliRunner().invoke(app, ["config", "optimise"]))


def test_every_flag_of_an_option_class_can_be_set() -> None:
    known = settable_options()
    assert {"target_speedup", "device", "save", "results"} <= set(known[("optimize",)])
    assert "kernel" not in known[("tune", "kernel")], "arguments are given"
    assert ("config",) in known and not known[("config",)]


def test_the_documented_file_is_one(here: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    write(here, own=text)
    trust(here.parent)
    found = settings("tune", "kernel")
    assert (found["device"][0], found["seed"][0], found["trials"][0]) == ("cuda:1", 7, 400)
    assert found["baseline"][0] == ["compile"] and settings("check")["baseline_file"][0].endswith(
        "kernels/figures.json"
    )
