"""The machine as processes see it: cores, and for untrusted code an allow list of variables.

A deny list is never complete: addresses with passwords, cookies and keys can have any name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from .errors import OptionError
from .language import VARIABLE as LANGUAGES
from .secrets import is_secret

_NAMES = frozenset(
    f"""
    PATH HOME USER LOGNAME LANG LANGUAGE LOCPATH LOCALE_ARCHIVE TZ TZDIR TMPDIR TEMP TMP
    LD_LIBRARY_PATH LD_PRELOAD LD_BIND_NOW GLIBC_TUNABLES MALLOC_ARENA_MAX MALLOC_CONF
    PYTHONPATH PYTHONHOME PYTHONHASHSEED PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX PYTHONUNBUFFERED PYTHONUTF8
    PYTHONIOENCODING PYTHONUSERBASE PYTHONNOUSERSITE PYTHONWARNINGS PYTHONFAULTHANDLER PYTHONMALLOC PYTHONOPTIMIZE
    VIRTUAL_ENV CONDA_PREFIX NIX_LD NIX_LD_LIBRARY_PATH
    CC CXX CPP AR LD CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
    COMPILER_PATH GCC_EXEC_PREFIX MAX_JOBS
    NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_TF32_OVERRIDE
    {LANGUAGES}
    """.split()
)
_FAMILIES = (
    "LC_",
    *("CUDA", "CUBLAS", "CUDNN_", "NVCC_", "CUTLASS_"),
    *("HIP_", "HIPBLASLT_", "HSA_", "ROCM_", "ROCR_", "ROCBLAS_", "MIOPEN_", "GPU_DEVICE_ORDINAL"),
    *("TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "ATEN_", "KINETO_"),
    *("TRITON_", "TILELANG_", "TL_", "TVM_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_"),
)
"""Prefixes of the variables that libraries and compilers read."""
_ADDRESS = "://"
"""Part of an address. A process without network needs none, and it may contain passwords and tokens."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = re.compile(r"""["']([A-Za-z_]\w*)["']""")


def allowed_environment(environment: Mapping[str, str], asked_by: str = "") -> dict[str, str]:
    """Return the allowed variables of a process that runs or compiles untrusted code.

    `asked_by` is the source of the user's own program, which also gets the variables that it names in quotes, except
    variables whose names indicate a key or whose values contain an address.
    """
    asked = set(_QUOTED.findall(asked_by))
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name in asked or name.startswith(_FAMILIES))
        and not is_secret(name)
        and _ADDRESS not in value
    }


def named_variables(asked: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the user names for a function's package: 'NAME' with its current value, or
    'NAME=VALUE'.

    Raises `OptionError` for a variable that is not set, or that an untrusted process must not have.
    """
    found = {}
    for item in asked:
        name, given, value = item.partition("=")
        if not _NAME.fullmatch(name):
            raise OptionError(f"`env` {item!r} is not a variable", "write NAME or NAME=VALUE")
        if not given and name not in environment:
            raise OptionError(f"`env` {name} is not set", f"set it, or write {name}=VALUE")
        value = value if given else environment[name]
        why = "its name is that of a secret" if is_secret(name) else "its value is an address" * (_ADDRESS in value)
        if why:
            raise OptionError(f"`env` {name} is kept from processes that run a candidate: {why}", "leave it out")
        if name in _NAMES or name.startswith(_FAMILIES):
            raise OptionError(
                f"`env` {name}: libraries read it when processes start", "set it where you start this command"
            )
        found[name] = value
    return found


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))
