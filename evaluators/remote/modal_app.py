"""The Modal app: an image with pinned versions, and a class whose containers each keep one warm evaluator."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...core import known_languages
from ...core.language import cache_environment
from ..settings import Settings
from .options import DEFAULT_GPU

NAME = "kernelwright"

CUDA_IMAGE = "nvidia/cuda:13.0.1-devel-ubuntu24.04"
"""TileLang needs nvcc."""
SYSTEM_PACKAGES = ("g++", "bubblewrap")
PACKAGES = ("torch", "numpy", "filelock", "nvidia-ml-py", "pydantic", "platformdirs")
"""Packages that evaluators import besides the kernel languages, at the versions of this environment."""
PACKAGE_FILES = ("__init__.py", "entry_points.py")
PACKAGE_FOLDERS = ("core", "evaluators")
"""The parts of kernelwright that an evaluation needs."""

MOUNT = "/cache"
"""Folder of the Volume that outlives containers: device ceilings, and the reference's compiled code."""
SOURCE = "/root"


@dataclass(frozen=True)
class Resources:
    """Resources of a container, and the number of containers."""

    gpu: str | None = DEFAULT_GPU
    """None for a container without a GPU, which evaluates on its CPU."""
    containers: int = 8
    """Maximum number of containers at once."""
    cpus: int = 8
    """Cores per container, and compilers that work ahead in a search."""
    memory_gib: int = 32
    idle_s: int = 120
    """Seconds after which an idle container ends."""
    retries: int = 2
    """Retries by Modal itself, when a container is lost."""

    @property
    def device(self) -> str:
        """'cuda' or 'cpu', as the container sees it."""
        return "cuda" if self.gpu else "cpu"

    @property
    def exact_gpu(self) -> str | None:
        """The name for Modal: it may give an H200 for 'H100', but not for 'H100!'."""
        return "H100!" if self.gpu == "H100" else self.gpu


def time_limit_s(settings: Settings) -> int:
    """Return the limit in seconds for a whole payload, far above the evaluator's own limits for each step.

    Modal allows at most a day.
    """
    configs = settings.search.window if settings.search else 1
    return min(24 * 3600, int(600 + configs * (settings.limits.compile_s + 20 * settings.limits.call_s)))


def pinned() -> list[str]:
    """Return the packages of the image, as pip requirements."""
    found = []
    for name in [*PACKAGES, *(install for language in known_languages() for install in language.installs)]:
        try:
            # '+cpu' names a build that is not on Modal's index.
            found.append(f"{name}=={version(name).partition('+')[0]}")
        except PackageNotFoundError:
            found.append(name)
    return found


def build_image(resources: Resources) -> Any:
    """Return the image: compilers, pinned packages, and this kernelwright's own source."""
    import modal

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    image = (
        modal.Image.from_registry(CUDA_IMAGE, add_python=python)
        if resources.gpu
        else modal.Image.debian_slim(python_version=python)
    )
    image = (
        image.apt_install(*SYSTEM_PACKAGES)
        .pip_install(*pinned())
        .env(
            {
                "PYTHONPATH": SOURCE,
                "KERNELWRIGHT_CACHE": MOUNT,
                "TORCHINDUCTOR_CACHE_DIR": f"{MOUNT}/inductor",
                **cache_environment(Path(MOUNT)),
            }
        )
    )
    # Added when a container starts, so a changed source needs no new image.
    root = Path(__file__).parents[2]
    for file in PACKAGE_FILES:
        image = image.add_local_file(root / file, f"{SOURCE}/kernelwright/{file}")
    for folder in PACKAGE_FOLDERS:
        image = image.add_local_dir(root / folder, f"{SOURCE}/kernelwright/{folder}", ignore=["**/__pycache__"])
    return image


def build(resources: Resources, time_limit_s: int) -> tuple[Any, Any]:
    """Return the app and its class; `cls().run.spawn(payload)` runs a payload. Nothing is sent yet."""
    import modal

    app = modal.App(NAME, include_source=False)
    device = resources.device
    options: dict[str, Any] = {}
    if "_experimental_restrict_output" in inspect.signature(app.cls).parameters:
        # Responses are then no pickles: reading one runs no code of its writer.
        options["_experimental_restrict_output"] = True

    @app.cls(
        image=build_image(resources),
        gpu=resources.exact_gpu,
        cpu=float(resources.cpus),
        memory=resources.memory_gib * 1024,
        volumes={MOUNT: modal.Volume.from_name(NAME, create_if_missing=True)},
        timeout=time_limit_s,
        retries=modal.Retries(max_retries=resources.retries, initial_delay=1.0, backoff_coefficient=2.0),
        max_containers=resources.containers,
        scaledown_window=resources.idle_s,
        # A kernel reaches neither the network nor anything else in the Modal account.
        block_network=True,
        restrict_modal_access=True,
        serialized=True,
        **options,
    )
    class Evaluations:
        @modal.enter()  # type: ignore[untyped-decorator, unused-ignore]
        def start(self) -> None:
            from kernelwright.evaluators.remote.worker_host import WorkerHost

            self.host = WorkerHost(device)

        @modal.method()  # type: ignore[untyped-decorator, unused-ignore]
        def run(self, payload: str) -> str:
            """JSON in, JSON out; see `WorkerHost.run`."""
            from kernelwright.evaluators.remote.payload import RESPONSES, Payload

            return RESPONSES.dump_json(self.host.run(Payload.model_validate_json(payload))).decode()

        @modal.exit()  # type: ignore[untyped-decorator, unused-ignore]
        def stop(self) -> None:
            self.host.close()

    return app, Evaluations
