"""The conversation of one call, as a provider accepts it."""

from __future__ import annotations

from sidecar.llmgateway.contract import Conversation
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
