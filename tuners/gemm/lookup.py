"""The config for a shape when an operator runs: from tuned files, otherwise the analytic choice."""

from __future__ import annotations

import functools
import os
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...core import Config, PythonKernel
from ...core.files import cache_folder
from ...corpus import find_kernel
from .analytic import choose_for
from .device import BLOCK_FORMATS, Device
from .fields import from_fields, suited
from .shapes import Shape
from .stores import store_of
from .stores.stamp import FileStamp, read_stamp
from .stores.store import BLOCKSCALE, TRITON, ConfigKey

FOLDER = "KERNELWRIGHT_GEMM_CONFIGS"
"""The environment's variable that names the folder of tuned files."""
WIDTHS = {"float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "mxfp8": 1, "nvfp4": 0.5}
"""Bytes of an operand's element."""


def configs_folder() -> Path:
    """Return the folder of tuned files: the variable's, otherwise one in the user's cache."""
    return Path(os.environ.get(FOLDER) or cache_folder() / "gemm")


def load_config(
    kernel: str,
    M: int,
    N: int,
    K: int,
    device: Device | None = None,
    dtype: str = "float16",
    layout: str = "TN",
    folder: Path | None = None,
    *,
    experts: int = 0,
    top_k: int = 0,
    backend: str = TRITON,
) -> Config:
    """Return the config of `gemm`, `a8w8_blockscale`, `mxfp8`, `nvfp4` or `moe` (with its experts) for a shape.

    aiter's rule chooses among tuned configs: the file for N and K, else the default one; the smallest bound of M that
    holds, then the largest from which on one holds, then `any`. Without a file the analytic choice is taken, and a
    warning says so once per N and K; another warning says that a file was measured with another version of the
    compiler. `device` is by default the current GPU. Raises `OptionError` for a damaged file.
    """
    device = device or Device.of_torch()
    dtype = kernel if kernel in BLOCK_FORMATS else "float8_e4m3fn" if kernel == BLOCKSCALE else dtype
    shape = Shape(n=N, k=K, m=M, layout=layout, experts=experts, top_k=top_k)
    where = folder or configs_folder()
    source = _kernel(kernel, backend)
    found = store_of("kernelwright").find(where, ConfigKey(kernel, dtype, device, layout, backend), shape)
    if found is None:
        _say(f"no tuned config of {kernel} for N={N} K={K} on {device.name} in {where}: taking the analytic choice")
        return choose_for(source, shape, WIDTHS[dtype], dtype, device.limits.model_dump_json())
    path = found.path
    measured = read_stamp(path.parent).get(path.name, FileStamp()).of(found.key).get(backend)
    if measured and measured != (here := installed(backend)):
        name = source.language.name
        _say(f"{path} was measured with {name} {measured}, and this is {here}: its configs may have lost their worth")
    return suited(from_fields(found.fields), source)


@functools.cache
def _kernel(product: str, backend: str) -> PythonKernel:
    return find_kernel(f"gemm/{product}", backend).read()


def installed(package: str) -> str:
    """Return a package's version; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@functools.cache
def _say(text: str) -> None:
    """Warn, once."""
    warnings.warn(text, stacklevel=3)
