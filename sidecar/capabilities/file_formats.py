"""Files that are not plain text, as a model can read them: images, PDF documents and notebooks.

Images are made smaller by Pillow and documents are read by pypdf, where the extras are installed; without
them an answer names the command that installs them. Nothing here follows a link or runs anything that a file
holds. All of it works in worker threads, in bounded time.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar._internal.loading import install_command
from sidecar._internal.values import Value
from sidecar.capabilities.output import cut_line
from sidecar.llmgateway.contract import ImageBlock
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import open_regular, read_bytes

_IMAGE_MARKS: Final = (
    (b"\x89PNG\r\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"RIFF", "webp"),
)
_MOST_PIXELS: Final = 1568
"""The width or height beyond which models make an image smaller themselves."""

_MOST_SENT_BYTES: Final = 1_000_000
_MOST_IMAGE_BYTES: Final = 50_000_000
_MOST_PDF_BYTES: Final = 50_000_000
_PDF_S: Final = 15.0
_OUTPUT_CHARS: Final = 2000
"""Characters of the output of one cell that are shown."""


class ImageFile(Value):
    """An image: its format and its size."""

    kind: str
    n_bytes: int

    def describe(self) -> str:
        """Return the image in words."""
        return f"an image ({self.kind}) of {self.n_bytes} bytes, not text"


class Pages(Value):
    """Parts of a document, pages or cells: the texts from number *first* on, and the number of all parts."""

    texts: tuple[str, ...]
    first: int
    n_all: int


def look_at_image(path: Path) -> ImageFile | None:
    """Return the image at the resolved *path*, by its first bytes; None for anything else."""
    with open_regular(path, follow_links=False) as file:
        head = file.read(12)
        n_bytes = file.seek(0, io.SEEK_END)
    kind = kind_of_image(head)
    return None if kind is None else ImageFile(kind, n_bytes)


def kind_of_image(head: bytes) -> str | None:
    """Return the format of an image by its first 12 bytes, None for anything else."""
    kind = next((name for mark, name in _IMAGE_MARKS if head.startswith(mark)), None)
    return None if kind == "webp" and head[8:] != b"WEBP" else kind


def load_image(path: Path, image: ImageFile) -> ImageBlock | str:
    """Return the *image* at *path*, made smaller where it must be, or the reason why it cannot be shown."""
    if image.n_bytes > _MOST_IMAGE_BYTES:
        return f"the limit is {_MOST_IMAGE_BYTES} bytes"
    return fit_image(read_bytes(path, _MOST_IMAGE_BYTES, follow_links=False), image.kind)


def decode_image(data: str) -> ImageBlock | str:
    """Return the image in the base64 *data* of a tool server, fitted, or why it cannot be shown."""
    try:
        raw = base64.b64decode(data[: 2 * _MOST_IMAGE_BYTES], validate=True)
    except ValueError:
        return "it is not base64"
    kind = kind_of_image(raw[:12])
    return "its format is not known" if kind is None else fit_image(raw, kind)


def fit_image(raw: bytes, kind: str) -> ImageBlock | str:
    """Return an image of *kind*, made smaller where it must be, or the reason why it cannot be shown."""
    try:
        from PIL import Image  # an extra, and slow to import
    except ImportError:
        if len(raw) > _MOST_SENT_BYTES:
            return f"install Pillow to make it smaller: {install_command('images')}"
    else:
        try:
            with Image.open(io.BytesIO(raw), formats=["PNG", "JPEG", "GIF", "WEBP"]) as opened:
                if max(opened.size) > _MOST_PIXELS or len(raw) > _MOST_SENT_BYTES:
                    opened.thumbnail((_MOST_PIXELS, _MOST_PIXELS))
                    raw, kind = encode_image(opened)
        except Exception as error:  # whatever a decoder raises for a broken file, or one that is a bomb
            return f"it cannot be decoded ({type(error).__name__})"
    return ImageBlock(f"image/{kind}", base64.b64encode(raw).decode())


def encode_image(image: Any) -> tuple[bytes, str]:
    """Return a Pillow *image* as bytes and their format: PNG, or JPEG where that is much smaller."""
    has_palette_or_alpha = image.mode in ("P", "RGBA", "LA", "PA")
    png = io.BytesIO()
    (image.convert("RGBA") if has_palette_or_alpha else image).save(png, "PNG", optimize=True)
    if png.tell() <= _MOST_SENT_BYTES:
        return png.getvalue(), "png"
    jpeg = io.BytesIO()
    image.convert("RGB").save(jpeg, "JPEG", quality=80)
    return jpeg.getvalue(), "jpeg"


def is_pdf(path: Path) -> bool:
    """Whether the file at the resolved *path* is a PDF document, by its first bytes."""
    with open_regular(path, follow_links=False) as file:
        return file.read(5) == b"%PDF-"


def read_pdf(
    path: Path, *, first: int, limit: int, cap_chars: int, is_cancelled: Callable[[], bool]
) -> Pages:
    """Return the text of the pages of a document.

    Args:
        path: the file, resolved.
        first: the first page, from 1.
        limit: how many pages at most.
        cap_chars: how many characters at most, but for the first page.
        is_cancelled: ends the work between two pages.

    Raises:
        FileAccessError: it is too large, broken or encrypted, or the extra is not installed.
    """
    try:
        import pypdf  # an extra, and slow to import
    except ImportError:
        hint = f"install what reads it: {install_command('pdf')}"
        raise FileAccessError("binary", "it is a PDF document", hint=hint) from None
    raw = read_bytes(path, _MOST_PDF_BYTES, follow_links=False)
    ends_at = time.monotonic() + _PDF_S
    texts: list[str] = []
    try:
        document = pypdf.PdfReader(io.BytesIO(raw))
        n_all = len(document.pages)
        for page in range(first - 1, min(n_all, first - 1 + limit)):
            texts.append(document.pages[page].extract_text().strip())
            if is_cancelled() or time.monotonic() > ends_at or sum(map(len, texts)) > cap_chars:
                break
    except Exception as error:  # whatever it raises for a broken or an encrypted document
        message = f"cannot read this PDF document ({type(error).__name__})"
        raise FileAccessError("binary", message, hint="look at it with a command for its format") from error
    return Pages(tuple(texts), first, n_all)


def read_notebook(text: str, *, first: int, limit: int) -> Pages:
    """Return the cells of a Jupyter notebook with their outputs, from cell *first* (from 1), *limit* at most.

    Raises InvalidInput for a text that is no notebook.

    >>> read_notebook('{"cells": [{"cell_type": "code", "source": ["x = 1"]}]}', first=1, limit=9).texts
    ('x = 1',)
    """
    try:
        cells = json.loads(text)["cells"]
        shown = tuple("\n".join(show_cell(cell)) for cell in cells[first - 1 : first - 1 + limit])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "read it with raw=true, as the JSON that it is"
        raise InvalidInput("it is not a notebook that can be read", hint=hint) from error
    return Pages(shown, first, len(cells))


def show_cell(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the source of a cell and its outputs, those in bounds."""
    if cell["cell_type"] != "code":
        yield f"[{cell['cell_type']}]"
    yield join_lines(cell["source"])
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        text = join_lines(output.get("text") or data.get("text/plain") or output.get("traceback") or "")
        shape = [kind for kind in data if kind.startswith("image/")]
        yield f"[output{', error' if output['output_type'] == 'error' else ''}{', '.join(['', *shape])}]"
        if text:
            yield cut_line(text.strip("\n"), _OUTPUT_CHARS)


def join_lines(text: str | list[str]) -> str:
    """Return a text of a notebook, which may stand there as a list of lines."""
    return text if isinstance(text, str) else "".join(text)
