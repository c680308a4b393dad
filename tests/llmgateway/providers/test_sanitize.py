"""A broken conversation is repaired before it is sent; a sound one is sent as it is."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sanitizing import any_turns, sanitize
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    Conversation,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.providers.sanitize import (
    CONTINUE,
    EMPTY,
    SanitizedConversation,
    Sanitizer,
    WireRules,
    image_size,
)
from sidecar.runtime.wire import NO_RESULT, OPENING
from turns import assistant, user

RULES = WireRules(
    takes_signature=lambda signature: signature.startswith("mine"), max_id_chars=8, max_images=2
)


def results(*blocks: Block) -> ToolTurn:
    return ToolTurn(blocks)


def call(call_id: str, value: Any = None, name: str = "read") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, {} if value is None else value)


def picture(width: int = 4, height: int = 4, media_type: str = "image/png") -> ImageBlock:
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return ImageBlock(media_type, base64.b64encode(header).decode())


def check(turns: list[Turn], fitted: list[Turn], *repairs: str, **options: Any) -> None:
    found = sanitize(Conversation(tuple(turns)), RULES, **options)
    assert list(found.conversation.turns) == fitted
    assert [next((r for r in repairs if r in repair), repair) for repair in found.repairs] == list(repairs)


SOUND: list[Turn] = [
    user("hi", picture()),
    assistant(ThinkingBlock("hm", "mine"), "look", call("c1"), call("c2")),
    results(ToolResultBlock("c2", {"a": 1}), ToolResultBlock("c1", "x", True)),
    assistant("so"),
    user("go on"),
]


def test_a_sound_conversation_is_sent_as_it_is() -> None:
    found = sanitize(Conversation(tuple(SOUND), system="s"), RULES)
    assert found.repairs == ()
    assert all(one is other for one, other in zip(found.conversation.turns, SOUND, strict=True))
    assert found.conversation.system == "s"


@pytest.mark.parametrize(
    ("turns", "fitted", "repairs"),
    [
        pytest.param([], [OPENING], ["put in order"], id="an empty conversation is opened"),
        pytest.param(
            [assistant("a"), user("b")], [OPENING, assistant("a"), user("b")], ["put in order"], id="begins"
        ),
        pytest.param(
            [user("a"), assistant("b")],
            [user("a"), assistant("b"), CONTINUE],
            ["[continue]"],
            id="never ends so",
        ),
        pytest.param(
            [user("a"), assistant(call("c1")), user("b")],
            [user("a"), assistant(call("c1")), results(ToolResultBlock("c1", NO_RESULT, True)), user("b")],
            ["put in order"],
            id="every call has its result",
        ),
        pytest.param(
            [user("a"), results(ToolResultBlock("c0", "x")), user("b")],
            [user("a", "b")],
            ["put in order"],
            id="no result without its call, and roles alternate",
        ),
        pytest.param(
            [user("a"), user("b")], [user("a", "b")], [], id="neighbours of one role are one message"
        ),
        pytest.param([user(" ")], [UserTurn((EMPTY,))], ["marked as empty"], id="no empty message"),
        pytest.param(
            [user("a"), assistant(ThinkingBlock("x", "other"), "so"), user("b")],
            [user("a"), assistant("so"), user("b")],
            [],
            id="reasoning of others is left out whole",
        ),
        pytest.param(
            [UserTurn((ThinkingBlock("hm", "mine"),))],
            [UserTurn((EMPTY,))],
            ["marked as empty"],
            id="only answers have reasoning",
        ),
        pytest.param(
            [user("a"), assistant(ThinkingBlock("\ud800", "mine"), "so"), user("b")],
            [user("a"), assistant("so"), user("b")],
            [],
            id="reasoning that cannot be sent to the letter is left out whole",
        ),
        pytest.param(
            [user("a"), assistant("so", picture()), user("b")],
            [user("a"), assistant("so", "[image left out: it was the model's own]"), user("b")],
            ["an image was left out"],
            id="no images in answers",
        ),
        pytest.param([user("a", CommandBlock("/x"))], [user("a")], ["put in order"], id="no host commands"),
        pytest.param([user("a\ud800b")], [user("a?b")], ["cannot be sent"], id="nothing UTF-8 cannot hold"),
        pytest.param(
            [user("a"), assistant(call("c1", "{trunc")), results(ToolResultBlock("c1", "bad")), user("b")],
            [
                user("a"),
                assistant(call("c1", {"__unparsed": "{trunc"})),
                results(ToolResultBlock("c1", "bad")),
                user("b"),
            ],
            ["not an object"],
            id="arguments are an object",
        ),
    ],
)
def test_a_broken_conversation_is_repaired_and_reported(
    turns: list[Turn], fitted: list[Turn], repairs: list[str]
) -> None:
    check(turns, fitted, *repairs)


def test_a_system_prompt_that_utf_8_cannot_hold_is_sent_without_that() -> None:
    found = sanitize(Conversation((user("a"),), system="be\ud800brief"), RULES)
    assert found == SanitizedConversation(Conversation((user("a"),), system="be?brief"))


def test_ids_and_names_keep_the_limits_of_the_provider() -> None:
    """Calls keep their results, and two long ids never become one."""
    check(
        [
            user("a"),
            assistant(call("toolu:abcdefgh1", name="mcp.fs/read"), call("toolu:abcdefgh2", name="")),
            results(ToolResultBlock("toolu:abcdefgh1", "1"), ToolResultBlock("toolu:abcdefgh2", "2")),
            user("b"),
        ],
        [
            user("a"),
            assistant(call("toolu_ab", name="mcp_fs_read"), call("toolu__2", name="unknown")),
            results(ToolResultBlock("toolu_ab", "1"), ToolResultBlock("toolu__2", "2")),
            user("b"),
        ],
    )


def test_calls_numbered_anew_in_every_answer_get_ids_of_their_own() -> None:
    """As by servers that call the first one of each answer call_0: others refuse an id that comes twice."""
    check(
        [
            user("a"),
            *(turn for n in "123" for turn in (assistant(call("c0")), results(ToolResultBlock("c0", n)))),
        ],
        [
            user("a"),
            *(assistant(call("c0")), results(ToolResultBlock("c0", "1"))),
            *(assistant(call("c0_2")), results(ToolResultBlock("c0_2", "2"))),
            *(assistant(call("c0_3")), results(ToolResultBlock("c0_3", "3"))),
        ],
    )


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (picture(media_type="image/tiff"), "image/tiff is not among image/gif, image/jpeg"),
        (ImageBlock("image/png", "not base64!"), "it is not base64"),
        (ImageBlock("image/png", "A" * (20 * 1024 * 1024 + 4)), "larger than 20 MB"),
        (picture(9_000, 10), "wider or higher than 8000 pixels"),
    ],
)
def test_an_image_that_would_be_refused_is_left_out(image: ImageBlock, why: str) -> None:
    found = sanitize(Conversation((user("see", image),)), RULES)
    (turn,) = found.conversation.turns
    assert isinstance(turn.blocks[1], TextBlock)
    assert why in turn.blocks[1].text
    assert why in found.repairs[0]


def test_the_oldest_of_too_many_images_are_left_out() -> None:
    found = sanitize(Conversation((user(picture(1)), assistant("a"), user(picture(2), picture(3)))), RULES)
    kept = [
        block for turn in found.conversation.turns for block in turn.blocks if isinstance(block, ImageBlock)
    ]
    assert kept == [picture(2), picture(3)]


def test_after_a_refusal_reasoning_is_left_out_up_to_there() -> None:
    def thought(number: int) -> AssistantTurn:
        return assistant(ThinkingBlock("t", f"mine{number}"), f"s{number}")

    check(
        [user("a"), thought(1), user("b"), thought(2), user("c"), thought(3), user("d")],
        [user("a"), assistant("s1"), user("b"), assistant("s2"), user("c"), thought(3), user("d")],
        refused=frozenset({"mine2"}),
    )


TURNS = any_turns([None, "mine", "other"])


@cases(120)
@given(TURNS)
def test_any_conversation_becomes_a_valid_one(turns: list[Turn]) -> None:
    sent = sanitize(Conversation(tuple(turns)), RULES).conversation.turns
    assert isinstance(sent[0], UserTurn)
    assert not isinstance(sent[-1], AssistantTurn)
    assert all(type(one) is not type(other) for one, other in pairwise(sent))
    for index, turn in enumerate(sent):
        assert turn.blocks
        calls = [block.id for block in turn.blocks if isinstance(block, ToolCallBlock)]
        after = sent[index + 1] if index + 1 < len(sent) else UserTurn(())
        answers = [block.call_id for block in after.blocks if isinstance(block, ToolResultBlock)]
        assert sorted(calls) == sorted(answers) if calls else not answers
        assert len(set(calls)) == len(calls)
    assert all(isinstance(b.input, dict) for t in sent for b in t.blocks if isinstance(b, ToolCallBlock))
    json.dumps([repr(block) for turn in sent for block in turn.blocks], ensure_ascii=False)


@cases(60)
@given(TURNS)
def test_a_sanitized_conversation_needs_no_repair(turns: list[Turn]) -> None:
    once = sanitize(Conversation(tuple(turns)), RULES)
    again = sanitize(once.conversation, RULES)
    assert again.conversation == once.conversation
    assert all("image" in repair for repair in again.repairs)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x80\x00\x00\x01\xe0", (640, 480)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x01\xe0\x02\x80\x03", (640, 480)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8X\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x02\x00\xdf\x01\x00", (640, 480)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x80\x02\xe0\x01", (640, 480)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x7f\xc2\x77\x00", (640, 480)),
        (b"\xff\xd8\xff", None),
        (b"\xff\xd8\x00\x00", None),
        (b"BM......", None),
        (b"", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_head(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


@cases(120)
@given(TURNS, st.data())
def test_a_conversation_that_grew_is_sent_as_if_it_were_new(turns: list[Turn], data: st.DataObject) -> None:
    """Also after another conversation, and once a signature was refused."""
    sanitizer, n = Sanitizer(RULES), 0
    while n < len(turns):
        n = data.draw(st.integers(n + 1, len(turns)))
        first = data.draw(st.sampled_from([0, 0, 0, n - 1]))
        refused = frozenset(data.draw(st.sampled_from([(), ("mine",)])))
        conversation = Conversation(tuple(turns[first:n]))
        found = sanitizer.sanitize(conversation, refused)
        expected = sanitize(conversation, RULES, refused=refused)
        assert found.conversation == expected.conversation
        assert set(found.repairs) == set(expected.repairs)


def test_of_too_many_images_the_oldest_are_left_out_as_a_conversation_grows() -> None:
    sanitizer = Sanitizer(RULES)
    turns = [turn for n in range(1, 6) for turn in (user(f"{n}", picture(n)), assistant("seen"))]
    for n in range(1, len(turns), 2):
        conversation = Conversation(tuple(turns[:n]))
        assert sanitizer.sanitize(conversation) == sanitize(conversation, RULES)
