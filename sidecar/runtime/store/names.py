"""File names of sessions: any id becomes a name that is safe on every file system, and comes back.

An id of letters, digits, dots, dashes and underscores is its own name. Any other one begins with ``%`` and
has its unsafe bytes as ``%XX``, so that no id leaves the store's folder or meets another one's file.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from sidecar._internal.errors import InvalidInput

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|\Z)", re.I)
"""Names that Windows takes for a device, with any extension."""
_MAX_STEM_BYTES: Final = 240


def stem_of(session_id: str) -> str:
    """Return the file name of *session_id*, without an extension.

    Raises:
        InvalidInput: the name would be longer than file systems allow.

    >>> stem_of("s-1"), stem_of("../escape"), stem_of("con")
    ('s-1', '%2E%2E%2Fescape', '%63on')
    """
    if _SAFE.match(session_id) and not _RESERVED.match(session_id) and not session_id.endswith("."):
        return session_id
    data = session_id.encode("utf-8", "surrogatepass")
    stem = "".join([f"%{byte:02X}" if must_escape(byte, i) else chr(byte) for i, byte in enumerate(data)])
    if len(stem) > _MAX_STEM_BYTES:
        raise InvalidInput(f"a session id of {len(session_id)} characters is too long", hint="use 1 to 128")
    return stem or "%"


def session_id_of(stem: str) -> str | None:
    """Return the id that has the file name *stem*, or None for a name that no id has.

    >>> session_id_of("%2E%2E%2Fescape"), session_id_of("not one of ours")
    ('../escape', None)
    """
    try:
        session_id = "" if stem == "%" else unquote_to_bytes(stem).decode("utf-8", "surrogatepass")
        return session_id if stem_of(session_id) == stem else None
    except (UnicodeError, InvalidInput):
        return None


def must_escape(byte: int, index: int) -> bool:
    """Whether *byte* must be escaped: the first one always, so that the name cannot be some id's own."""
    char = chr(byte)
    return index == 0 or char == "." or not (char.isascii() and (char.isalnum() or char in "-_"))
