"""What a project's own files may not decide, unless the user trusts the project as it is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli.main import app
from kernelwright.core.files import config_folder
from typer.testing import CliRunner

from ..openai_server import Fail, OpenAIServer, Text
from ..surroundings import KERNELWRIGHT
from .commands import kernelwright, refused

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(project: Path, text: str, name: str = "kernelwright.toml") -> None:
    (project / name).write_text(text)


def given(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """The options that `retrieve` or `optimize` begins with, and what it says of them."""
    taken: dict[str, Any] = {}
    with monkeypatch.context() as patched:
        for name in ("optimize", "execution"):
            patched.setattr(f"kernelwright.cli.{name}.work", lambda _, found, *__: taken.update(found) or 0)
        run = CliRunner().invoke(app, list(arguments))
    assert run.exit_code == 0 and run.stdout == "", run.output
    return taken, run.stderr.splitlines()


def optimize(kernel: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in its project's folder, in a process whose environment has the key."""
    command = [*KERNELWRIGHT, "optimize", "--kernel", kernel.name, "--problem", "level1/999_Scale.py"]
    environment = {**os.environ, "OPENAI_API_KEY": KEY, **variables}
    return subprocess.run(
        command, cwd=kernel.parent, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_foreign_project_gets_no_key(kernel_file: Path) -> None:
    """The project's file names a server and a model: with the user's key only the user's own server is asked."""
    project = kernel_file.parent
    with OpenAIServer([Text("ready")], key=KEY) as theirs, OpenAIServer([Fail(403, "not today")], key=KEY) as own:
        write(project, f'model = "openai/theirs"\napi_base = "{theirs.base_url}"\n')
        run = optimize(kernel_file, OPENAI_BASE_URL=own.base_url)
        assert theirs.requests == []
        assert [recorded.body["model"] for recorded in own.requests] == ["o3"], run.stderr
    assert run.returncode == 2
    warning, error = run.stderr.strip().splitlines()
    assert warning == (
        "warning: kernelwright.toml sets api_base and model, which only a trusted project may: "
        "run `kernelwright trust .` if you trust it"
    )
    assert error.startswith("error: ")


def test_a_dotenv_of_a_project_sends_no_key_elsewhere(kernel_file: Path) -> None:
    """LiteLLM reads a .env above the folder that it is installed in, such as a project with its own .venv."""
    import litellm

    project, installed = kernel_file.parent, Path(litellm.__file__).parents[1]
    (project / ".venv").mkdir()
    (project / ".venv" / "site-packages").symlink_to(installed)
    path = os.pathsep.join([str(project / ".venv" / "site-packages"), os.environ.get("PYTHONPATH", "")])
    with OpenAIServer([Text("ready")], key=KEY) as theirs, OpenAIServer([Fail(403, "not today")], key=KEY) as own:
        (project / ".env").write_text(f"OPENAI_BASE_URL={theirs.base_url}\n")
        run = optimize(kernel_file, OPENAI_API_BASE=own.base_url, PYTHONPATH=path)
        assert theirs.requests == []
        assert len(own.requests) == 1, run.stderr


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (
            "optimize",
            [
                'sandbox = "none"',
                'api_base = "http://localhost"',
                "max_cost = 1000",
                "resume = true",
                "require_replay = false",
                'allow_torch = "all"',
                'evaluator = "ray"',
                'ray_address = "a.b:1"',
                'reference = "evil.py::run"',
                'results = "../elsewhere"',
                'program = "p.json"',
            ],
        ),
        ("optimize", ['results = "link/x"']),
        ("mcp", ['root = "/"', "port = 1", "max_seconds = 1e9"]),
        ("tune kernel", ['warm = ["a", "/etc/passwd"]', "compilers = 1000"]),
        ("check", ['junit = "/tmp/x"']),
        ("retrieve", ['examples = "theirs"']),
    ],
)
def test_these_need_trust(project: Path, command: str, settings: list[str]) -> None:
    (project / "link").symlink_to(project.parent)
    write(project, "\n".join([f"[{command.replace(' ', '.')}]", *settings, ""]))
    names = {setting.partition(" = ")[0] for setting in settings}
    rows = json.loads(kernelwright("config", *command.split(), "--json", cwd=project).stdout)
    chosen = {row["option"]: row for row in rows if row["option"] in names}
    assert chosen.keys() == names
    for name, row in chosen.items():
        assert row["where"] == "default" and row["refused"].startswith(str(project)), name
    assert kernelwright("trust", project, cwd=project).returncode == 0
    rows = json.loads(kernelwright("config", *command.split(), "--json", cwd=project).stdout)
    chosen = {row["option"]: row for row in rows if row["option"] in names}
    assert chosen.keys() == names
    for name, row in chosen.items():
        assert row["where"].startswith(str(project)) and "refused" not in row, name


