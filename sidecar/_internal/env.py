"""Environment variables, and the state directory that they name.

Only this module reads ``os.environ``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from pathlib import Path

ENV_PREFIX = "INDUSAGI"


def env_name(suffix: str) -> str:
    """Return the branded variable name for *suffix*.

    >>> env_name("agent-dir")
    'INDUSAGI_AGENT_DIR'
    """
    return f"{ENV_PREFIX}_{suffix.upper().replace('-', '_')}"


def read_env(suffix: str) -> str | None:
    """Return the branded variable for *suffix*, or None when it is unset."""
    return os.environ.get(env_name(suffix))


def read_raw(name: str) -> str | None:
    """Return a foreign variable by its literal name, or None when it is unset."""
    return os.environ.get(name)


def speaks_acp_draft() -> bool:
    """Whether the draft of the Agent Client Protocol is switched on, with ``INDUSAGI_ACP_DRAFT=1``."""
    return read_env("acp-draft") == "1"


def copy_environment() -> dict[str, str]:
    """Return a copy of every variable, for a child process to start from."""
    return dict(os.environ)


def indusagi_home() -> Path:
    """Return the state directory: ``$INDUSAGI_HOME`` expanded, or ``~/.pindusagi`` when unset or empty."""
    from pathlib import Path  # not above: a handshake is answered without it

    return Path(name_of_home()).expanduser()


def name_of_home() -> str:
    """Return the path of the state directory; it begins with ``~`` where the system knows no such home."""
    return os.path.expanduser(read_env("home") or "~/.pindusagi")


def user_home_folder() -> Path | None:
    """Return the home folder of the user, with all links followed; None where the system knows none."""
    from pathlib import Path

    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def expand_home(text: str) -> Path:
    """Return the path that *text* spells, from the home folder at a ``~``; that of no known user is a name.

    >>> str(expand_home("~nobody-has-this-name"))
    '~nobody-has-this-name'
    """
    from pathlib import Path

    return Path(os.path.expanduser(text))


def find_proxy(scheme: str, host: str) -> str | None:
    """Return the proxy of the environment for *host*: ``HTTPS_PROXY`` and so on, but for ``NO_PROXY``.

    Where the environment names none, the settings of the system count on macOS and Windows.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import

    if proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all") or None
