"""The conversation of one call, as a provider accepts it; and conversations of any kind, mostly broken."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from hypothesis import strategies as st

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
from sidecar.llmgateway.providers.sanitize import SanitizedConversation, Sanitizer, WireRules


def sanitize(
    conversation: Conversation,
    rules: WireRules,
    *,
    sees_images: bool = True,
    refused: frozenset[str] = frozenset(),
) -> SanitizedConversation:
    """Return *conversation* as a provider with *rules* accepts it, remembering no earlier one."""
    return Sanitizer(rules, sees_images=sees_images).sanitize(conversation, refused)


_TEXTS = st.sampled_from(["", " ", "\n", "a", "two words", "é🙂", "\udfff"])
_VALUES = st.sampled_from([{}, {"path": "a"}, "{trunc", None, 3, ["x"], {"k\udfff": "\udfff"}])
_IDS = st.sampled_from(["c1", "c2", "toolu:abcdefgh1", "toolu:abcdefgh2", "x" * 70, "y" * 70, ""])
_PICTURES = st.builds(
    ImageBlock,
    st.sampled_from(["image/png", "image/tiff"]),
    st.sampled_from(["", "?", base64.b64encode(b"\x89PNG" + bytes(30)).decode()]),
)


def any_turns(signatures: Sequence[str | None]) -> st.SearchStrategy[list[Turn]]:
    """Return the turns of conversations in which anything may be wrong; reasoning has these *signatures*."""
    blocks: st.SearchStrategy[Block] = st.one_of(
        st.builds(TextBlock, _TEXTS),
        st.builds(ThinkingBlock, _TEXTS, st.sampled_from(signatures)),
        st.builds(ToolCallBlock, _IDS, st.sampled_from(["read", "a.b", "", "n" * 200]), _VALUES),
        st.builds(ToolResultBlock, _IDS, _VALUES, st.sampled_from([None, True, False])),
        st.builds(CommandBlock, _TEXTS),
        _PICTURES,
    )
    several = st.lists(blocks, max_size=4).map(tuple)
    return st.lists(
        st.one_of(*(st.builds(kind, several) for kind in (UserTurn, AssistantTurn, ToolTurn))), max_size=8
    )
