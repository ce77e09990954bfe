"""Which variables nobody else should see, by their names."""

from __future__ import annotations

import pytest
from kernelwright.core.secrets import is_secret

SECRET = (
    "OPENAI_API_KEY", "openai_api_key", "WATSONX_APIKEY", "AZURE_OPENAI_KEY", "OPENAI_KEY", "OPENROUTER_KEY",
    "GEMINI_API_KEY_2", "OPENAI_API_KEY2", "API_KEYS", "GITHUB_PAT", "HF_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "CLIENT_SECRET", "SSH_PRIVATE_KEY", "GPG_PASSPHRASE", "PASSWORD",
    "PGPASSWORD", "PGPASSWD", "GOOGLE_APPLICATION_CREDENTIALS",
)  # fmt: skip
OPEN = (
    "TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "KERNELWRIGHT_CACHE",
    "MAX_TOKENS", "TRITON_CACHE_DIR", "TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES", "HOME", "PWD", "XDG_CONFIG_HOME", "",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_says_so_is_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", OPEN)
def test_another_name_is_not(name: str) -> None:
    assert not is_secret(name)
