"""The gateway as the chat model that writes summaries. It awaits the channel it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.agentcore.bridge import messages_to_turns
from sidecar.agentcore.gateway_blocks import content_of
from sidecar.agentcore.messages import Message, StopReason, ThinkingLevel, Usage
from sidecar.llmgateway import contract as gateway

__all__ = ["InvokerModel", "ModelInvoker"]

ModelInvoker: TypeAlias = Callable[[gateway.Conversation, gateway.StreamOptions], gateway.Channel]
"""The one seam to a model.

Contract: returns at once; the channel ends with a done or an error emission and honours ``options.cancel``
within one emission. What it raises counts as an error emission.
"""

_THINKING: dict[ThinkingLevel, gateway.ThinkingLevel] = {
    "off": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
}
_STOPS: dict[gateway.StopReason, StopReason] = {
    "complete": "stop",
    "tool_calls": "toolUse",
    "max_output": "length",
    "refusal": "error",
    "aborted": "aborted",
    "error": "error",
}


class InvokerModel:
    """A :class:`~sidecar.agentcore.messages.ChatModel` that asks through a :data:`ModelInvoker`.

    *cancel* is asked for a token at each call; without one a call cannot be cancelled by token.
    """

    def __init__(
        self, invoke: ModelInvoker, *, cancel: Callable[[], CancelToken | None] = lambda: None
    ) -> None:
        self._invoke = invoke
        self._cancel = cancel

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> Message:
        """Return the model's answer to *messages*.

        Raises:
            CancelledByToken: the token was cancelled.
            GatewayError: the channel ended with an error emission.
        """
        token = self._cancel()
        conversation = _conversation(messages)
        options = gateway.StreamOptions(
            cancel=token, thinking=_THINKING[thinking] if thinking else None, max_output_tokens=max_tokens
        )
        reply = _Reply()
        try:
            async for emission in self._invoke(conversation, options):
                reply.take(emission)
        except gateway.GatewayError as error:
            reply.error = error
        if token is not None:
            token.raise_if_cancelled()
        if reply.error is not None:
            raise reply.error
        return reply.message()


class _Reply:
    """What a channel has said so far; a done emission stands for everything before it."""

    __slots__ = ("_deltas", "_done", "_stop", "_usage", "error")

    def __init__(self) -> None:
        self.error: gateway.GatewayError | None = None
        self._deltas: list[str] = []
        self._done: gateway.Reply | gateway.AssistantTurn | None = None
        self._stop: gateway.StopReason = "complete"
        self._usage: gateway.Usage | None = None

    def take(self, emission: gateway.Emission) -> None:
        match emission:
            case gateway.TextEmission(delta):
                self._deltas.append(delta)
            case gateway.UsageEmission(usage):
                self._usage = usage
            case gateway.StopEmission(stop):
                self._stop = stop
            case gateway.DoneEmission(reply, usage):
                self._done = reply
                self._usage = usage or self._usage
            case gateway.ErrorEmission(error):
                self.error = error
            case _:
                return  # Thinking and tool calls are no part of a summary.

    def message(self) -> Message:
        blocks: tuple[gateway.Block, ...] = (gateway.TextBlock("".join(self._deltas)),)
        stop, usage = self._stop, self._usage
        if self._done is not None:
            blocks = self._done.blocks
        if isinstance(self._done, gateway.Reply):
            stop, usage = self._done.stop, self._done.usage
        content = tuple(block for b in blocks for block in content_of(b))
        return Message("assistant", content, stop_reason=_STOPS[stop], usage=_usage_of(usage))


def _conversation(messages: Sequence[Message]) -> gateway.Conversation:
    system = "\n\n".join(m.text_content() for m in messages if m.role == "system")
    turns = messages_to_turns([m for m in messages if m.role != "system"])
    return gateway.Conversation(tuple(turns), system=system or None)


def _usage_of(usage: gateway.Usage | None) -> Usage | None:
    if usage is None:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    total = usage.input_tokens + usage.output_tokens + read + written
    return Usage(usage.input_tokens, usage.output_tokens, read, written, total)
