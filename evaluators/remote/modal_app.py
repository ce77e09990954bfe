"""What runs on Modal: an image with pinned versions, and a class whose containers keep one warm evaluator each."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..settings import Settings
from .options import DEFAULT_GPU

NAME = "kernelwright"

CUDA_IMAGE = "nvidia/cuda:13.0.1-devel-ubuntu24.04"
"""TileLang needs nvcc."""
SYSTEM_PACKAGES = ("g++", "bubblewrap")
PACKAGES = ("torch", "tilelang", "numpy", "filelock", "nvidia-ml-py", "pydantic", "platformdirs")
"""What evaluators import, at the versions of this environment. torch decides on triton's version."""
PACKAGE_FOLDERS = ("core", "evaluators")
"""Of kernelwright: an evaluation needs no other."""

MOUNT = "/cache"
"""Of the Volume that outlives containers: the ceilings of devices, and what the reference compiles."""
SOURCE = "/root"


@dataclass(frozen=True)
class Resources:
    """What a container gets, and how many there are."""

    gpu: str | None = DEFAULT_GPU
    """None for a container without one, which evaluates on its CPU."""
    containers: int = 8
    """At most so many at once."""
    cpus: int = 8
    """Cores; so many compilers work ahead in a search."""
    memory_gib: int = 32
    idle_s: int = 120
    """A container without work ends after so long."""
    retries: int = 2
    """By Modal itself, when a container is lost."""

    @property
    def device(self) -> str:
        """'cuda' or 'cpu', as the container sees it."""
        return "cuda" if self.gpu else "cpu"

    @property
    def exact_gpu(self) -> str | None:
        """As Modal is asked for it: it gives an H200 to who asks for an H100, unless that has an exclamation mark."""
        return "H100!" if self.gpu == "H100" else self.gpu


def time_limit_s(settings: Settings) -> int:
    """What a payload may take in all, which the evaluator's own limits for each step keep far from.

    At most a day, as Modal has it.
    """
    configs = settings.search.window if settings.search else 1
    return min(24 * 3600, int(600 + configs * (settings.limits.compile_s + 20 * settings.limits.call_s)))


def pinned() -> list[str]:
    """The packages of the image, as pip takes them."""
    found = []
    for name in PACKAGES:
        try:
            # '+cpu' names a build that Modal's index does not have.
            found.append(f"{name}=={version(name).partition('+')[0]}")
        except PackageNotFoundError:
            found.append(name)
    return found


def build_image(resources: Resources) -> Any:
    """The image: compilers, pinned packages, and this kernelwright's own source."""
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
                "TRITON_CACHE_DIR": f"{MOUNT}/triton",
                "TILELANG_CACHE_DIR": f"{MOUNT}/tilelang",
            }
        )
    )
    # Added when a container starts, so a changed source needs no new image.
    root = Path(__file__).parents[2]
    image = image.add_local_file(root / "__init__.py", f"{SOURCE}/kernelwright/__init__.py")
    for folder in PACKAGE_FOLDERS:
        image = image.add_local_dir(root / folder, f"{SOURCE}/kernelwright/{folder}", ignore=["**/__pycache__"])
    return image


def build(resources: Resources, time_limit_s: int) -> tuple[Any, Any]:
    """The app, and its class; `cls().run.spawn(payload)` asks a container. Nothing is sent anywhere yet."""
    import modal

    app = modal.App(NAME, include_source=False)
    device = resources.device
    options: dict[str, Any] = {}
    if "_experimental_restrict_output" in inspect.signature(app.cls).parameters:
        # Answers are no pickles then: reading one runs no code of whoever wrote it.
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
        # A kernel reaches neither the network nor anything else that the account has on Modal.
        block_network=True,
        restrict_modal_access=True,
        serialized=True,
        **options,
    )
    class Evaluations:
        @modal.enter()  # type: ignore[untyped-decorator, unused-ignore]
        def start(self) -> None:
            from kernelwright.evaluators.remote.worker_host import WorkerHost

            self.station = WorkerHost(device)

        @modal.method()  # type: ignore[untyped-decorator, unused-ignore]
        def run(self, payload: str) -> str:
            """JSON in, JSON out; see `WorkerHost.run`."""
            from kernelwright.evaluators.remote.payload import ANSWERS, Payload

            return ANSWERS.dump_json(self.station.run(Payload.model_validate_json(payload))).decode()

        @modal.exit()  # type: ignore[untyped-decorator, unused-ignore]
        def stop(self) -> None:
            self.station.close()

    return app, Evaluations
