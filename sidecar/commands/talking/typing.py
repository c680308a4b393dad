"""Help with typing a prompt: completion, the history, and images.

An image is named in the prompt, or pasted. A terminal pastes text alone: a dropped file comes as its path,
quoted in one of several ways. An image on the clipboard is fetched by the system's own program, which not
every machine has.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from sidecar._internal.env import expand_home
from sidecar._internal.secrets import mask_secrets
from sidecar._internal.state_folder import make_private_folder
from sidecar.commands.talking.actions import Actions
from sidecar.workspace.paths import uri_to_path
from sidecar_client import SidecarClientError

_MOST_OFFERED: Final = 40
_HISTORY_BYTES: Final = 1_000_000
_IMAGE_BYTES: Final = 5_000_000
_IMAGES: Final = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"} | {
    ".gif": "image/gif"
}
_MENTIONS: Final = re.compile(r"""(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S*[^\s,;:.)]))""")


_PROGRAMS: Final = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
_WINDOWS: Final = (
    "powershell",
    "-NoProfile",
    "-Command",
    """$i = Get-Clipboard -Format Image; $o = [Console]::OpenStandardOutput();
    if ($i) { $m = New-Object IO.MemoryStream; $i.Save($m, 'Png'); $m.WriteTo($o); $o.Flush() }""",
)
_FETCH_S: Final = 5.0


class ChatCompleter(Completer):
    """Completes prompts by asking the daemon."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def get_completions(self, _document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing. For prompt_toolkit, which asks :meth:`get_completions_async`."""
        return ()

    async def get_completions_async(
        self, document: Document, _event: CompleteEvent
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
        path = folder / expand_home(quoted or name)
        if path.suffix.lower() in _IMAGES and os.path.isfile(path) and path.stat().st_size <= _IMAGE_BYTES:
            data = base64.b64encode(path.read_bytes()).decode()
            image = {"mimeType": _IMAGES[path.suffix.lower()], "data": data, "uri": path.resolve().as_uri()}
            blocks.append({"type": "image", **image})
    return blocks


def find_image(pasted: str, folder: Path) -> Path | None:
    """Return the image that *pasted* is the path of, in any of the ways in which terminals paste a file.

    >>> find_image("'/no/such shot.png'", Path("/")) is None
    True
    """
    text = pasted.strip()
    if "\n" in text or not text:
        return None
    if text[0] in "'\"" and text[-1] == text[0] and len(text) > 1:
        text = text[1:-1]
    elif os.name == "posix":
        text = re.sub(r"\\(.)", r"\1", text)
    path = uri_to_path(text) if text.startswith("file:") else folder / expand_home(text)
    try:
        is_image = path is not None and path.suffix.lower() in _IMAGES and os.path.isfile(path)
    except (OSError, ValueError):  # a text that no path can be
        return None
    return path if is_image else None


class PastedImages:
    """The images of one conversation that had to be written to files; they go with :meth:`remove`."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._n_written = 0

    def mention(self, image: Path) -> str:
        """Return the words that name *image* in a prompt; one with a blank in its path is copied first."""
        if re.search(r"\s", str(image)):
            image = Path(shutil.copyfile(image, self.next_path(image.suffix)))
        return f"@{image}"

    async def fetch(self) -> Path | None:
        """Return the image on the clipboard as a file; None without an image, or a program that has it."""
        programs = (
            [_WINDOWS] if sys.platform == "win32" else [each for each in _PROGRAMS if shutil.which(each[0])]
        )
        for program in programs:
            found = await output_of(program)
            if found.startswith(b"\x89PNG"):
                path = self.next_path(".png")
                await asyncio.to_thread(path.write_bytes, found)
                return path
        return None

    def next_path(self, suffix: str) -> Path:
        """Return the path of a new file, in a folder that only the user can read."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sidecar-"))
        self._n_written += 1
        return self._folder / f"image-{self._n_written}{suffix.lower()}"

    def remove(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


async def output_of(program: tuple[str, ...]) -> bytes:
    """Return the output of *program*, empty when it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return b""
    try:
        async with asyncio.timeout(_FETCH_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return b""
    return output if process.returncode == 0 else b""
