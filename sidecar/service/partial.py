"""Streams the answer of a turn as parts of the result a client waits for, to the token it gave for them.

Nothing is lost: what a client has no room for waits, and goes out with what comes next or at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sidecar.conductor.events import Faulted, Message, Payload, Settled, TextDelta
from sidecar.conductor.log import EventLog
from sidecar.service.speech import StreamedText

__all__ = ["SendPart", "stream_answer"]

SendPart: TypeAlias = Callable[[dict[str, Any], bool], bool]
"""``(value, is_last)`` to whether it was sent; the last always is."""


def stream_answer(log: EventLog, turn_id: str, send: SendPart, after_seq: int) -> None:
    """Send the text of a turn as it is written, from *after_seq* until the turn's last event."""
    _Stream(log, turn_id, send, after_seq)


class _Stream:
    def __init__(self, log: EventLog, turn_id: str, send: SendPart, after_seq: int) -> None:
        self._turn_id = turn_id
        self._send = send
        self._cursor = after_seq
        self._speech = StreamedText()
        self._waiting: list[tuple[str, str]] = []
        self._stop = log.follow(self._wake)
        self._wake(log)

    def _wake(self, log: EventLog) -> None:
        while events := log.after(self._cursor):
            self._cursor = events[-1].seq
            for event in events:
                if event.turn_id == self._turn_id:
                    self._hear(event.data)

    def _hear(self, data: Payload) -> None:
        match data:
            case TextDelta(message_id=message_id, delta=delta):
                self._speech.tell(message_id, "text", delta)
                self._say(message_id, delta)
            case Message(message_id=message_id, content=content):
                whole = "".join(block["text"] for block in content if block["type"] == "text")
                self._say(message_id, self._speech.rest(message_id, "text", whole))
            case Settled() | Faulted():
                self._stop()
                self._flush(is_last=True)

    def _say(self, message_id: str, text: str) -> None:
        if self._waiting and self._waiting[-1][0] == message_id:
            text = self._waiting.pop()[1] + text
        if text:
            self._waiting.append((message_id, text))
            self._flush(is_last=False)

    def _flush(self, *, is_last: bool) -> None:
        while self._waiting:
            message_id, text = self._waiting[0]
            part = {"turnId": self._turn_id, "messageId": message_id, "text": text}
            if not self._send(part, is_last):
                return
            self._waiting.pop(0)
