"""Keys of providers: from the environment, ``auth.json`` of the state directory, the system's keyring.

A key is looked up when a call needs it. It is stored where its user asks for that, and kept nowhere else. It
is never logged, and no error, event or ``repr`` holds one. Look-ups block: the event loop makes them in a
thread.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from sidecar._internal.env import read_raw
from sidecar._internal.state_folder import replace_state_file
from sidecar._internal.values import Value, hide_in_repr
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.names import Provider

if TYPE_CHECKING:  # the extra may be absent
    from keyring.backend import KeyringBackend

AUTH_FILE: Final = "auth.json"
KEYRING_SERVICE: Final = "sidecar"
_KEYRING_DEADLINE_S: Final = 3.0
_KEYRING_VARIABLES: Final = (
    "PYTHON_KEYRING_BACKEND",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
)
_OWN_KEYRINGS: Final = {"darwin": "macOS.Keyring", "win32": "Windows.WinVaultKeyring"}
_OTHER_KEYRINGS: Final = ("keyrings", "dbus", "gi")
"""The packages of back ends that users install, and of those for KWallet and GNOME."""

_UNLOCK_S: Final = 60.0
"""How long the user of a terminal has to unlock the keyring that a key is written to."""

_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

T = TypeVar("T")
Keyring: TypeAlias = Callable[[str], str | None]
"""Returns the key stored for a provider, or None. Contract: never raises, and answers within seconds."""


class Key(Value):
    """A key, and its source, which is safe to show."""

    value: str
    source: str

    __repr__ = hide_in_repr("value")


class Credentials:
    """The keys of one user. *home* is the state directory, None for the environment alone."""

    def __init__(self, home: Path | None = None, keyring: Keyring | None = None) -> None:
        self._home = home
        self._keyring = keyring

    def find(self, provider: Provider) -> Key | None:
        """Return the key for *provider*, or None.

        Raises:
            GatewayError: ``auth``, when the key is none, or ``auth.json`` is there and cannot be used.
        """
        for variable in provider.key_env:
            if key := plain_key(read_raw(variable) or ""):
                return checked_key(Key(key, variable), provider.id)
        # A key may be stored under either name: `openai-chat` shares the key of `openai`.
        names = tuple(dict.fromkeys((provider.id, provider.published_as or provider.id)))
        stored = self._stored_keys()
        stored_value = next((stored[name] for name in names if name in stored), None)
        if stored_value is not None:
            key = plain_key(stored_value) if isinstance(stored_value, str) else ""
            if not key:
                raise GatewayError("auth", f"{AUTH_FILE}: the key of {provider.id!r} must be a string")
            return checked_key(Key(key, AUTH_FILE), provider.id)
        if self._keyring is not None:
            for name in names:
                if value := plain_key(self._keyring(name) or ""):
                    return checked_key(Key(value, "keyring"), provider.id)
        return None

    def store(self, name: str, value: str | None) -> str:
        """Store *value* as the key of the provider *name*, None to remove it; return where in words.

        It goes into the keyring where there is one that works, else into ``auth.json``, for its user alone.

        Raises:
            GatewayError: ``auth``, when ``auth.json`` is there and cannot be used.
            OSError: it cannot be written.
        """
        assert self._home is not None
        keys, path = self._stored_keys(), self._home / AUTH_FILE
        is_in_keyring = self._keyring is not None and write_to_keyring(name, value)
        kept = {each: key for each, key in keys.items() if each != name}
        if value is not None:  # null says that the keyring has it
            kept[name] = None if is_in_keyring else value
        if kept != keys:
            replace_state_file(path, json.dumps(kept, indent=2).encode())
        return "the keyring" if is_in_keyring else str(path)

    def names_in_keyring(self) -> Sequence[str]:
        """Return the providers that ``auth.json`` refers to the keyring."""
        try:
            return [name for name, key in self._stored_keys().items() if key is None]
        except GatewayError:
            return ()

    def without_keyring(self) -> Credentials:
        """Return the same keys without the keyring, because that may wait until its user unlocks it."""
        return Credentials(self._home)

    @property
    def has_keyring(self) -> bool:
        """Whether the system's keyring is searched."""
        return self._keyring is not None

    def problem(self) -> str | None:
        """Return the reason why ``auth.json`` is there and cannot be used, None when it can."""
        try:
            self._stored_keys()
        except GatewayError as error:
            return error.message
        return None

    def _stored_keys(self) -> dict[str, object]:
        """Return the keys in ``auth.json`` by provider, none without that file."""
        path = self._home / AUTH_FILE if self._home is not None else None
        if path is None:
            return {}
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise GatewayError("auth", f"{AUTH_FILE} cannot be read: {error.strerror}") from None
        if os.name == "posix" and mode & _FOR_OTHERS:
            found = f"{AUTH_FILE} can be read by others (mode {stat.S_IMODE(mode):04o}) and is not used"
            raise GatewayError("auth", f"{found}; run: chmod 600 {path.name} in the state directory")
        try:
            keys = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = f"{AUTH_FILE} is not valid JSON"
            raise GatewayError("auth", f"{found}; write an object of keys by provider") from None
        if not isinstance(keys, dict):
            found = f"{AUTH_FILE} is not a JSON object"
            raise GatewayError("auth", f"{found}; write an object of keys by provider")
        return keys


