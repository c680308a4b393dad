"""Signing in at a provider with the browser: OAuth with PKCE (RFC 7636), and a way back on this machine.

OpenRouter gives such a sign-in to any program, without a registered client; the other providers give keys
alone. The browser shows the provider's page, where the user agrees. It comes back to an address on loopback,
with a path that only this sign-in knows, and brings a code. The code and the verifier, of which the page had
the hash, are changed for a key of the user's, once. Neither of them is written anywhere.
"""

from __future__ import annotations

import json
import time
import webbrowser
from base64 import urlsafe_b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from secrets import token_urlsafe
from typing import Final
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import Request, urlopen

from rich.text import Text

from sidecar.commands.terminal import Screen
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import Key, checked_key
from sidecar.llmgateway.names import Provider

OFFERED: Final = frozenset({"openrouter"})
"""The providers with a sign-in for any program."""

PATIENCE_S: Final = 300.0
_EXCHANGE_S: Final = 30.0
_DONE: Final = (
    b"<!doctype html><title>Sidecar</title><p>You can close this page, and go back to the terminal."
)


def sign_in(screen: Screen, provider: Provider, *, patience_s: float = PATIENCE_S) -> str:
    """Return a key that the user of the browser gives at *provider*. Blocks for up to *patience_s* seconds.

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
        code = wait_for_code(server, path, patience_s)
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


def wait_for_code(server: _CallbackServer, path: str, patience_s: float) -> str:
    """Return the code that the browser brings to *path*. Raises GatewayError when none comes in time."""
    end = time.monotonic() + patience_s
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
