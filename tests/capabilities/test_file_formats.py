"""Images, documents and notebooks, as the read tool shows them."""

from __future__ import annotations

import base64
import io
import json
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from sidecar.capabilities.read import READ

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


def picture(width: int, height: int, *, kind: str = "PNG", mode: str = "RGB", noise: bool = False) -> bytes:
    size = width * height * len(mode)
    raw = random.Random(1).randbytes(size) if noise else b"\x80" * size
    file = io.BytesIO()
    Image.frombytes(mode, (width, height), raw).save(file, kind)
    return file.getvalue()


def document(*pages: str) -> bytes:
    """Return a PDF document with one line of text on each page."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", ""]
    kids: list[str] = []
    for text in pages:
        body = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        kids.append(f"{len(objects) + 1} 0 R")
        number = len(objects) + 2
        font = "<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        objects += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources{font}/Contents {number} 0 R>>",
            f"<</Length {len(body)}>>stream\n{body}\nendstream",
        ]
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(pages)}>>"
    out, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj{each}endobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


class TestImages:
    """A model that sees is shown the image; any other is told of it."""

    async def test_a_small_image_is_shown_as_it_is(self, desk: Desk) -> None:
        desk.sees_images = True
        raw = picture(40, 30)
        desk.put("a.png", raw)
        reply = await desk.run(READ, path="a.png")
        assert reply.output == f"[a.png is an image (png) of {len(raw)} bytes, not text, shown below]"
        (image,) = reply.images
        assert (image.media_type, base64.b64decode(image.data_base64)) == ("image/png", raw)

    @pytest.mark.parametrize(
        ("kind", "mode", "noise", "sent_as"),
        [("JPEG", "RGB", False, "PNG"), ("PNG", "RGBA", False, "PNG"), ("PNG", "RGB", True, "JPEG")],
    )
    async def test_a_large_one_is_made_smaller(
        self, desk: Desk, kind: str, mode: str, noise: bool, sent_as: str
    ) -> None:
        desk.sees_images = True
        desk.put("a", picture(1600, 800, kind=kind, mode=mode, noise=noise))
        (image,) = (await desk.run(READ, path="a")).images
        with Image.open(io.BytesIO(base64.b64decode(image.data_base64))) as shown:
            assert (shown.size, shown.format) == ((1568, 784), sent_as)
        assert len(image.data_base64) < 2_000_000

    async def test_without_the_extra_small_ones_are_sent_and_large_ones_named(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.sees_images = True
        desk.put("small.png", picture(4, 4))
        desk.put("large.png", picture(1000, 1000, noise=True))
        monkeypatch.setitem(sys.modules, "PIL", None)
        assert len((await desk.run(READ, path="small.png")).images) == 1
        reply = await desk.run(READ, path="large.png")
        assert "install Pillow to make it smaller: " in reply.output
        assert "[images]" in reply.output
        assert reply.images == ()

    async def test_a_broken_one_is_not_sent(self, desk: Desk) -> None:
        desk.sees_images = True
        desk.put("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\0 and no more")
        reply = await desk.run(READ, path="a.png")
        assert "it cannot be decoded (" in reply.output
        assert (reply.images, reply.is_error) == ((), False)


class TestDocuments:
    """A PDF document is read by page."""

    async def test_pages_are_numbered_and_offset_counts_them(self, desk: Desk) -> None:
        desk.put("a.pdf", document("Hello", "World", "Bye"))
        assert await desk.output(READ, path="a.pdf") == "[page 1]\nHello\n[page 2]\nWorld\n[page 3]\nBye"
        shown = await desk.output(READ, path="a.pdf", offset=2, limit=1)
        assert shown == "[page 2]\nWorld\n[cut: pages 2-2 of 3; read with offset=3 for more]"
        assert "has no page 9, it has 3" in await desk.failure(READ, path="a.pdf", offset=9)

    async def test_output_is_bounded(self, desk: Desk) -> None:
        desk.max_output_chars = 500
        desk.put("a.pdf", document(*("word " * 40 for _ in range(5))))
        output = await desk.output(READ, path="a.pdf")
        assert len(output) <= 500
        assert output.endswith("of 5; read with offset=2 for more]")

    async def test_a_broken_one_is_an_error(self, desk: Desk) -> None:
        desk.put("a.pdf", b"%PDF-1.4\nnothing")
        assert "cannot read this PDF document" in await desk.failure(READ, path="a.pdf")

    async def test_without_the_extra_the_reply_says_what_to_install(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.put("a.pdf", document("Hello"))
        monkeypatch.setitem(sys.modules, "pypdf", None)
        assert "[pdf]" in await desk.failure(READ, path="a.pdf")


class TestNotebooks:
    """A notebook is read by cell, its outputs in bounds."""

    def notebook(self) -> str:
        outputs: list[dict[str, Any]] = [
            {"output_type": "stream", "text": ["42\n"]},
            {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
            {"output_type": "error", "traceback": ["x" * 5000]},
        ]
        cells = [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {"cell_type": "code", "source": "print(42)", "outputs": outputs},
        ]
        return json.dumps({"cells": cells, "nbformat": 4})

    async def test_cells_with_their_outputs(self, desk: Desk) -> None:
        desk.put("a.ipynb", self.notebook())
        output = await desk.output(READ, path="a.ipynb")
        assert output.startswith(
            "[cell 1]\n[markdown]\n# Title\ntext\n[cell 2]\nprint(42)\n[output]\n42\n"
            "[output, image/png]\n<Figure>\n[output, error]\nxxx"
        )
        assert "[cut: 2000 of 5000 characters]" in output
        assert desk.reads.get(desk.root / "a.ipynb") is None
        assert "[cut: cells 1-1 of 2" in await desk.output(READ, path="a.ipynb", limit=1)

    async def test_its_text_can_be_read_too_and_counts_as_read(self, desk: Desk) -> None:
        desk.put("a.ipynb", self.notebook())
        assert (await desk.output(READ, path="a.ipynb", raw=True)).startswith('     1\t{"cells"')
        assert desk.reads.get(desk.root / "a.ipynb") is not None

    @pytest.mark.parametrize("text", ["[]", "{", '{"cells": [{}]}', '{"cells": 7}'])
    async def test_what_is_none_is_refused_with_the_way_out(self, desk: Desk, text: str) -> None:
        desk.put("a.ipynb", text)
        assert "read it with raw=true" in await desk.failure(READ, path="a.ipynb")