def plain_key(text: str) -> str:
    """Return the key in *text*, without blanks and one pair of quotes around it.

    A shell takes the quotes of ``KEY="sk-1"`` away, and some readers of files with variables leave them.

    >>> plain_key(' "sk-1" '), plain_key("''"), plain_key('"sk-1')
    ('sk-1', '', '"sk-1')
    """
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1].strip() if is_quoted else text


def checked_key(key: Key, provider: str) -> Key:
    """Return *key*, which goes into the header of a request.

    Raises:
        GatewayError: ``auth``, when it has a quote, a line break, a blank or another character that no header
            takes.

    >>> checked_key(Key("sk-1", "OPENAI_API_KEY"), "openai").value
    'sk-1'
    """
    wrong = next((each for each in key.value if not "!" <= each <= "~" or each in "\"'"), None)
    if wrong is None:
        return key
    named = {"\n": "a line break", "\r": "a line break", " ": "a blank", '"': "a quote", "'": "a quote"}.get(
        wrong, "a character that no key has"
    )
    raise GatewayError(
        "auth", f"the key for {provider} in {key.source} has {named} in it; copy it again", provider=provider
    )


def how_to_set(provider: Provider) -> str:
    """Return one sentence on how to give *provider* its key.

    >>> how_to_set(Provider("openai", "openai-chat", key_env=("OPENAI_API_KEY",)))
    'set OPENAI_API_KEY, or run: sidecar login openai'
    """
    login = f"run: sidecar login {provider.id}"
    return f"set {provider.key_env[0]}, or {login}" if provider.key_env else login


def system_keyring() -> Keyring | None:
    """Return the system's keyring, or None where none can answer or its package is not installed."""
    return search_keyring if find_spec("keyring") is not None and _has_keyring_service() else None


def _has_keyring_service() -> bool:
    """Whether a keyring could answer: on Linux over D-Bus, unless the user has set up or installed another.

    Without one, the package would load all its back ends to find that out, while the first session waits.
    """
    is_there = True
    if sys.platform.startswith("linux"):
        settings = Path(read_raw("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "python_keyring")
        bus = Path(read_raw("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")
        is_set = any(map(read_raw, _KEYRING_VARIABLES)) or find_spec("keyrings") is not None
        is_there = is_set or settings.exists() or bus.exists()
    return is_there


@cache
def load_keyring() -> KeyringBackend:
    """Return the system's keyring, with its packages loaded, which takes longer than a look-up.

    It is the back end that the user has set up, else that of the system. All are loaded and tried only where
    a package is there that another one needs.

    Raises:
        ImportError: the packages are not installed.
        RuntimeError: the keyring does not answer.
    """
    from keyring import core

    if any(map(find_spec, _OTHER_KEYRINGS)):
        return core.get_keyring()
    own = _OWN_KEYRINGS.get(sys.platform, "SecretService.Keyring")
    return core.load_env() or core.load_config() or core.load_keyring(f"keyring.backends.{own}")


def search_keyring(name: str) -> str | None:
    """Return the key *name* of the system's keyring, or None when it has none or gives no answer in time."""

    def search() -> str | None:
        return load_keyring().get_password(KEYRING_SERVICE, name)

    return ask_keyring(search, _KEYRING_DEADLINE_S)


def write_to_keyring(name: str, value: str | None) -> bool:
    """Write the key *name*, None to remove it, and return whether the keyring has *value* now."""

    def write() -> bool:
        keyring = load_keyring()
        if value is not None:
            keyring.set_password(KEYRING_SERVICE, name, value)
        elif keyring.get_password(KEYRING_SERVICE, name) is not None:
            keyring.delete_password(KEYRING_SERVICE, name)
        return keyring.get_password(KEYRING_SERVICE, name) == value

    return ask_keyring(write, _UNLOCK_S) is True


def ask_keyring(call: Callable[[], T], deadline_s: float) -> T | None:
    """Return the result of *call*, None where the keyring fails or gives no answer in time.

    In a thread of its own, because an unlock dialogue may stay open for ever.
    """
    found: list[T] = []

    def ask() -> None:
        try:
            found.append(call())
        except Exception:
            # A keyring that is locked, absent or broken has no key; the call's error names the next step.
            return

    thread = Thread(target=ask, name="keyring", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return found[0] if found else None
