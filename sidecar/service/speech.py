"""What a client was told of the message that is being written, so that only its rest is told at the end.

Deltas make up a message, and the ``message`` event restates it whole. A model that does not stream sends no
delta, and a client that reads slowly may have lost some: then the end of the message is still missing.
"""

from __future__ import annotations

__all__ = ["StreamedText"]


class StreamedText:
    """The message that is being written, by kind of text; a new one takes the place of an old one."""

    def __init__(self) -> None:
        self._message_id: str | None = None
        self._told: dict[str, list[str]] = {}

    def tell(self, message_id: str, kind: str, delta: str) -> None:
        """Note that *delta* was told."""
        if message_id != self._message_id:
            self._message_id, self._told = message_id, {}
        self._told.setdefault(kind, []).append(delta)

    def rest(self, message_id: str, kind: str, whole: str) -> str:
        """Return what is still to be told of *whole*.

        Nothing when what was told is not how *whole* begins: the client came in the middle.

        >>> speech = StreamedText()
        >>> speech.tell("m1", "text", "Hel")
        >>> speech.rest("m1", "text", "Hello"), speech.rest("m2", "text", "Hello")
        ('lo', 'Hello')
        """
        told = "".join(self._told.get(kind, ())) if message_id == self._message_id else ""
        return whole[len(told) :] if whole.startswith(told) else ""