def test_harmless_ones_count_and_are_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, 'target_speedup = 3\nseed = 1\n[optimize]\nresults = "out/deep"\nmodel = "openai/x"\nbeam = 4\n')
    taken, messages = given(monkeypatch, "optimize", "--kernel", "2_10", "--beam", "2")
    assert (taken["target_speedup"], taken["results"].name, taken["model"], taken["beam"]) == (3.0, "deep", None, 2)
    assert messages == [
        "kernelwright.toml sets results = 'out/deep', target_speedup = 3",
        "warning: kernelwright.toml sets model, which only a trusted project may: "
        "run `kernelwright trust .` if you trust it",
    ]


def test_the_users_own_files_and_variables_are_trusted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_folder().mkdir(parents=True)
    own = config_folder() / "config.toml"
    own.write_text('sandbox = "bwrap"\nprogram = "p.json"\n[optimize]\ntarget_speedup = 9\nmodel = "openai/own"\n')
    write(project, 'sandbox = "none"\ntarget_speedup = 3\n')
    monkeypatch.setenv("KERNELWRIGHT_ALLOW_TORCH", "none")
    taken, messages = given(monkeypatch, "optimize", "--kernel", "2_10")
    assert (taken["sandbox"], taken["model"], taken["allow_torch"]) == ("bwrap", "openai/own", "none")
    assert taken["target_speedup"] == 3, "a project is nearer than the user's own file"
    assert taken["program"] == config_folder() / "p.json"
    assert len(messages) == 2, "nothing is reported about the user's own file"
    own.write_text("nonsense = 1\n")
    assert f"{own}: nonsense is not an option" in refused(kernelwright("retrieve", "x", cwd=project))


def test_a_change_has_to_be_trusted_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, 'sandbox = "none"\nmodel = "openai/x"\nseed = 1\n')
    write(project, "[tool.kernelwright]\nmax_cost = 3\n", "pyproject.toml")
    added = kernelwright("trust", ".", "--json", cwd=project)
    settings = {
        "kernelwright.toml: sandbox": "none",
        "kernelwright.toml: model": "openai/x",
        "pyproject.toml: [tool.kernelwright] max_cost": 3,
    }
    assert json.loads(added.stdout) == {"project": str(project), "settings": settings}
    taken, messages = given(monkeypatch, "optimize", "--kernel", "2_10")
    assert (taken["sandbox"], taken["model"], taken["max_cost"]) == ("none", "openai/x", 3.0)
    assert messages[0].startswith("kernelwright.toml sets ") and len(messages) == 2

    write(project, 'sandbox = "none"\napi_base = "http://\\u001b[2J"\nseed = 2\n')
    taken, messages = given(monkeypatch, "optimize", "--kernel", "2_10")
    assert (taken["sandbox"], taken["model"], taken["api_base"], taken["max_cost"]) == ("auto", None, None, None)
    assert "kernelwright.toml: api_base = 'http://\\x1b[2J' is new; kernelwright.toml: model is gone" in messages[0]
    (listed,) = json.loads(kernelwright("trust", "--list", "--json", cwd=project).stdout)["projects"]
    assert len(listed["changes"]) == 2
    assert "not in force" in kernelwright("trust", cwd=project).stdout
    assert kernelwright("trust", ".", cwd=project).returncode == 0
    assert given(monkeypatch, "optimize", "--kernel", "2_10")[0]["sandbox"] == "none"

    write(project, 'sandbox = "none"\napi_base = "http://\\u001b[2J"\nseed = 99\n')
    assert given(monkeypatch, "optimize", "--kernel", "2_10")[0]["sandbox"] == "none", "seed needs no trust"
    assert kernelwright("trust", "--remove", project, cwd=project).returncode == 0
    assert kernelwright("trust", "--remove", project, cwd=project).returncode == 1
    assert given(monkeypatch, "optimize", "--kernel", "2_10")[0]["sandbox"] == "auto"
    assert kernelwright("trust", cwd=project).stdout == "no project is trusted\n"


def test_trust_is_of_a_place_and_not_of_a_copy(project: Path) -> None:
    write(project, 'sandbox = "none"\n')
    assert kernelwright("trust", ".", cwd=project).returncode == 0
    copy = project.parent / "copy"
    copy.mkdir()
    write(copy, 'sandbox = "none"\n')
    assert "needs a trusted project" in kernelwright("config", "evaluate", cwd=copy).stdout
    (project.parent / "link").symlink_to(project)
    assert "needs a trusted" not in kernelwright("config", "evaluate", cwd=project.parent / "link").stdout
    (stored,) = (config_folder() / "trusted").iterdir()
    stored.write_text("{")
    assert "needs a trusted project" in kernelwright("config", "evaluate", cwd=project).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "error: nowhere is not a folder"),
        ((".",), "error: . has no kernelwright.toml, and no [tool.kernelwright] in a pyproject.toml"),
        (("--remove",), "error: --remove needs a DIR"),
        (("--list", "."), "error: --list takes neither DIR nor --remove"),
    ],
)
def test_mistakes(project: Path, arguments: tuple[str, ...], says: str) -> None:
    assert refused(kernelwright("trust", *arguments, cwd=project)).startswith(says)


def test_there_may_be_nothing_to_trust(project: Path) -> None:
    write(project, "seed = 3\n")
    run = kernelwright("trust", ".", cwd=project)
    assert (run.returncode, run.stdout) == (1, ". sets nothing that needs trust\n")
