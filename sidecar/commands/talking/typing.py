"""Help with typing a prompt: completion, images that it names, and the history."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from sidecar._internal.secrets import mask_secrets
from sidecar._internal.state_folder import make_private_folder
from sidecar.commands.talking.actions import OWN_COMMANDS, Actions
from sidecar_client import SidecarClientError

_MOST_OFFERED: Final = 40
_HISTORY_BYTES: Final = 1_000_000
_IMAGE_BYTES: Final = 5_000_000
_IMAGES: Final = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"} | {
    ".gif": "image/gif"
}
_MENTIONS: Final = re.compile(r"""(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S*[^\s,;:.)]))""")


class ChatCompleter(Completer):
    """Completes prompts by asking the daemon, and the commands that only the terminal has."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        """Yield the terminal's own commands that begin with the text before the cursor."""
        before = document.text_before_cursor
        for name, text in OWN_COMMANDS.items() if before.startswith("/") else ():
            if f"/{name}".startswith(before):
                yield Completion(f"/{name}", -len(before), display_meta=text)

    async def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions of the text before the cursor. For prompt_toolkit."""
        before = document.text_before_cursor
        sid = self._actions.session.sid or None
        with suppress(SidecarClientError):  # without a daemon, or before it is there
            done = await self._actions.client.complete(
                before,
                len(before),
                sid=sid,
                cwd=str(self._actions.folder),
                encoding="utf-32",
                limit=_MOST_OFFERED,
            )
            for item in done.items:
                start = item.start - len(before)
                yield Completion(item.insert_text, start, display=item.label, display_meta=item.detail or "")
        for own in self.get_completions(document, event):
            yield own


class _MaskedHistory(FileHistory):
    def store_string(self, string: str) -> None:
        super().store_string(mask_secrets(string))


def open_history(home: Path, folder: Path) -> FileHistory:
    """Return the prompts that were typed in *folder*; of a long history the older half is dropped."""
    histories = home / "history"
    make_private_folder(histories)
    path = histories / sha256(str(folder).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    if os.path.isfile(path) and path.stat().st_size > _HISTORY_BYTES:
        kept = path.read_bytes()[-_HISTORY_BYTES // 2 :]
        path.write_bytes(kept[kept.find(b"\n# ") + 1 :])
    return _MaskedHistory(str(path))


def read_prompt(text: str, folder: Path) -> Sequence[Mapping[str, Any]]:
    """Return *text* as content blocks, with one more for each image that it names as ``@path``.

    The daemon reads the other files that a prompt mentions; an image may lie outside of the folder.
    """
    blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
    for quoted, name in dict.fromkeys(_MENTIONS.findall(text)):
        path = folder / Path(quoted or name).expanduser()
        if path.suffix.lower() in _IMAGES and os.path.isfile(path) and path.stat().st_size <= _IMAGE_BYTES:
            data = base64.b64encode(path.read_bytes()).decode()
            image = {"mimeType": _IMAGES[path.suffix.lower()], "data": data, "uri": path.resolve().as_uri()}
            blocks.append({"type": "image", **image})
    return blocks
