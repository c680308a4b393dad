"""The encoding of a text file: declared by a mark or in its first lines, UTF-8, or guessed from its bytes.

A file of an older project may be in Windows-1252, Shift-JIS or GBK, and nothing but its bytes says so. Every
decoded text is encoded to the same bytes again, so that an edit changes no byte outside of its passage even
where the guess is wrong.

The rules, in order:

1. A byte order mark decides.
2. Bytes that are valid UTF-8 are UTF-8; other text does not pass for it by chance.
3. With a zero byte or another control character it is not text.
4. A declaration in the first kilobyte decides, as editors and compilers know it: ``coding: NAME``,
   ``charset=NAME`` or ``encoding="NAME"``.
5. Bytes above ASCII that each stand alone between ASCII, as ``é`` does in ``café``, are Windows-1252, the
   superset of Latin-1. East Asian characters take two such bytes, and Russian words many.
6. ``charset-normalizer`` chooses among the common encodings, by how little the text looks like noise. Short
   texts often leave several; then GBK is taken where all characters are among the 6,763 of GB 2312 and none
   is Japanese kana.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SNIFFED: Final = 8192
_DECLARATION: Final = re.compile(rb"(?:\bcoding[:=]|\b(?:charset|encoding)\s*=)\s*[\"']?([-\w]+)")
_DECLARATION_BYTES: Final = 1024
_DECLARABLE: Final = ("iso8859", "cp", "koi8", "mac-", "shift_jis", "euc_", "gb", "big5")
"""The first letters of the codecs that a declaration may name; some of Python's do more than decode."""

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NOT_ALONE: Final = re.compile(rb"[\x80-\xff]{2}|[\x81-\x84\x86-\x90\x98-\x9f]")
_GUESSES: Final = (
    *("cp1252", "cp932", "gb18030", "euc_jp", "euc_kr", "big5"),
    *("cp1251", "koi8_r", "iso8859_2"),
)
_KANA: Final = re.compile("[\u3041-\u30ff]")


def decode_text(raw: bytes) -> tuple[str, str] | None:
    """Return the text of *raw* without its mark, and the name of its codec; None for bytes that are not text.

    >>> decode_text("café".encode()), decode_text("café".encode("latin-1"))
    (('café', 'utf-8'), ('café', 'cp1252'))
    """
    codec = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = (raw[2:] if codec.startswith("utf-16") else raw).decode(codec)
        return None if "\0" in text[:_SNIFFED] else (text, codec)
    except UnicodeDecodeError:
        if codec != "utf-8" or _CONTROL.search(raw):
            return None
    for find_codec in (find_declared_codec, guess_codec):
        found = find_codec(raw)
        if found is not None and (decoded := _decode_exactly(raw, found)) is not None:
            return decoded, found
    return None


def encode_text(text: str, codec: str) -> bytes:
    """Return the bytes of *text* on disk, its mark included. Raises UnicodeEncodeError."""
    mark = next((mark for mark, name in _MARKS if name == codec and codec != "utf-8-sig"), b"")
    return mark + text.encode(codec)


def _decode_exactly(raw: bytes, codec: str) -> str | None:
    """Return *raw* in *codec*, None unless it is encoded to the same bytes again."""
    try:
        text = raw.decode(codec)
        return text if text.encode(codec) == raw else None
    except UnicodeError:
        return None


def find_declared_codec(raw: bytes) -> str | None:
    """Return the name of the codec that the first lines of *raw* declare; None for none that is known.

    >>> find_declared_codec(b"# -*- coding: latin-1 -*-"), find_declared_codec(b"# coding: rot13")
    ('iso8859-1', None)
    """
    found = _DECLARATION.search(raw, 0, _DECLARATION_BYTES)
    try:
        name = codecs.lookup(found[1].decode("ascii")).name if found else ""
    except LookupError:
        return None
    return name if name.startswith(_DECLARABLE) else None


def guess_codec(raw: bytes) -> str | None:
    """Return the most likely codec of *raw*, which is neither UTF-8 nor binary; None for none."""
    if not _NOT_ALONE.search(raw):
        return "cp1252"
    from charset_normalizer import from_bytes

    matches = from_bytes(raw, cp_isolation=[*_GUESSES])
    best = matches.best()
    if best is None:
        return None
    likely = [
        each.encoding for each in matches if (each.chaos, each.coherence) == (best.chaos, best.coherence)
    ]
    chinese = _decode_exactly(raw, "gb2312") if "gb18030" in likely else None
    if chinese is not None and not _KANA.search(chinese):
        return "gbk"
    # The readers of a file in GBK, the part of GB 18030 with two bytes, need not know the rest.
    return "gbk" if best.encoding == "gb18030" and _decode_exactly(raw, "gbk") is not None else best.encoding
