"""Prompts as clients write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.content import content_to_prompt, prompt_title, turn_content
from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    join_texts,
)
from turns import assistant, user


@pytest.mark.parametrize(
    ("item", "block"),
    [
        pytest.param({"type": "text", "text": "hi"}, TextBlock("hi"), id="text"),
        pytest.param(
            {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
            TextBlock("[a.py](file:///a.py)"),
            id="a link stays a mention",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "file:///a", "text": "body"}},
            TextBlock('<attached uri="file:///a">\nbody\n</attached>'),
            id="an embedded text",
        ),
        pytest.param(
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA=="}},
            TextBlock("[attached file, not text](file:///a)"),
            id="an embedded blob is named",
        ),
        pytest.param(
            {"type": "image", "mimeType": "image/png", "data": "AA=="},
            ImageBlock("image/png", "AA=="),
            id="image",
        ),
    ],
)
def test_content_to_prompt(item: Mapping[str, Any], block: Block) -> None:
    assert content_to_prompt((item,)) == (block,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param((), "the prompt is empty", id="nothing"),
        pytest.param(({"type": "text", "text": " \n"},), "the prompt has no text", id="blank"),
        pytest.param(({"type": "video"},), "input[0]: unknown type 'video'", id="unknown type"),
        pytest.param(({"type": "text"},), "input[0].text must be a string, found nothing", id="missing text"),
        pytest.param(
            ({"type": "image", "mimeType": "image/png", "data": "no base64!"},),
            "input[0].data is not valid base64",
            id="an image that is not base64",
        ),
        pytest.param(
            ({"type": "text", "text": "a"}, {"type": "resource", "resource": 3}),
            "input[1].resource must be an object with uri and text",
            id="malformed resource",
        ),
    ],
)
def test_a_refusal_names_the_place_in_the_content(
    content: tuple[Mapping[str, Any], ...], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        content_to_prompt(content)
    assert caught.value.message == message


LINK = {"type": "resource_link", "uri": "file:///x/a.py", "name": "a.py"}
FILE = {"type": "resource", "resource": {"uri": "file:///x/b.py", "text": "b = 1"}}
FIX = {"type": "text", "text": "  Fix   the parser\nplease"}


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ([FIX], "Fix the parser"),
        ([{"type": "text", "text": "x" * 100}], "x" * 59 + "…"),
        ([{"type": "image", "mimeType": "image/png", "data": "AA=="}], "Image"),
        ([LINK, FILE, FIX], "Fix the parser"),
        ([LINK, {"type": "text", "text": "[1](x:y) and (z)"}], "[1](x:y) and (z)"),
        ([{"type": "text", "text": "[" * 1_000_000}], "[" * 59 + "…"),
        ([LINK], "a.py"),
        ([FILE], "b.py"),
    ],
)
def test_a_title_is_the_first_line_typed_or_the_name_of_a_file(content: list[Any], title: str) -> None:
    assert prompt_title(content_to_prompt(content)) == title


def test_a_command_of_the_host_is_shown_as_it_was_typed() -> None:
    turn = user(CommandBlock("clear"), CommandBlock("model", ("small",)))
    assert [item["text"] for item in turn_content(turn)] == ["/clear", "/model small"]


def test_a_turn_shows_text_and_thinking_but_no_calls() -> None:
    turn = assistant(ThinkingBlock("hm"), "yes", ToolCallBlock("c", "read", {}))
    assert turn_content(turn) == ({"type": "thinking", "text": "hm"}, {"type": "text", "text": "yes"})
    assert join_texts(turn.blocks) == "yes"
