"""The agents that are compared, and how each is told to talk to a fake and to nobody else.

Each is given a home folder of its own, without a key of the user's, and a proxy that refuses every connection
but those to the loopback interface.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from peers.hosted import Dialect, acp, codex_app_server, pi_rpc

FOLDER: Final = Path(__file__).parents[3] / ".peers"
PROMPT: Final = "Do it."
_WINDOW: Final = 200_000
_NOWHERE: Final = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One agent.

    Attributes:
        name: its name in the table.
        api: the format of the requests that it makes.
        package: its name at npm, None for our own.
        once: the arguments that answer one prompt and end.
        hosted: the arguments that keep it running for the prompts of a client.
        dialect: the protocol that it then speaks on its standard input and output.
        configure: writes its settings into the home folder given, for the fake at the address given, and
            returns the environment that it needs besides.
    """

    name: str
    api: str
    package: str | None = None
    once: Sequence[str]
    hosted: Sequence[str]
    dialect: Dialect
    configure: Callable[[Path, str], Mapping[str, str]]

    @property
    def label(self) -> str:
        """Its name and format, by which it is told from the others."""
        return f"{self.name} {self.api}"

    @property
    def folder(self) -> Path:
        """The folder that it is installed in."""
        return FOLDER / self.name

    @property
    def executable(self) -> Path:
        """Its program."""
        if self.package is None:
            return Path(sys.executable).with_name("sidecar")
        return self.folder / "node_modules" / ".bin" / self.name

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """Configure it in *home* for the fake at *url*; return the whole environment that it starts with."""
        proxies = {"HTTP_PROXY": _NOWHERE, "HTTPS_PROXY": _NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
        base = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}
        return base | proxies | dict(self.configure(home, url))


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def _configure_pi(home: Path, url: str) -> dict[str, str]:
    model = {"id": "m", "name": "Fake", "contextWindow": _WINDOW, "maxTokens": 9_000}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    _write(home / ".pi/agent/models.json", {"providers": {"fake": provider}})
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


def _configure_codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex/config.toml",
        f"""
model = "m"
model_provider = "fake"
model_context_window = {_WINDOW}
check_for_update_on_startup = false
[model_providers.fake]
name = "Fake"
base_url = "{url}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
[analytics]
enabled = false
""",
    )
    return {"FAKE_KEY": "none"}


def _configure_gemini(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "model": {"disableLoopDetection": True},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    _write(home / ".gemini/settings.json", settings)
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _configure_opencode(home: Path, url: str) -> dict[str, str]:
    model = {"name": "Fake", "tool_call": True, "limit": {"context": _WINDOW, "output": 9_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"m": model},
    }
    models = {"provider": {"fake": provider}, "model": "fake/m", "small_model": "fake/m"}
    settings = {**models, "autoupdate": False, "share": "disabled"}
    _write(home / ".config/opencode/opencode.json", settings)
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def _configure_sidecar(api: str, home: Path, url: str) -> dict[str, str]:
    address = url if api == "google-generate" else f"{url}/v1"
    _write(
        home / "state/config.toml",
        f"""
model = "fake"
[providers.work]
base_url = "{address}"
api = "{api}"
key_env = "FAKE_KEY"
[models.fake]
provider = "work"
name = "m"
context_window = {_WINDOW}
max_output_tokens = 9000
""",
    )
    return {"INDUSAGI_HOME": str(home / "state"), "FAKE_KEY": "none"}


OURS: Final = tuple(
    Program(
        name="sidecar",
        api=api,
        once=("run", PROMPT),
        hosted=("acp",),
        dialect=acp,
        configure=partial(_configure_sidecar, api),
    )
    for api in ("openai-chat", "openai-responses", "google-generate")
)
"""Our own program, once in each format that a peer speaks; the first is what the others are compared with."""

PEERS: Final = (
    Program(
        name="pi",
        api="openai-chat",
        package="@mariozechner/pi-coding-agent",
        once=("--model", "fake/m", "--print", PROMPT),
        hosted=("--mode", "rpc", "--model", "fake/m"),
        dialect=pi_rpc,
        configure=_configure_pi,
    ),
    Program(
        name="codex",
        api="openai-responses",
        package="@openai/codex",
        once=("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
        hosted=("app-server",),
        dialect=codex_app_server,
        configure=_configure_codex,
    ),
    Program(
        name="gemini",
        api="google-generate",
        package="@google/gemini-cli",
        once=("--model", "gemini-2.5-pro", "--yolo", "--prompt", PROMPT),
        hosted=("--acp", "--model", "gemini-2.5-pro", "--yolo"),
        dialect=acp,
        configure=_configure_gemini,
    ),
    Program(
        name="opencode",
        api="openai-chat",
        package="opencode-ai",
        once=("run", "--pure", "--model", "fake/m", PROMPT),
        hosted=("acp",),
        dialect=acp,
        configure=_configure_opencode,
    ),
)
