"""Writes the package of a deployed operator, whole or not at all, after it was imported and verified on its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import KernelError, ResultsError
from ..core.environment import allowed_environment
from ..core.file_locks import temporary_folder
from ..core.languages import TRITON
from ..core.text import digest_of
from ..corpus.functions.running import confined_answer_of
from .description import OperatorDescription
from .launches import with_visible_launches
from .table import Entry, environment_of, table_of

if TYPE_CHECKING:
    from jinja2 import Environment

TIMEOUT_S = 600.0
"""Seconds for compiling and checking all kernels."""
_MODULES = Path(__file__).parent / "package"
_TEMPLATES = Path(__file__).parent / "templates"
_VERSION = re.compile(r"\d[\w.+!-]*")
_OLDEST_PYTHON = "3.10"
HUB_FOLDER = Path("build", "torch-universal")
"""Where Hugging Face's package `kernels` looks for pure Python kernels."""
_CHECK = """
import json, sys
sys.modules["kernelwright"] = None  # whoever installs the package does not have it
task = json.load(sys.stdin)
sys.path.insert(0, task["folder"])
import importlib
package = importlib.import_module(task["package"])
print("\\n" + json.dumps([[str(check), check.passed] for check in package.verify()]))
"""


class PackageLayout(StrEnum):
    """How the files of a deployed operator are laid out."""

    WHEEL = "wheel"
    HUB = "kernels"
    VLLM = "vllm"
    SGLANG = "sglang"


@dataclass(frozen=True)
class EnginePlugin:
    """How an engine finds plug-ins."""

    engine: str
    group: str
    """Group of entry points."""
    variable: str
    """The environment variable that names the plug-ins to load."""


PLUGINS = {
    PackageLayout.VLLM: EnginePlugin("vLLM", "vllm.general_plugins", "VLLM_PLUGINS"),
    PackageLayout.SGLANG: EnginePlugin("SGLang", "sglang.srt.plugins", "SGLANG_PLUGINS"),
}
"""https://docs.vllm.ai/en/stable/design/plugin_system and https://docs.sglang.io/docs/hardware-platforms/plugin."""


@dataclass(frozen=True)
class Deployment:
    """An operator to deploy."""

    name: str
    """'mylib::swiglu'."""
    entries: tuple[Entry, ...]
    licence: str
    """SPDX identifier for the package; '' if none is stated."""
    gradients: tuple[Entry, ...] = ()
    """Kernels of the gradients."""
    layout: PackageLayout = PackageLayout.WHEEL

    def root(self, folder: Path) -> Path:
        """Return where the package is in the folder that is written."""
        return folder / HUB_FOLDER if self.layout is PackageLayout.HUB else folder

    @property
    def package(self) -> str:
        """'mylib_swiglu'."""
        return self.name.replace("::", "_")

    @property
    def short(self) -> str:
        """'swiglu'."""
        return self.name.partition("::")[2]


def write(deployment: Deployment, output: Path) -> list[str]:
    """Write the package into a new folder. Return a line for each comparison that was made on this machine.

    Raises `KernelError` if it cannot be imported or is wrong, `ResultsError` if the folder cannot be written;
    then there is no folder.
    """
    output = output.absolute()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as beside:
            staged = Path(beside) / "package"
            _write_files(deployment, staged)
            lines = checked(deployment.package, deployment.root(staged))
            staged.chmod(0o755)
            os.replace(staged, output)
    except OSError as error:
        raise ResultsError(f"cannot write {output}: {error.strerror}; choose another `output`") from None
    return lines


def _write_files(deployment: Deployment, folder: Path) -> None:
    package = deployment.root(folder) / deployment.package
    shutil.copytree(_MODULES, package, ignore=shutil.ignore_patterns("__pycache__"))
    _write_operator(package, deployment.name, deployment.entries)
    if deployment.gradients:
        gradients = package / "gradients"
        _write_operator(gradients, f"{deployment.name}_backward", deployment.gradients)
        (gradients / "__init__.py").write_text('"""The operator\'s gradients: table, kernels and reference."""\n')
        (gradients / "launch.py").write_text('"""For the kernels."""\n\nfrom ..launch import launch as launch\n')
    for path, text in _rendered(deployment, folder).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if deployment.layout is PackageLayout.HUB:
        (folder / HUB_FOLDER / "metadata.json").write_text(json.dumps(_hub_metadata(deployment, package)) + "\n")


def _hub_metadata(deployment: Deployment, package: Path) -> dict[str, Any]:
    """Return the metadata of a variant for `kernels`; the id is the name under which it imports the package."""
    digest = digest_of("".join(path.read_text() for path in sorted(package.rglob("*.*"))))
    return {
        "id": f"_{deployment.package}_{digest[:8]}",
        "name": deployment.package.replace("_", "-").lower(),
        "version": 1,
        "license": deployment.licence or "other",
        "python-depends": [],
        "backend": {"type": deployment.entries[0].measured.device},
    }


def _write_operator(package: Path, name: str, entries: Sequence[Entry]) -> None:
    """Write kernels, reference and table of an operator."""
    kernels = package / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "__init__.py").write_text('"""The kernels, as they were measured."""\n')
    sources, visible = kernel_sources(entries)
    for module, source in sources.items():
        (kernels / f"{module}.py").write_text(source)
    (package / "reference.py").write_text(entries[0].measured.problem.source)
    (package / "table.json").write_text(_table_text(table_of(name, entries, visible)))


