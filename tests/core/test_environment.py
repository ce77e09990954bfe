"""What of an environment a process gets that runs code of others."""

from __future__ import annotations

import pytest
from kernelwright.core.environment import allowed_environment

PLANTED = {
    "REDIS_URL": "redis://:planted@cache:6379/0", "DATABASE_URL": "postgres://me:planted@db/main",
    "PIP_INDEX_URL": "https://me:planted@packages.example/simple", "MYSQL_PWD": "planted", "PGPASSFILE": "planted",
    "SLACK_WEBHOOK": "https://hooks.example/planted", "SENTRY_DSN": "https://planted@sentry.example/1",
    "SESSION_COOKIE": "planted", "CI_JOB_JWT": "planted", "OPENAI_API_KEY": "planted", "HF_TOKEN": "planted",
    "AWS_SECRET_ACCESS_KEY": "planted", "AWS_ACCESS_KEY_ID": "planted", "NETRC": "planted", "KUBECONFIG": "planted",
    "SSH_AUTH_SOCK": "/run/planted", "HTTPS_PROXY": "http://me:planted@proxy:3128", "MY_LICENSE": "planted",
    "AZURE_STORAGE_CONNECTION_STRING": "AccountKey=planted", "KERNELWRIGHT_API_BASE": "https://planted.example",
    "DOCKER_AUTH_CONFIG": "planted", "BASH_FUNC_deploy%%": "() { planted; }",
    # In the families of a library, or with a name that is allowed.
    "NVIDIA_API_KEY": "planted", "TORCH_HUB_TOKEN": "planted", "TRITON_REDIS_URL": "redis://planted",
    "TORCHINDUCTOR_REMOTE_CACHE": "https://planted.example", "CXXFLAGS": "-DURL=https://me:planted@example",
}  # fmt: skip
"""Secrets as they are found in environments; each value has the word 'planted'."""

NEEDED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "CC", "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TRITON_INTERPRET", "TILELANG_CACHE_DIR",
    "TL_TEMPLATE_PATH", "TVM_LIBRARY_PATH", "TORCH_CUDA_ARCH_LIST", "PYTORCH_NVML_BASED_CUDA_CHECK",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OPENBLAS_NUM_THREADS",
    "KERNELWRIGHT_LANGUAGES",
)  # fmt: skip


def test_it_has_what_libraries_and_compilers_need_and_no_secret() -> None:
    needed = dict.fromkeys(NEEDED, "value")
    assert allowed_environment({**PLANTED, **needed}) == needed


@pytest.mark.parametrize("name", PLANTED)
def test_a_secret_is_not_in_it(name: str) -> None:
    assert allowed_environment({name: PLANTED[name]}) == {}


def test_the_users_own_program_gets_what_it_names_unless_that_is_a_secret() -> None:
    program = "import os\nFAST = os.getenv('FAST') or os.environ[\"SLOW\"] or os.getenv('MY_KEY') or os.getenv('SITE')"
    known = {"FAST": "1", "SLOW": "2", "OTHER": "3", "MY_KEY": "planted", "SITE": "https://planted"}
    assert allowed_environment(known, asked_by=program) == {"FAST": "1", "SLOW": "2"}
