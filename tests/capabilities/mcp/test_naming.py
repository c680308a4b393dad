"""Names of tools: taken by every provider, and never two alike."""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.mcp import mending, naming
from sidecar.capabilities.mcp.naming import server_slugs, tool_names

TAKEN_BY_ALL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@pytest.mark.parametrize("module", [naming, mending])
def test_the_examples_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]  # typeshed wants to know better


@pytest.mark.parametrize(
    ("names", "slugs"),
    [
        pytest.param(["git"], ("git",), id="a plain name stays"),
        pytest.param(["a__b", "_c_"], ("a_b", "c"), id="no two underscores, none at the ends"),
        pytest.param(["x" * 99], ("x" * 24,), id="a long one is cut"),
        pytest.param(["a", "a", "a"], ("a", "a_2", "a_3"), id="clashing ones are counted"),
        pytest.param(["", "文"], ("server", "server_2"), id="one that has no letter we know is a server"),
    ],
)
def test_server_slugs(names: list[str], slugs: tuple[str, ...]) -> None:
    assert server_slugs(names) == slugs


def test_a_long_tool_name_is_cut_and_marked() -> None:
    (name,) = tool_names("fs", ["n" * 99])
    assert (len(name), name[:20]) == (64, "mcp__fs__nnnnnnnnnnn")


@given(
    st.dictionaries(st.text(max_size=30), st.lists(st.text(max_size=80), unique=True, max_size=6), max_size=5)
)
def test_every_name_is_taken_by_every_provider_and_unique(servers: dict[str, list[str]]) -> None:
    slugs = server_slugs(servers)
    names = [
        name for slug, tools in zip(slugs, servers.values(), strict=True) for name in tool_names(slug, tools)
    ]
    assert len(names) == sum(map(len, servers.values()))
    assert len(set(names)) == len(names)
    assert all(TAKEN_BY_ALL.fullmatch(name) for name in names)