def kernel_sources(entries: Sequence[Entry]) -> tuple[dict[str, str], bool]:
    """Return the kernels' files by module name, and whether torch.compile may see their launches."""
    sources, visible = {}, not entries[0].description.reference_has_own_tensors
    for entry in entries:
        source, traceable = entry.measured.kernel.source, False
        if entry.measured.kernel.language is TRITON:
            source, traceable = with_visible_launches(source)
        visible = visible and traceable and not entry.description.kernel_has_own_tensors
        sources[entry.name] = source
    return sources, visible


def _table_text(table: dict[str, Any]) -> str:
    """Return the table as JSON with a line for each field of a kernel."""
    head = {name: value for name, value in table.items() if name != "kernels"}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    rows = []
    for row in table["kernels"]:
        fields = ",\n".join(f"      {json.dumps(name)}: {json.dumps(value)}" for name, value in row.items())
        rows.append(f"    {{\n{fields}\n    }}")
    return "\n".join(["{", *lines, '  "kernels": [', ",\n".join(rows), "  ]", "}"]) + "\n"


def _rendered(deployment: Deployment, folder: Path) -> dict[Path, str]:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    description = deployment.entries[0].description
    plugin = PLUGINS.get(deployment.layout)
    values: dict[str, Any] = {
        "operator": deployment.name,
        "package": deployment.package,
        "short": deployment.short,
        **_signature(description),
        "gradients": _signature(deployment.gradients[0].description) if deployment.gradients else None,
        "tuple": description.returns_tuple,
        "module": bool(description.weights),
        "python": _OLDEST_PYTHON,
        "hub": deployment.layout is PackageLayout.HUB,
        "engine": plugin.engine if plugin else "",
        "group": plugin.group if plugin else "",
        "variable": plugin.variable if plugin else "",
        "dependencies": json.dumps(_dependencies((*deployment.entries, *deployment.gradients))),
        "licence": deployment.licence,
        "licence_text": deployment.licence or "none is stated by the kernels' files; state yours in pyproject.toml",
        "rows": [_readme_row(entry) for entry in (*deployment.entries, *deployment.gradients)],
        "versions": _versions(deployment.entries),
        "atomic": not all(entry.is_deterministic for entry in (*deployment.entries, *deployment.gradients)),
    }
    package = deployment.root(folder) / deployment.package
    places = {
        package / "__init__.py": "init.py.j2",
        package / "__main__.py": "main.py.j2",
        folder / "README.md": "README.md.j2",
    }
    if plugin is not None:
        places[package / "plugin.py"] = "plugin.py.j2"
    if deployment.layout is not PackageLayout.HUB:
        places[folder / "tests" / f"test_{deployment.short}.py"] = "test.py.j2"
        places[folder / "pyproject.toml"] = "pyproject.toml.j2"
    return {path: _template(environment, name, values) for path, name in places.items()}


def _signature(description: OperatorDescription) -> dict[str, str]:
    """Return arguments and result of an operator as Python has them."""
    pairs = zip(description.names, description.types, strict=True)
    tensors = f"tuple[{', '.join(['Tensor'] * description.outputs)}]"
    return {
        "signature": ", ".join(f"{name}: {kind}" for name, kind in pairs),
        "names": ", ".join(description.names),
        "returns": tensors if description.returns_tuple else "Tensor",
    }


def _template(environment: Environment, name: str, values: dict[str, Any]) -> str:
    return environment.get_template(name).render(values)


def _dependencies(entries: Sequence[Entry]) -> list[str]:
    found = {"torch>=2.6": None}
    for entry in entries:
        language = "triton" if entry.measured.kernel.language is TRITON else str(entry.measured.kernel.language)
        version = str(entry.measured.evidence.get(language, ""))
        found[f"{language}>={version}" if _VERSION.fullmatch(version) else language] = None
    return list(found)


def _readme_row(entry: Entry) -> dict[str, Any]:
    evidence = entry.measured.evidence
    interval = evidence.get("interval")
    sizes = ", ".join(f"{name}={value}" for name, value in entry.measured.sizes.items())
    return {
        "kernel": entry.name,
        "language": str(entry.measured.kernel.language),
        "serves": entry.in_words,
        "at": sizes or "the reference's sizes",
        "latency_ms": f"{evidence['latency_ms']:.4g}",
        "reference_ms": f"{evidence['reference_ms']:.4g}",
        "speedup": f"{evidence['speedup_ratio']:.3g}x" + (f" {interval}" if interval else ""),
        "error": f"{evidence['max_abs_error']:.2g}",
        "measured_on": environment_of(evidence).get("device", "not recorded"),
    }


def _versions(entries: Sequence[Entry]) -> str:
    texts = (
        ", ".join(
            f"{name} {value}" for name, value in environment_of(item.measured.evidence).items() if name != "device"
        )
        for item in entries
    )
    return "; ".join(dict.fromkeys(texts))


def checked(package: str, folder: Path) -> list[str]:
    """Import a package in a sandbox without this one, and compare it with the reference if its device is here.

    Return a line for each comparison. Raises `KernelError` if it cannot be imported or is wrong.
    """
    request = json.dumps({"folder": str(folder), "package": package})
    environment = allowed_environment(os.environ, asked_by=request)
    environment = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    with temporary_folder("kernelwright-deploy-") as own:
        found = confined_answer_of(_CHECK, own, [folder], request, TIMEOUT_S, f"{package} is not deployed", environment)
    if wrong := [text for text, passed in found if not passed]:
        raise KernelError(f"{package} is not deployed: {wrong[0]}")
    return [text for text, _ in found]
