"""Whatever a server answers comes out in the shape that was asked for."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.mcp.sanitize import (
    describe_block,
    is_sendable_schema,
    sanitize_listing,
    sanitize_result,
    sanitize_schema,
    sanitize_tool,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@pytest.fixture(scope="module")
def mcp_types() -> Any:
    """The types of the package, which no module imports before its tests run: that takes a second."""
    return pytest.importorskip("mcp_types", reason="the extra `mcp` is not installed")


def one_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return objects with some of *fields*, each as it should be or as anything."""
    return st.fixed_dictionaries({}, optional={name: of | JSON for name, of in fields.items()}) | JSON


SCHEMAS = one_of(type=st.just("object"), properties=st.dictionaries(st.text(max_size=4), JSON), anyOf=JSON)
HINTS = one_of(title=st.text(), readOnlyHint=st.booleans(), openWorldHint=st.booleans())
TOOLS = one_of(
    name=st.text(max_size=4), title=st.text(), description=st.text(), inputSchema=SCHEMAS, annotations=HINTS
)
BLOCKS = one_of(
    type=st.sampled_from(["text", "image", "audio", "resource_link", "resource"]),
    text=st.text(),
    data=st.text(),
    mimeType=st.text(),
    uri=st.text(),
    name=st.text(),
    resource=one_of(uri=st.text(), text=st.text(), blob=st.text()),
)
PNG = base64.b64encode(b"12345").decode()


def check(block: Any, text: str) -> None:
    mended = sanitize_result({"content": [block]})
    described, *images = mended["content"]
    assert described == {"type": "text", "text": text}
    assert [each["data"] for each in images] == ([PNG] if text.startswith("[image") else [])


@pytest.mark.parametrize(
    ("block", "text"),
    [
        pytest.param({"type": "text", "text": "hi"}, "hi", id="text is text"),
        pytest.param(
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            "[image image/png, 5 bytes]",
            id="a picture is described",
        ),
        pytest.param({"type": "audio", "data": PNG}, "[audio, 5 bytes, not shown]", id="and a sound"),
        pytest.param(
            {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A"},
            "[resource A file:///a]",
            id="a link is named",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}},
            "[resource file:///a]\nhi",
            id="a resource of text is shown",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "x:a", "blob": PNG, "mimeType": "a/b"}},
            "[resource x:a a/b, 5 bytes, not shown]",
            id="one of bytes is described",
        ),
        pytest.param(
            {"type": "dance", "steps": 2}, '{"type": "dance", "steps": 2}', id="what is new is shown raw"
        ),
        pytest.param("hi", "hi", id="text without its wrapping"),
    ],
)
def test_a_block_becomes_text(block: Any, text: str) -> None:
    check(block, text)
    assert describe_block(block) == text


@pytest.mark.parametrize(
    ("raw", "text", "is_error"),
    [
        pytest.param({}, "", False, id="nothing"),
        pytest.param({"content": None, "isError": True}, "", True, id="an error without words"),
        pytest.param({"content": [], "structuredContent": {"n": 1}}, '{"n": 1}', False, id="data alone"),
        pytest.param(
            {"content": [{"type": "text", "text": "n"}], "structuredContent": {"n": 1}},
            "n",
            False,
            id="data is not shown twice",
        ),
        pytest.param({"content": 7, "isError": "yes"}, "", False, id="only true is an error"),
    ],
)
def test_a_result_becomes_one_text(raw: dict[str, Any], text: str, is_error: bool) -> None:
    assert sanitize_result(raw) == {"content": [{"type": "text", "text": text}], "isError": is_error}


def test_an_answer_that_is_no_end_is_left_alone() -> None:
    asks = {"resultType": "input_required", "inputRequests": {}}
    assert sanitize_result(asks) == asks
    assert sanitize_result({"resultType": "complete", "content": []})["resultType"] == "complete"


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(100):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
ANYTHING = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "usable"),
    [
        pytest.param(None, ANYTHING, id="none"),
        pytest.param({"type": "string"}, ANYTHING, id="of something else"),
        pytest.param({"properties": {"a": True, "b": {"type": "null"}}},
                     {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}}, id="without a type"),
        pytest.param({"type": "object", "required": ["a", 7], "$defs": {"x": {}}},
                     {"type": "object", "properties": {}, "required": ["a"], "$defs": {"x": {}}},
                     id="definitions stay"),
        pytest.param({"type": "object", "required": None, "anyOf": [{}], "$schema": "x"}, ANYTHING,
                     id="what providers refuse goes"),
        pytest.param(DEEP, ANYTHING, id="too deep"),
        pytest.param({"type": "object", "description": "x" * 70_000}, ANYTHING, id="too long"),
        pytest.param({"type": "object", "default": float("nan")}, ANYTHING, id="a number JSON has not"),
    ],
)  # fmt: skip
def test_usable_schema(schema: Any, usable: dict[str, Any]) -> None:
    assert sanitize_schema(schema) == usable


@given(SCHEMAS)
def test_a_usable_schema_is_one_of_an_object_and_stays_so(schema: Any) -> None:
    usable = sanitize_schema(schema)
    assert usable["type"] == "object"
    assert all(isinstance(value, dict) for value in usable["properties"].values())
    msgspec.json.encode(usable)
    assert sanitize_schema(usable) == usable


@given(
    one_of(tools=st.lists(TOOLS, max_size=4), nextCursor=st.text(max_size=2)).filter(
        lambda raw: type(raw) is dict
    )
)
def test_whatever_is_listed_the_package_takes(mcp_types: Any, raw: dict[str, Any]) -> None:
    mended = sanitize_listing({key: value for key, value in raw.items() if key in ("tools", "nextCursor")})
    listed = mcp_types.ListToolsResult.model_validate(mended, by_name=False)
    names = [tool.name for tool in listed.tools]
    assert len(set(names)) == len(names)
    assert all(names)


@given(
    one_of(content=st.lists(BLOCKS, max_size=4), isError=st.booleans()).filter(lambda raw: type(raw) is dict)
)
def test_whatever_is_answered_the_package_takes(mcp_types: Any, raw: dict[str, Any]) -> None:
    mended = sanitize_result({key: value for key, value in raw.items() if key in ("content", "isError")})
    block, *images = mcp_types.CallToolResult.model_validate(mended, by_name=False).content
    assert isinstance(block.text, str)
    assert all(isinstance(image.data, str) for image in images)


def test_a_schema_is_sent_unless_it_is_huge_or_deep_or_not_finite() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    refused = (deep, {"a": "x" * 70_000}, {"a": float("nan")})
    assert [is_sendable_schema(each) for each in refused] == [False] * 3
    assert is_sendable_schema({"type": "object"})


def test_a_tool_keeps_its_sound_texts_and_hints() -> None:
    hints = {"readOnlyHint": True, "openWorldHint": "no", "title": 7}
    assert sanitize_tool({"name": "a", "title": 7, "description": "d", "annotations": hints}) == {
        "name": "a",
        "description": "d",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    }
