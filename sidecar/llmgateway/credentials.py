"""Where keys come from: the environment, ``auth.json`` of the state directory, the system's keyring.

A key is found when a call needs it and kept nowhere else. It is never logged, and no error, event or ``repr``
holds one. Blocking; the event loop asks from a thread.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Final, TypeAlias

from sidecar._internal.env import read_raw
from sidecar.llmgateway.contract import GatewayError, gateway_error
from sidecar.llmgateway.names import Provider

__all__ = ["AUTH_FILE", "Credentials", "Key", "Keyring", "how_to_set", "system_keyring"]

AUTH_FILE: Final = "auth.json"
KEYRING_SERVICE: Final = "sidecar"
_KEYRING_DEADLINE_S: Final = 3.0
_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Keyring: TypeAlias = Callable[[str], str | None]
"""Returns the key stored for a provider, or None. Contract: never raises, and answers within seconds."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and where it was found: safe to show, the key itself is not."""

    value: str = field(repr=False)
    source: str


class Credentials:
    """The keys of one user. *home* is the state directory, None for the environment alone."""

    def __init__(self, home: Path | None = None, keyring: Keyring | None = None) -> None:
        self._home = home
        self._keyring = keyring

    def find(self, provider: Provider) -> Key | None:
        """Return the key for *provider*, or None.

        Raises:
            GatewayError: ``auth``, when ``auth.json`` is there and cannot be used.
        """
        return self._from_environment(provider) or self._from_file(provider) or self._from_keyring(provider)

    @property
    def has_keyring(self) -> bool:
        """Whether the system's keyring is asked."""
        return self._keyring is not None

    def problem(self) -> str | None:
        """Return why ``auth.json`` is there and cannot be used, None when nothing is wrong with it."""
        path = self._home / AUTH_FILE if self._home is not None else None
        try:
            if path is not None and path.is_file():
                _read(path)
        except GatewayError as error:
            return error.message
        return None

    def _from_environment(self, provider: Provider) -> Key | None:
        for name in provider.key_env:
            if value := (read_raw(name) or "").strip():
                return Key(value, name)
        return None

    def _from_file(self, provider: Provider) -> Key | None:
        path = self._home / AUTH_FILE if self._home is not None else None
        if path is None or not path.is_file():
            return None
        keys = _read(path)
        value = next((keys[name] for name in _names(provider) if name in keys), None)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise gateway_error("auth", f"{AUTH_FILE}: the key of {provider.id!r} must be a string")
        return Key(value.strip(), AUTH_FILE)

    def _from_keyring(self, provider: Provider) -> Key | None:
        if self._keyring is None:
            return None
        for name in _names(provider):
            if value := self._keyring(name):
                return Key(value, "keyring")
        return None


def how_to_set(provider: Provider) -> str:
    """Say in one sentence how *provider* gets its key.

    >>> how_to_set(Provider("openai", "openai-chat", key_env=("OPENAI_API_KEY",)))
    'set OPENAI_API_KEY, or put {"openai": "..."} into auth.json of the state directory (mode 0600)'
    """
    file = f'put {{"{provider.id}": "..."}} into {AUTH_FILE} of the state directory (mode 0600)'
    return f"set {provider.key_env[0]}, or {file}" if provider.key_env else file


def system_keyring() -> Keyring | None:
    """Return the system's keyring, or None where the ``keyring`` package is not installed."""
    return _ask_keyring if find_spec("keyring") is not None else None


def _ask_keyring(name: str) -> str | None:
    """Ask in a thread that nobody has to wait for: an unlock dialogue may stay open for ever."""
    found: list[str | None] = []

    def ask() -> None:
        try:
            import keyring

            found.append(keyring.get_password(KEYRING_SERVICE, name))
        except Exception:
            # A keyring that is locked, absent or broken holds no key for us; a call says what else to set.
            return

    thread = Thread(target=ask, name="keyring", daemon=True)
    thread.start()
    thread.join(_KEYRING_DEADLINE_S)
    return found[0] if found else None


def _names(provider: Provider) -> Iterable[str]:
    """Return the names a key of *provider* may be stored under: ``openai-chat`` shares that of ``openai``."""
    return dict.fromkeys((provider.id, provider.published_as or provider.id))


def _read(path: Path) -> dict[str, object]:
    mode = path.stat().st_mode
    if os.name == "posix" and mode & _FOR_OTHERS:
        found = f"{AUTH_FILE} can be read by others (mode {stat.S_IMODE(mode):04o}) and is not used"
        raise gateway_error("auth", f"{found}; run: chmod 600 {path.name} in the state directory")
    try:
        keys = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise gateway_error("auth", f"{AUTH_FILE} is no JSON; write an object of keys by provider") from None
    if not isinstance(keys, dict):
        raise gateway_error("auth", f"{AUTH_FILE} is no object; write an object of keys by provider")
    return keys
