"""The token meter, the hybrid estimate, and the byte arithmetic of texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.estimate import (
    byte_length,
    clip_middle,
    context_estimate_adapter,
    cost_in_prompt,
    estimate_context_tokens,
    estimate_tokens,
    estimate_total,
    first_bytes,
    prompt_tokens,
)
from sidecar.agentcore.memory import ContextUsageEstimate
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Image,
    Message,
    Role,
    StopReason,
    Usage,
    call_block,
    text_block,
    text_message,
)

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = EARLY + timedelta(hours=1)


class Foreign:
    """An agent message of a type this engine does not know."""

    def get_role(self) -> Role:
        return "user"

    def get_timestamp(self) -> datetime | None:
        return None

    def text_content(self) -> str:
        return "x" * 400

    def thinking_content(self) -> str:
        return ""

    def has_tool_calls(self) -> bool:
        return False


def answer(
    usage: Usage | None, said_at: datetime | None = None, stop_reason: StopReason | None = None
) -> Message:
    return Message("assistant", (text_block("x" * 80),), stop_reason, usage, timestamp=said_at)


COSTS = {
    "an empty message costs 1": (Message("user"), 1),
    "5 bytes cost 2": (text_message("user", "abcde"), 2),
    "6 bytes of two characters cost 2": (text_message("user", "日本"), 2),
    "an image: 1200": (Message("user", (ContentBlock("image", image=Image("abc")),)), 1200),
    "a call's id is free": (Message("assistant", (call_block("long-id", "read", "{}  "),)), 2),
    "thinking": (Message("assistant", (ContentBlock("thinking", thinking="x" * 8),)), 2),
    "a reference: 0": (Message("user", (ContentBlock("tool_reference", tool_name="read"),)), 1),
    "a summary costs its text": (CompactionSummary("x" * 40, 9999, ("a.py",)), 10),
    "an unknown type costs nothing": (Foreign(), 0),
    "a lone surrogate does no harm": (text_message("user", "\ud800"), 1),
}


@pytest.mark.parametrize(("message", "tokens"), COSTS.values(), ids=COSTS)
def test_tokens_are_bytes_by_four(message: AgentMessage, tokens: int) -> None:
    assert estimate_tokens(message) == tokens


@given(st.lists(st.text(max_size=30), max_size=6))
def test_blocks_are_summed_before_rounding(texts: list[str]) -> None:
    message = Message("user", tuple(map(text_block, texts)))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    assert estimate_tokens(message) == max((size + 3) // 4, 1)


VECTOR = Usage(input=100, output=999, cache_read=50, cache_write=25, total_tokens=1174)


HYBRIDS = {
    "nothing": ([], ContextUsageEstimate(0, 0, 0, -1)),
    "input and both cache tiers": ([answer(VECTOR)], ContextUsageEstimate(175, 175, 0, 0)),
    "the total where there is nothing else, then the meter": (
        [answer(Usage(total_tokens=100)), text_message("user", "x" * 20)],
        ContextUsageEstimate(105, 100, 5, 0),
    ),
    "the meter where none is reported": ([text_message("user", "x" * 20)], ContextUsageEstimate(5, 0, 5, -1)),
    "failed answers report nothing, and are metered": (
        [answer(VECTOR), answer(Usage(input=7), stop_reason="error"), answer(None, stop_reason="aborted")],
        ContextUsageEstimate(215, 175, 40, 0),
    ),
    "the newest counts": ([answer(Usage(input=5)), answer(VECTOR)], ContextUsageEstimate(175, 175, 0, 1)),
    "a usage of zeros hides nothing": (
        [text_message("user", "x" * 400), answer(VECTOR), answer(Usage())],
        ContextUsageEstimate(195, 175, 20, 1),
    ),
}


@pytest.mark.parametrize(("messages", "expected"), HYBRIDS.values(), ids=HYBRIDS)
def test_the_hybrid_starts_from_the_newest_trusted_usage(
    messages: list[AgentMessage], expected: ContextUsageEstimate
) -> None:
    assert estimate_context_tokens(messages) == expected
    assert context_estimate_adapter(messages) == (
        expected.tokens,
        expected.usage_tokens,
        expected.trailing_tokens,
    )


CACHED = {
    "reads inside input": (Usage(input=900, output=50, cache_read=800, total_tokens=950), 900),
    "reads inside input, writes beside it": (
        Usage(input=900, output=50, cache_read=800, cache_write=30, total_tokens=980),
        930,
    ),
    "reads beside input": (Usage(input=900, output=50, cache_read=800, total_tokens=1750), 1700),
    "no total: as reported": (Usage(input=900, output=50, cache_read=800), 1700),
    "a senseless total": (Usage(input=900, output=50, cache_read=800, total_tokens=10), 1700),
}


@pytest.mark.parametrize(("usage", "prompt"), CACHED.values(), ids=CACHED)
def test_cache_reads_are_not_counted_twice(usage: Usage, prompt: int) -> None:
    assert estimate_context_tokens([answer(usage)]).usage_tokens == prompt


AGES = {
    "in front of it": ([answer(VECTOR, LATE), CompactionSummary("s", timestamp=EARLY)], -1),
    "kept behind it": ([CompactionSummary("s", timestamp=LATE), answer(VECTOR, EARLY)], -1),
    "of unknown age": ([CompactionSummary("s", timestamp=LATE), answer(VECTOR)], -1),
    "of an age without a zone": (
        [CompactionSummary("s", timestamp=EARLY), answer(VECTOR, datetime(2027, 1, 1))],
        -1,
    ),
    "newer: trusted": ([CompactionSummary("s", timestamp=EARLY), answer(VECTOR, LATE)], 1),
    "newer than an old summary, older than the newest": (
        [
            CompactionSummary("s", timestamp=EARLY),
            answer(VECTOR, EARLY + timedelta(minutes=1)),
            CompactionSummary("s", timestamp=LATE),
        ],
        -1,
    ),
}


@pytest.mark.parametrize(("messages", "index"), AGES.values(), ids=AGES)
def test_usage_older_than_a_compaction_is_not_trusted(messages: list[AgentMessage], index: int) -> None:
    assert estimate_context_tokens(messages).last_usage_index == index


def test_what_is_not_sent_costs_nothing_to_send() -> None:
    failed = answer(None, stop_reason="error")
    assert (cost_in_prompt(failed), estimate_total([failed])) == (0, 20)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("x" * 401, 101, id="ascii: bytes by four"),
        pytest.param("é" * 100, 50, id="two bytes a character: bytes by four"),
        pytest.param("日" * 100, 150, id="wide: one and a half a character"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_prompts_are_measured_with_wide_characters(text: str, tokens: int) -> None:
    assert prompt_tokens(text) == tokens


TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(TEXTS, st.integers(-1, 120))
def test_a_cut_keeps_characters_whole(text: str, limit: int) -> None:
    cut = first_bytes(text, limit)
    assert text.startswith(cut)
    assert byte_length(cut) <= max(limit, 0)
    missing = text[len(cut) :]
    assert not missing or byte_length(cut + missing[0]) > limit


@given(TEXTS, st.integers(0, 200))
def test_a_clipped_text_is_within_its_limit_and_says_so(text: str, limit: int) -> None:
    clipped = clip_middle(text, limit)
    assert byte_length(clipped) <= limit
    assert clipped == text or "left out ...]" in clipped or text.startswith(clipped)


def test_a_clipped_text_has_its_beginning_and_its_end() -> None:
    text = "a" * 500 + "m" * 500 + "z" * 500
    clipped = clip_middle(text, 400)
    assert clipped.startswith("a" * 200)
    assert clipped.endswith("z" * 80)
    kept = len(clipped) - len("\n[... 1135 characters left out ...]\n")
    assert f"\n[... {1500 - kept} characters left out ...]\n" in clipped


def test_a_lone_surrogate_is_replaced_where_text_is_cut() -> None:
    assert first_bytes("\ud800" + "x" * 10, 4) == "?xxx"
