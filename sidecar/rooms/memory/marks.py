"""The marks by which messages of the memory are known: headers, placeholders (facts K6, K10, K16).

Pure text. A summary is known by how it begins, so that a message that merely quotes the mark is not one.
"""

from __future__ import annotations

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.memory.estimate import message_tokens

__all__ = [
    "EMPTY_SUMMARY",
    "KNOWLEDGE_HEADER",
    "SUMMARY_HEADER",
    "SUMMARY_OVERHEAD_TOKENS",
    "summary_body",
    "summary_message",
    "summary_text",
    "unavailable_summary",
]

SUMMARY_MARK = "[Conversation summary"
SUMMARY_HEADER = f"{SUMMARY_MARK} — earlier messages compacted]"
KNOWLEDGE_HEADER = "[Relevant context from knowledge sources]"
EMPTY_SUMMARY = "[Summary generation failed]"


def summary_message(summary: str) -> AIMessage:
    """Return the message that stands for the events a *summary* covers.

    >>> summary_message("they met").content
    '[Conversation summary — earlier messages compacted]\\nthey met'
    """
    return AIMessage(role="user", content=f"{SUMMARY_HEADER}\n{summary}")


def summary_text(message: AIMessage) -> str | None:
    """Return the whole text of a message that is a summary, else None (failure B-K8).

    >>> summary_text(AIMessage("user", "you wrote [Conversation summary — ...] yesterday")) is None
    True
    """
    content = message.content
    return content if isinstance(content, str) and content.startswith(SUMMARY_MARK) else None


def summary_body(text: str) -> str:
    """Return *text* without the header of a summary, where it begins with one.

    >>> summary_body(f"{SUMMARY_HEADER}\\nthey met"), summary_body("they met")
    ('they met', 'they met')
    """
    return text.partition("\n")[2] if text.startswith(SUMMARY_MARK) else text


def unavailable_summary(n_events: int) -> str:
    """Return what stands for *n_events* events while the summariser fails.

    >>> unavailable_summary(3)
    '[Earlier conversation with 3 messages — summary unavailable]'
    """
    return f"[Earlier conversation with {n_events} messages — summary unavailable]"


SUMMARY_OVERHEAD_TOKENS = message_tokens(summary_message(""))
