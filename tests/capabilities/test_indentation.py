"""Indentation carried over by a table, a level or a shift, and never by a guess."""

from __future__ import annotations

import pytest

from sidecar.capabilities.indentation import map_indents


@pytest.mark.parametrize(
    ("pairs", "indents", "mapped"),
    [
        pytest.param([("", ""), ("  ", "\t")], ["  ", "    "], ["\t", "\t\t"], id="tabs for levels of two"),
        pytest.param([("\t", "    ")], ["\t", "\t\t"], ["    ", "        "], id="levels of the file's size"),
        pytest.param([("    ", "  ")], ["", "    "], None, id="further left than the file"),
        pytest.param([("", "    "), ("    ", "        ")], ["      "], ["          "], id="shifted right"),
        pytest.param([("        ", "    ")], ["        ", ""], ["    ", ""], id="shifted left"),
        pytest.param([("  ", "\t"), ("  ", "\t\t")], ["  "], None, id="two for one"),
        pytest.param([(" \t", "\t")], [" \t\t", "\t"], None, id="mixed"),
        pytest.param([("", "  "), ("  ", "  ")], ["", "  ", "    "], ["  ", "  ", "    "], id="cut"),
    ],
)  # fmt: skip
def test_indents(pairs: list[tuple[str, str]], indents: list[str], mapped: list[str] | None) -> None:
    assert map_indents(pairs, indents, ["", "    ", "        "]) == mapped
