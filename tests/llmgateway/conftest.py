"""A machine of a user without any setup of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.llmgateway import credentials
from sidecar.llmgateway.names import PROVIDERS_BY_NAME


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory, and an environment that says nothing."""
    for provider in PROVIDERS_BY_NAME.values():
        for name in (*provider.key_env, *provider.own_env, provider.base_url_env or ""):
            monkeypatch.delenv(name, raising=False)
    for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"):
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("INDUSAGI_MODEL", raising=False)
    monkeypatch.setattr(credentials, "search_keyring", lambda name: None)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"
