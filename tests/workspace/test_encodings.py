"""The encoding of a file is taken from its bytes, and writing the same text again makes the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.encodings import decode_text, encode_text


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        pytest.param("cp1252", "# café\nx = 1\n", id="one accent"),
        pytest.param("cp1252", "élan\n", id="an accent that could begin a kanji"),
        pytest.param("cp1252", "Ünïcödé", id="accents that could be Cyrillic"),
        pytest.param("cp1252", "# Größe der Datei, für Übergrößen\n", id="two letters side by side"),
        pytest.param("cp1252", "print('it’s “quoted” – yes, 5 €')\n", id="quotes that Latin-1 has not"),
        pytest.param("cp932", "# 日本語のコメント\nx = 1\n", id="Shift-JIS"),
        pytest.param("cp932", "/* ファイルを開く、表示 */\n", id="Shift-JIS with ASCII as second bytes"),
        pytest.param("gbk", "你好，世界\n", id="GBK, short"),
        pytest.param("gbk", "/* 打开文件 */\nint main() { return 0; }\n", id="GBK in code"),
        pytest.param("gb18030", "# 中文注释，这是一个测试 㐀\n", id="GB 18030 with four bytes"),
        pytest.param("euc_jp", "# 日本語のコメントです\n", id="EUC-JP"),
        pytest.param("euc_kr", "# 한국어 주석입니다\n", id="EUC-KR"),
        pytest.param("big5", "# 中文註解，這是一個測試\n", id="Big5"),
        pytest.param("cp1251", "// Открыть файл\n", id="Cyrillic"),
        pytest.param("iso8859-5", "# -*- coding: iso-8859-5 -*-\n# Привет\n", id="declared as Python has it"),
        pytest.param(
            "koi8-r", '<?xml version="1.0" encoding="KOI8-R"?>\n<a>да</a>', id="declared as XML has it"
        ),
        pytest.param("iso8859-15", '<meta charset="iso-8859-15">5 €', id="declared as HTML has it"),
    ],
)
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
