"""``sidecar login``: stores the key of a provider, installs its extra where it is missing, asks a model.

The key is read without being shown. It goes into the system's keyring, or into a file for its user alone.

Where the provider has a sign-in for any program, the key comes from there: OAuth with PKCE (RFC 7636). The
browser shows the page of the provider, where the user agrees. It comes back to an address on loopback, with a
path that only this sign-in knows, and brings a code. The code and the verifier, of which the page had the
hash, are changed for a key of the user, once. Neither of them is written anywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import time
import webbrowser
from base64 import urlsafe_b64encode
from getpass import getpass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from secrets import token_urlsafe
from typing import Final
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import Request, urlopen

from rich.text import Text

from sidecar._internal.env import indusagi_home, read_raw
from sidecar._internal.loading import install_arguments, install_command
from sidecar.commands.terminal import Screen, is_typed_in
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.config import near_name, read_settings
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import Credentials, Key, checked_key, plain_key, system_keyring
from sidecar.llmgateway.diagnostics import Diagnostic, ask_model
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider
from sidecar.llmgateway.providers import is_installed
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.llmgateway.survey import PROPOSED

_WITH_SIGN_IN: Final = frozenset({"openrouter"})
"""The providers with a sign-in for any program; the others give keys alone."""

_PATIENCE_S: Final = 300.0
_EXCHANGE_S: Final = 30.0
_DONE: Final = (
    b"<!doctype html><title>Sidecar</title><p>You can close this page, and go back to the terminal."
)


def run(options: argparse.Namespace) -> int:
    """Log in at a provider, or out, and return the exit code."""
    screen = Screen(sys.stderr)
    try:
        return log_in(screen, indusagi_home(), options.provider, removes=options.remove)
    except EOFError:  # Ctrl-D at a question
        screen.note("nothing is stored")
        return 1
    except GatewayError as error:
        screen.problem(f"sidecar login: {error.message}")
        return 2


def log_in(screen: Screen, home: Path, name: str | None, *, removes: bool = False) -> int:
    """Store the key of the provider *name*, which the user chooses for None, and ask one of its models.

    Args:
        screen: the output.
        home: the state directory.
        name: the provider.
        removes: remove its key instead.

    Raises:
        GatewayError: the key, or the file of keys, cannot be used.
        EOFError: the user has left at a question.
    """
    providers = {**PROVIDERS_BY_NAME, **read_settings(home).providers}
    name = name or choose_provider(screen)
    if name is None:
        screen.problem("sidecar login: name a provider, as in: sidecar login anthropic")
        return 2
    provider = providers.get(name)
    if provider is None:
        near = near_name(name, providers)
        meant = f"did you mean {near}?" if near else f"known ones: {', '.join(PROPOSED)}"
        screen.problem(f"sidecar login: there is no provider {name!r}; {meant}")
        return 2
    if not provider.needs_key:
        screen.note(f"{name} needs no key from here; use it with --model {name}:MODEL")
        return 0
    keys = Credentials(home, system_keyring())
    where = keys.store(name, None if removes else take_key(screen, provider))
    if removes:
        screen.note(f"the key of {name} is removed")
        return 0
    screen.note(f"the key of {name} is in {where}")
    if (variable := next(filter(read_raw, provider.key_env), None)) is not None:
        screen.note(f"{variable} is set, and counts before it")
    if not install_missing(screen, provider):
        return 1
    screen.note("asking a model one question ...")
    answered = asyncio.run(ask_provider(home, Path.cwd(), name))
    if not answered.is_well:
        screen.problem(f"{answered.subject} {answered.text}")
        return 1
    screen.note(f"{answered.subject} {answered.text}")
    screen.note("begin with: sidecar")
    return 0


def choose_provider(screen: Screen) -> str | None:
    """Let the user of a terminal choose a provider; None without one."""
    if not is_typed_in():
        return None
    names = [*PROPOSED]
    for number, name in enumerate(names, 1):
        screen.note(f"{number:3}  {name}")
    answer = input("provider (number or name, 1): ").strip() or "1"
    return names[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(names) else answer


def take_key(screen: Screen, provider: Provider) -> str:
    """Return a key from the browser where *provider* and the user of a terminal like that, else one typed.

    Raises GatewayError.
    """
    if provider.id in _WITH_SIGN_IN and confirm(
        f"sign in at {provider.id} with the browser? [Y]es, or [n]o to paste a key: "
    ):
        try:
            return sign_in(screen, provider)
        except KeyboardInterrupt:
            screen.note("no sign-in; paste a key in its place")
    return read_key(provider)


def read_key(provider: Provider) -> str:
    """Return the key that the user pastes, or the first line of a pipe. Raises GatewayError."""
    text = getpass(f"key of {provider.id} (it is not shown): ") if is_typed_in() else sys.stdin.readline()
    key = checked_key(Key(plain_key(text), "the input"), provider.id)
    if not key.value:
        raise GatewayError("auth", "no key was given; nothing is stored")
    return key.value


def install_missing(screen: Screen, provider: Provider) -> bool:
    """Install the extra of *provider* if the user of a terminal agrees; return whether it is there."""
    if is_installed(provider):
        return True
    extra = provider.extra
    screen.note(f"{provider.id} needs the extra [{extra}]; the command is: {install_command(extra)}")
    if not confirm("run it now? [Y]es, [n]o: "):
        return False
    done = subprocess.run(install_arguments(extra), check=False).returncode == 0
    importlib.invalidate_caches()
    return done and is_installed(provider)


def confirm(question: str) -> bool:
    """Return whether the user of the terminal agrees to *question*, as an empty line does."""
    return is_typed_in() and input(question).strip().lower() in ("", "y", "yes")


async def ask_provider(home: Path, folder: Path, name: str) -> Diagnostic:
    """Ask the model that is proposed of the provider *name* one question, and return its answer."""
    models = await ModelRegistry(setup=ModelSetup.of_user(home)).at(folder, is_chosen=True)
    try:
        await models.list_servers()
        offered = next((each for each in models.names() if each.startswith(f"{name}:")), None)
        if offered is None:
            return Diagnostic(name, f"lists no model here; choose one with --model {name}:MODEL")
        return await ask_model(models, offered)
    finally:
        await models.aclose()


def offer_missing(screen: Screen, home: Path) -> None:
    """Offer the user of a terminal to install the extras of keys that are there, or to log in without any."""

    async def survey() -> ModelRegistry:
        return await ModelRegistry(setup=ModelSetup.of_user(home)).at(Path.cwd())

    models = asyncio.run(survey())
    providers = {**PROVIDERS_BY_NAME, **models.settings.providers}
    for name in models.survey.missing:
        install_missing(screen, providers[name])
    is_alone = models.default == OFFLINE_CARD.id and not models.survey.missing
    if is_alone and confirm("no model of a provider is set up; log in at one? [Y]es, [n]o: "):
        run(argparse.Namespace(provider=None, remove=False))


def sign_in(screen: Screen, provider: Provider) -> str:
    """Return a key that the user of the browser gives at *provider*. Blocks for up to five minutes.

    Raises:
        GatewayError: ``auth``, when the user did not agree in time, or the provider gives no key.
    """
    base = provider.base_url or ""
    verifier, path = token_urlsafe(32), f"/{token_urlsafe(16)}"
    with _CallbackServer(("127.0.0.1", 0), _CallbackHandler) as server:
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "callback_url": f"http://localhost:{server.server_port}{path}",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        page = f"{urljoin(base, '/auth')}?{urlencode(asked)}"
        screen.note(
            "agree in the browser; Ctrl-C goes back. If none opens, open this address on this machine:"
        )
        screen.show_text(Text(page))
        webbrowser.open(page)
        code = wait_for_code(server, path)
    return exchange(provider, base, code=code, verifier=verifier)


class _CallbackServer(HTTPServer):
    """A server for the browser that comes back; *address* is the last one that it asked for."""

    address = ""


class _CallbackHandler(BaseHTTPRequestHandler):
    timeout = 5.0
    server: _CallbackServer

    def do_GET(self) -> None:
        """Keep the address, and show the user that this was all."""
        self.server.address = self.path
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(_DONE)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the address has the code in it."""


