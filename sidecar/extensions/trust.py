"""The files of strangers that the user has allowed, by the hash of their content.

They are kept in ``trusted.json`` of the state directory, so that each content is asked about once. A changed
file has another hash, and asks again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar._internal.errors import log_fault
from sidecar._internal.state_folder import read_state_file, replace_state_file

_FILE: Final = "trusted.json"
_MOST_BYTES: Final = 1_000_000
_MOST_KEPT: Final = 1_000


class TrustedContents:
    """The allowed contents of the state directory *home*. Works on the disk."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE

    def read(self) -> Mapping[str, str]:
        """Return the allowed hashes, each with the path that it was allowed at; a broken file has none."""
        try:
            found = json.loads(read_state_file(self._path, _MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return {str(key): str(path) for key, path in found.items()} if isinstance(found, dict) else {}

    def add(self, digest: str, path: Path) -> None:
        """Remember *digest*; the oldest ones go. If it cannot be written, it is asked about again."""
        kept = {**self.read(), digest: str(path)}
        newest = dict(list(kept.items())[-_MOST_KEPT:])
        try:
            replace_state_file(self._path, json.dumps(newest, indent=1).encode("utf-8", "replace"))
        except OSError as error:
            log_fault("the list of trusted files", error)
