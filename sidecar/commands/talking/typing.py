"""Help with typing a prompt: completion of commands, their arguments and ``@paths``, and the history."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from sidecar._internal.secrets import mask_secrets
from sidecar._internal.state_folder import make_private_folder
from sidecar.commands.talking.actions import Actions
from sidecar.commands.talking.display import SessionState
from sidecar.workspace.ignore import is_folder, walk

_MOST_FILES: Final = 20_000
_MOST_OFFERED: Final = 40
_STALE_S: Final = 10.0
_HISTORY_BYTES: Final = 1_000_000
_IMAGE_BYTES: Final = 5_000_000
_IMAGES: Final = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"} | {
    ".gif": "image/gif"
}
_COMMAND: Final = re.compile(r"/[\w-]*$")
_ARGUMENT: Final = re.compile(r"/([\w-]+) (\S*)$")
_PATH: Final = re.compile(r"(?:^|\s)@(\S*)$")
_MENTIONS: Final = re.compile(r"(?:^|(?<=\s))@(\S*[^\s,;:.)])")


class ChatCompleter(Completer):
    """Completes commands, their arguments and paths. It walks the folder, so run it in a thread."""

    def __init__(self, actions: Actions, known: SessionState) -> None:
        self._actions = actions
        self._known = known
        self._paths: Sequence[str] = ()
        self._walked_at = 0.0

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the text before the cursor. For prompt_toolkit."""
        before = document.text_before_cursor
        if _COMMAND.fullmatch(before):
            for shown, text in self._actions.descriptions().items():
                name, _, hint = shown.partition(" ")
                if name.startswith(before):
                    yield Completion(name, -len(before), display=f"{name} {hint}", display_meta=text)
        elif found := _ARGUMENT.fullmatch(before):
            name, typed = found.groups()
            for option in self._known.options:
                for choice in option["options"] if option["id"] == name else ():
                    if typed in choice["value"]:
                        yield Completion(choice["value"], -len(typed), display_meta=choice.get("description"))
        elif found := _PATH.search(before):
            for path in islice(rank_paths(self.list_paths(), found[1]), _MOST_OFFERED):
                yield Completion(path, -len(found[1]))

    def list_paths(self) -> Sequence[str]:
        """Return the files and folders of the working folder, at most ten seconds old."""
        if time.monotonic() - self._walked_at > _STALE_S or not self._walked_at:
            folder = self._actions.folder
            self._paths = [
                Path(entry.path).relative_to(folder).as_posix() + ("/" if is_folder(entry) else "")
                for entry in walk(folder, folder, cap=_MOST_FILES)
            ]
            self._walked_at = time.monotonic()
        return self._paths


class _MaskedHistory(FileHistory):
    def store_string(self, string: str) -> None:
        super().store_string(mask_secrets(string))


def open_history(home: Path, folder: Path) -> FileHistory:
    """Return the prompts that were typed in *folder*; of a long history the older half is dropped."""
    histories = home / "history"
    make_private_folder(histories)
    path = histories / sha256(str(folder).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    if path.is_file() and path.stat().st_size > _HISTORY_BYTES:
        kept = path.read_bytes()[-_HISTORY_BYTES // 2 :]
        path.write_bytes(kept[kept.find(b"\n# ") + 1 :])
    return _MaskedHistory(str(path))


def read_prompt(text: str, folder: Path) -> Sequence[Mapping[str, Any]]:
    """Return *text* as content blocks, with one more for each file that it names as ``@path``."""
    blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
    for name in dict.fromkeys(_MENTIONS.findall(text)):
        path = folder / Path(name).expanduser()
        if path.suffix.lower() in _IMAGES and path.is_file() and path.stat().st_size <= _IMAGE_BYTES:
            data = base64.b64encode(path.read_bytes()).decode()
            blocks.append({"type": "image", "mimeType": _IMAGES[path.suffix.lower()], "data": data})
        elif path.exists():
            blocks.append({"type": "resource_link", "uri": path.resolve().as_uri(), "name": name})
    return blocks


def rank_paths(paths: Sequence[str], typed: str) -> Iterable[str]:
    """Return the paths that have *typed*: names that begin with it first, then shorter paths."""
    wanted = typed.lower()

    def rank(path: str) -> tuple[bool, bool, int]:
        name = path.rstrip("/").rpartition("/")[2].lower()
        return not path.lower().startswith(wanted), not name.startswith(wanted), len(path)

    return sorted((path for path in paths if wanted in path.lower()), key=rank)
