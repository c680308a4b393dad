"""Whose proof of reasoning a signature is, so that each provider gets back its own and no other's. Pure.

A signature is stored as text. Those of Anthropic are stored bare; all others begin with a mark. What a model
has reasoned is sent back with its own proof, or not at all.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CHAT", "GOOGLE", "LONG_TAIL", "REDACTED", "RESPONSES", "is_anthropic", "unmarked"]

CHAT: Final = "chat:"
"""Before the name of the field that a server of the chat format gave its reasoning in."""

RESPONSES: Final = "openai:"
"""Before a reasoning item of the responses format, as JSON."""

GOOGLE: Final = "google:"
"""Before a thought signature, base64 encoded."""

REDACTED: Final = "redacted:"
"""Before reasoning that Anthropic has encrypted."""

LONG_TAIL: Final = "pydantic-ai:"
"""Before a thinking part of the long tail, as JSON."""


def is_anthropic(signature: str) -> bool:
    """Whether *signature* is Anthropic's: bare, or redacted.

    >>> is_anthropic("EqQB"), is_anthropic("redacted:EqQB"), is_anthropic("google:EqQB")
    (True, True, False)
    """
    return not signature.startswith((CHAT, RESPONSES, GOOGLE, LONG_TAIL))


def unmarked(signature: str, mark: str) -> str | None:
    """Return *signature* without *mark*, None when it is another's.

    >>> unmarked("google:c2ln", GOOGLE), unmarked("EqQB", GOOGLE)
    ('c2ln', None)
    """
    return signature.removeprefix(mark) if signature.startswith(mark) else None
