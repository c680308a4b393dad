"""Images for a prompt: a path that was pasted or dropped, and the image on the clipboard.

A terminal pastes text alone. A dropped file comes as its path, quoted in one of several ways. An image on the
clipboard is fetched by the system's own program, which not every machine has.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from sidecar.workspace.paths import uri_to_path

SUFFIXES: Final = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp"))
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
    path = uri_to_path(text) if text.startswith("file:") else folder / os.path.expanduser(text)
    try:
        is_image = path is not None and path.suffix.lower() in SUFFIXES and os.path.isfile(path)
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
