"""How large an image is, read from its first bytes. Pure; nothing is decoded or drawn."""

from __future__ import annotations

import binascii
import struct
from typing import Final

from sidecar.llmgateway.contract import ImageBlock

__all__ = ["image_bytes", "image_size"]

_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def image_bytes(image: ImageBlock) -> bytes | None:
    """Return the bytes of *image*, None when it is not base64.

    >>> image_bytes(ImageBlock("image/png", "aGk=")), image_bytes(ImageBlock("image/png", "?"))
    (b'hi', None)
    """
    try:
        return binascii.a2b_base64(image.data_base64, strict_mode=True) or None
    except (binascii.Error, ValueError):
        return None


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, None for a format that is none of PNG, GIF, JPEG, WebP.

    >>> image_size(b"GIF89a" + (640).to_bytes(2, "little") + (480).to_bytes(2, "little"))
    (640, 480)
    """
    try:
        if data.startswith(b"\x89PNG"):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith(b"GIF8"):
            width, height = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"\xff\xd8"):
            return _jpeg_size(data)
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    form = data[12:16]
    if form == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    return None
