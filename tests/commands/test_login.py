"""``sidecar login``: a key is stored where only its user can read it, and a model is asked once."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import webbrowser
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

from provider_fakes import Ended, Refused, Said, fake_provider
from sidecar.cli import main
from sidecar.commands import login
from sidecar.commands.terminal import Screen
from sidecar.llmgateway import credentials
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import PROVIDERS_BY_NAME

KEY = "sk-proj-0123456789abcdefghij"
LISTED = {"/v1/models": {"data": [{"id": "served-1"}]}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(login, "system_keyring", lambda: None)
    monkeypatch.setattr(credentials, "find_spec", lambda name: None)
    return tmp_path / "home"


class Typed(io.StringIO):
    """The lines that the user of a terminal types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts lines into a terminal."""

    def put(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", Typed("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr(login, "getpass", lambda prompt: sys.stdin.readline())

    return put


def stored(home: Path) -> Any:
    path = home / "auth.json"
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    return json.loads(path.read_text())


@pytest.mark.processes
@pytest.mark.parametrize(
    ("scene", "code", "said"),
    [
        pytest.param((Said(("ready",)), Ended()), 0, 'openai:served-1 says "ready"', id="an answer"),
        pytest.param((Refused(401, "no such key"),), 1, "openai:served-1 failed", id="a key that is refused"),
    ],
)
async def test_a_key_is_stored_and_a_model_is_asked(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: Any,
    scene: Any,
    code: int,
    said: str,
) -> None:
    typed("openai", KEY)
    async with fake_provider("openai-chat", [scene], LISTED) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
        assert await asyncio.to_thread(main, ["login"]) == code
    shown = capsys.readouterr()
    assert said in " ".join(shown.err.split())
    assert KEY not in shown.err + shown.out
    assert stored(home) == {"openai": KEY}


def test_a_key_comes_through_a_pipe_and_goes_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(login, "install_missing", lambda screen, provider: False)
    for name in ("groq", "anthropic"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
        assert main(["login", name]) == 1
    assert stored(home) == {"groq": KEY, "anthropic": KEY}
    assert main(["login", "groq", "--remove"]) == 0
    assert stored(home) == {"anthropic": KEY}
    assert "the key of groq is removed" in capsys.readouterr().err


def test_the_keyring_has_it_where_there_is_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring: dict[str, str | None] = {}
    keys = Credentials(home, ring.get)
    monkeypatch.setattr(credentials, "write_to_keyring", lambda name, value: False)
    assert keys.store("openai", "old") == str(home / "auth.json")

    def write(name: str, value: str | None) -> bool:
        ring[name] = value
        return True

    monkeypatch.setattr(credentials, "write_to_keyring", write)
    assert keys.store("openai", KEY) == "the keyring"
    assert (ring, stored(home)) == ({"openai": KEY}, {"openai": None})
    assert keys.names_in_keyring() == ["openai"]
    found = keys.find(PROVIDERS_BY_NAME["openai"])
    assert found is not None
    assert found.source == "keyring"


@pytest.mark.parametrize(
    ("arguments", "line", "code", "said"),
    [
        pytest.param(["login"], "", 2, "name a provider, as in: sidecar login anthropic", id="a pipe"),
        pytest.param(["login", "antropic"], KEY, 2, "did you mean anthropic?", id="a misspelled name"),
        pytest.param(["login", "ollama"], "", 0, "ollama needs no key from here", id="a local server"),
        pytest.param(["login", "openai"], "\n", 2, "no key was given; nothing is stored", id="no key"),
        pytest.param(["login", "openai"], "a b\n", 2, "has a blank in it; copy it again", id="no key at all"),
    ],
)
def test_what_cannot_be_a_login_is_refused_and_stores_nothing(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    assert main(arguments) == code
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (home / "auth.json").exists()


def test_an_extra_that_is_missing_is_installed_when_the_user_agrees(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: Any
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(login, "is_installed", lambda provider: bool(ran))
    monkeypatch.setattr(login, "install_arguments", lambda extra: [sys.executable, extra])

    def run(command: list[str], *, check: bool) -> Any:
        ran.append(command)
        return type("Ended", (), {"returncode": 0})

    monkeypatch.setattr(subprocess, "run", run)
    screen, anthropic = Screen(sys.stderr), PROVIDERS_BY_NAME["anthropic"]
    typed("n")
    assert not login.install_missing(screen, anthropic)
    typed("")
    assert login.install_missing(screen, anthropic)
    assert ran == [[sys.executable, "anthropic"]]
    assert "anthropic needs the extra [anthropic]; the command is: " in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(("has_key", "is_missing"), [(False, False), (True, True), (True, False)])
def test_doctor_offers_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, typed: Any, has_key: bool, is_missing: bool, home: Path
) -> None:
    done: list[str] = []
    if has_key:
        monkeypatch.setenv("GROQ_API_KEY", KEY)
    monkeypatch.setattr("sidecar.llmgateway.survey.is_installed", lambda provider: not is_missing)
    monkeypatch.setattr(login, "install_missing", lambda screen, provider: done.append(provider.id))
    monkeypatch.setattr(login, "run", lambda options: done.append("log in"))
    typed("y")
    login.offer_missing(Screen(sys.stderr), home)
    assert done == ([] if has_key and not is_missing else ["groq"] if is_missing else ["log in"])


class Provider(HTTPServer):
    """A provider with a page to agree on, whose user does so, and keys for the codes of that page."""

    class Handler(BaseHTTPRequestHandler):
        server: Provider

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hashed = urlsafe_b64encode(sha256(asked["code_verifier"].encode()).digest()).decode().rstrip("=")
            is_known = asked["code"] == "code-1" and hashed == self.server.challenge
            body = json.dumps({"key": KEY, "user_id": "u"} if is_known else {"error": "who?"}).encode()
            self.send_response(200 if is_known and self.path == "/api/v1/auth/keys" else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.challenge = ""
        self.answer = "code=code-1"

    def agree(self, page: str) -> bool:
        """Do what a browser does with *page* whose user agrees."""
        address = urlsplit(page)
        query = {name: value for name, (value,) in parse_qs(address.query).items()}
        assert (address.path, query["code_challenge_method"]) == ("/auth", "S256")
        self.challenge = query["code_challenge"]
        back = query["callback_url"]

        def come_back() -> None:
            for url in (f"{urlsplit(back)._replace(path='/favicon.ico').geturl()}", f"{back}?{self.answer}"):
                with urlopen(url) as reply:
                    assert b"close this page" in reply.read()

        Thread(target=come_back).start()
        return True


@pytest.fixture
def openrouter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The provider that ``openrouter`` is, by its name and in the browser."""
    with Provider() as server:
        Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}/api/v1"
        known = replace(PROVIDERS_BY_NAME["openrouter"], base_url=address)
        monkeypatch.setattr(login, "PROVIDERS_BY_NAME", {**PROVIDERS_BY_NAME, "openrouter": known})
        monkeypatch.setattr(webbrowser, "open", server.agree)
        monkeypatch.setattr(login, "install_missing", lambda screen, provider: False)
        yield server
        server.shutdown()