def wait_for_code(server: _CallbackServer, path: str) -> str:
    """Return the code that the browser brings to *path*. Raises GatewayError when none comes in time."""
    end = time.monotonic() + _PATIENCE_S
    while (left := end - time.monotonic()) > 0:
        server.timeout = left
        server.handle_request()
        address = urlsplit(server.address)
        if address.path != path:
            continue
        if codes := parse_qs(address.query).get("code"):
            return codes[0]
        raise GatewayError("auth", "the browser came back without an agreement; nothing is stored")
    raise GatewayError("auth", "the browser did not come back; nothing is stored")


def exchange(provider: Provider, base: str, *, code: str, verifier: str) -> str:
    """Return the key that *provider* gives for *code*. Raises GatewayError where it gives none."""
    body = {"code": code, "code_verifier": verifier, "code_challenge_method": "S256"}
    request = Request(
        f"{base.rstrip('/')}/auth/keys",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urlopen(request, timeout=_EXCHANGE_S) as reply:
            key = json.load(reply)["key"]
    except HTTPError as error:
        with error:
            message = f"{provider.id} refused the sign-in (HTTP {error.code}); nothing is stored"
        raise GatewayError("auth", message) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GatewayError("auth", f"{provider.id} gave no key; nothing is stored") from error
    return checked_key(Key(str(key), "the sign-in"), provider.id).value
