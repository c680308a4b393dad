"""A chat model that gives scripted answers, for tests of the agentcore engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.agentcore.messages import Message, ThinkingLevel, text_message


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One call as it was made."""

    messages: tuple[Message, ...]
    max_tokens: int | None
    thinking: ThinkingLevel | None

    @property
    def prompt(self) -> str:
        """The text of the user message."""
        return self.messages[-1].text_content()


class ScriptedChatModel:
    """Answer with *replies* in turn, then with ``summary N`` for the N-th call; an exception is raised.

    ``calls`` holds every call made, ``n_running_most`` how many were ever under way at once.
    """

    def __init__(self, replies: Sequence[str | Message | BaseException] = ()) -> None:
        self.calls: list[ChatCall] = []
        self.n_running_most = 0
        self._replies = list(replies)
        self._n_running = 0

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> Message:
        """Return the next reply."""
        self.calls.append(ChatCall(tuple(messages), max_tokens, thinking))
        self._n_running += 1
        self.n_running_most = max(self.n_running_most, self._n_running)
        try:
            await self.pause()
        finally:
            self._n_running -= 1
        reply = self._replies.pop(0) if self._replies else f"summary {len(self.calls)}"
        if isinstance(reply, BaseException):
            raise reply
        return text_message("assistant", reply) if isinstance(reply, str) else reply

    async def pause(self) -> None:
        """Do nothing; a subclass may wait here."""