@pytest.mark.processes
def test_a_user_signs_in_with_the_browser_and_pastes_nothing(
    home: Path, openrouter: Provider, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("openrouter", "")
    assert main(["login"]) == 1  # the extra is not installed here
    assert stored(home) == {"openrouter": KEY}
    shown = capsys.readouterr()
    assert f"http://127.0.0.1:{openrouter.server_port}/auth?callback_url=" in shown.err.replace("\n", "")
    assert KEY not in shown.err + shown.out


@pytest.mark.processes
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param("error=access_denied", "came back without an agreement", id="the user did not agree"),
        pytest.param("code=code-2", "openrouter refused the sign-in (HTTP 403)", id="another code"),
    ],
)
def test_a_sign_in_that_fails_stores_nothing(
    home: Path, openrouter: Provider, typed: Any, capsys: pytest.CaptureFixture[str], answer: str, said: str
) -> None:
    openrouter.answer = answer
    typed("y")
    assert main(["login", "openrouter"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (home / "auth.json").exists()


@pytest.mark.processes
def test_a_key_is_typed_where_the_browser_does_not_come_back(
    home: Path, openrouter: Provider, monkeypatch: pytest.MonkeyPatch, typed: Any
) -> None:
    def leave(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", leave)
    typed("y", KEY)
    assert main(["login", "openrouter"]) == 1
    assert stored(home) == {"openrouter": KEY}
