"""The encoding of a file is taken from its bytes, and writing the same text again makes the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.encodings import decode_text, encode_text

ENCODED = {
    "one accent": ("cp1252", "# café\nx = 1\n"),
    "an accent that could begin a kanji": ("cp1252", "élan\n"),
    "accents that could be Cyrillic": ("cp1252", "Ünïcödé"),
    "two letters side by side": ("cp1252", "# Größe der Datei, für Übergrößen\n"),
    "quotes that Latin-1 has not": ("cp1252", "print('it’s “quoted” – yes, 5 €')\n"),
    "Shift-JIS": ("cp932", "# 日本語のコメント\nx = 1\n"),
    "Shift-JIS with ASCII as second bytes": ("cp932", "/* ファイルを開く、表示 */\n"),
    "GBK, short": ("gbk", "你好，世界\n"),
    "GBK in code": ("gbk", "/* 打开文件 */\nint main() { return 0; }\n"),
    "GB 18030 with four bytes": ("gb18030", "# 中文注释，这是一个测试 㐀\n"),
    "EUC-JP": ("euc_jp", "# 日本語のコメントです\n"),
    "EUC-KR": ("euc_kr", "# 한국어 주석입니다\n"),
    "Big5": ("big5", "# 中文註解，這是一個測試\n"),
    "Cyrillic": ("cp1251", "// Открыть файл\n"),
    "declared as Python has it": ("iso8859-5", "# -*- coding: iso-8859-5 -*-\n# Привет\n"),
    "declared as XML has it": ("koi8-r", '<?xml version="1.0" encoding="KOI8-R"?>\n<a>да</a>'),
    "declared as HTML has it": ("iso8859-15", '<meta charset="iso-8859-15">5 €'),
}


@pytest.mark.parametrize(("codec", "text"), ENCODED.values(), ids=ENCODED)
def test_text_of_other_encodings(codec: str, text: str) -> None:
    raw = text.encode(codec)
    assert decode_text(raw) == (text, codec)
    assert encode_text(text, codec) == raw


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"# coding: unicode_escape\ncaf\xe9", id="a codec that does more than decode"),
        pytest.param(b"# coding: no-such\ncaf\xe9", id="a codec that is not known"),
        pytest.param(b"# coding: ascii\ncaf\xe9", id="one that does not fit"),
    ],
)
def test_a_declaration_that_cannot_be_is_ignored(raw: bytes) -> None:
    assert decode_text(raw) == (raw.decode("latin-1"), "cp1252")


@given(st.binary(max_size=200))
def test_whatever_is_decoded_is_encoded_to_the_same_bytes(raw: bytes) -> None:
    decoded = decode_text(raw)
    assert decoded is None or encode_text(*decoded) == raw
