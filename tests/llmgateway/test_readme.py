"""What the guide says of models holds: its settings can be used as they are, its names are known."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from repository import GUIDE
from sidecar.llmgateway.config import (
    CONFIG_FILE,
    FOLDER_FILE,
    CostEntry,
    ModelEntry,
    read_settings,
)
from sidecar.llmgateway.credentials import AUTH_FILE, KEYRING_SERVICE
from sidecar.llmgateway.names import OPENAI_CHAT, PROVIDERS_BY_NAME, Provider
from sidecar.protocol.codec import from_wire
from sidecar.protocol.messages import SessionNewParams
from sidecar.service.handlers.session import tool_servers

MODELS = GUIDE.partition("\n## Models\n")[2].partition("\n## ")[0]


def block(kind: str) -> str:
    """Return the code blocks of *kind* together, which are parts of one file; its tables come last."""
    found = re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, re.S | re.M)
    return "\n".join(
        sorted(found, key=lambda text: (re.search(r"^\[", text, re.M) is not None, text[0] == "["))
    )


def test_the_settings_can_be_copied(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).write_text(block("toml"))
    found = read_settings(tmp_path)
    assert found.problems == ()
    work = Provider("work", OPENAI_CHAT, "https://models.example.com/v1", key_env=("WORK_API_KEY",))
    assert found.providers == {"work": work}
    big = ModelEntry("work", "qwen3-coder-480b", 262_144, 32_768, True, False, CostEntry(0.4, 1.6, 0.04))
    assert found.models == {"big": big}


def test_the_settings_are_complete(tmp_path: Path) -> None:
    """Whatever may be said is said there."""
    (tmp_path / CONFIG_FILE).write_text(block("toml"))
    found = read_settings(tmp_path)
    said = {spec.name for spec in fields(found)} - {"problems", "unreadable", "model_problem"}
    assert all(getattr(found, name) for name in said - {"local_servers"})
    assert not found.local_servers
    entry = found.models["big"]
    assert all(getattr(entry, name) is not None for name in entry.__struct_fields__)


@pytest.mark.parametrize(
    "name", [CONFIG_FILE, FOLDER_FILE, AUTH_FILE, f"keyring set {KEYRING_SERVICE} openai"]
)
def test_the_files_are_called_so(name: str) -> None:
    assert f"`{name}`" in MODELS


def test_the_guide_lists_providers_extras_and_variables() -> None:
    rows = [row.strip("|").split("|") for row in MODELS.splitlines() if row.startswith("| `")]
    assert len(rows) == 6
    for names, extra, variables in rows:
        known = [PROVIDERS_BY_NAME[name] for name in re.findall(r"`([a-z]+)`", names)]
        assert {f"[{provider.extra}]" for provider in known} == {extra.strip().strip("`")}
        told = re.findall(r"`([A-Z_]+)`", variables)
        assert {*told} <= {*known[0].key_env, known[0].base_url_env, known[0].host_env}


def test_tool_servers_are_named_so() -> None:
    params = from_wire(SessionNewParams, json.loads(block("json")))
    git, docs = tool_servers(params.mcp_servers)
    assert (git.name, docs.name) == ("git", "docs")
