"""The digest without a model: a heading, a count, and what was carried from before."""

from __future__ import annotations

import pytest

from sidecar.window_budget import (
    BRANCH_HEADER,
    DIGEST_HEADER,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    UserMessage,
    estimate_message_tokens,
    local_fallback_digest,
)

HEAD = "# Carryover\n{} condensed without a model."


DIGESTS = {
    "nothing": ([], None, HEAD.format("0 earlier messages")),
    "one message": ([UserMessage("a")], None, HEAD.format("1 earlier message")),
    "a blank digest": ([UserMessage("a")] * 3, " ", HEAD.format("3 earlier messages")),
    "a digest from before": (
        [UserMessage("a")] * 2,
        "# Plan\nship it\n",
        HEAD.format("2 earlier messages") + "\n\n# Plan\nship it",
    ),
    "digests among the messages": (
        [CompactionSummaryMessage("one", 9), UserMessage(f"{BRANCH_HEADER}\n\ntwo"), UserMessage("a")],
        None,
        HEAD.format("3 earlier messages") + "\n\none\n\ntwo",
    ),
    "both": (
        [BranchSummaryMessage("left", "n1")],
        "before",
        HEAD.format("1 earlier message") + "\n\nbefore\n\nleft",
    ),
}


@pytest.mark.parametrize(("messages", "prior", "expected"), DIGESTS.values(), ids=DIGESTS)
def test_it_counts_the_messages_and_carries_digests(
    messages: list[Message], prior: str | None, expected: str
) -> None:
    assert local_fallback_digest(messages, prior) == expected


@pytest.mark.parametrize("max_tokens", [1, 40, 60, 200, 5000])
def test_a_carried_digest_is_cut_at_its_end(max_tokens: int) -> None:
    digest = local_fallback_digest([UserMessage("a")], "line of a plan\n" * 400, max_tokens)
    assert digest.startswith(HEAD.format("1 earlier message"))
    tokens = estimate_message_tokens(UserMessage(f"{DIGEST_HEADER}\n\n{digest}"))
    assert tokens <= max(max_tokens, 40)
    assert ("characters cut" in digest) is (40 < max_tokens < 5000)
