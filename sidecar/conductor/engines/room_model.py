"""The gateway as the light model that takes the rooms' notes. It awaits the channel it is given."""

from __future__ import annotations

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.channel import collect_reply
from sidecar.llmgateway.contract import (
    Conversation,
    ModelCard,
    StreamOptions,
    TextBlock,
    UserTurn,
)
from sidecar.rooms import AIContext, AIProvider, AIResponse
from sidecar.runtime.contract import ModelInvoker


class InvokerProvider(AIProvider):
    """An :class:`~sidecar.rooms.AIProvider` that asks through a ModelInvoker; for prompts of text alone.

    *wishes* are the instructions of the user.
    """

    def __init__(
        self, invoke: ModelInvoker, card: ModelCard | None, cancel: CancelToken, wishes: str | None = None
    ) -> None:
        self._invoke = invoke
        self._card = card
        self._cancel = cancel
        self._wishes = wishes

    @property
    def model_name(self) -> str:
        """The model's id, empty where nothing is known of it."""
        return self._card.id if self._card is not None else ""

    @property
    def context_window(self) -> int | None:
        """The model's window in tokens."""
        return self._card.context_window if self._card is not None else None

    async def generate(self, context: AIContext) -> AIResponse:
        """Answer *context*.

        Raises:
            CancelledByToken: the token was cancelled.
            GatewayError: the call failed.
        """
        self._cancel.raise_if_cancelled()
        system = context.system_prompt or ""
        if self._wishes:
            system = f"{system}\n\nThe user wants this heeded: {self._wishes}"
        conversation = Conversation(
            tuple(
                UserTurn((TextBlock(each.content if isinstance(each.content, str) else ""),))
                for each in context.messages
            ),
            system=system or None,
        )
        # Models that reason refuse a temperature; the notes' own is 0.
        reasons = self._card is not None and self._card.reasoning
        options = StreamOptions(
            cancel=self._cancel,
            temperature=None if reasons else context.temperature,
            max_output_tokens=context.max_tokens,
        )
        reply = await collect_reply(self._invoke(conversation, options), model=self.model_name)
        self._cancel.raise_if_cancelled()
        text = "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))
        usage = {"input": reply.usage.input_tokens, "output": reply.usage.output_tokens}
        return AIResponse(text, finish_reason=reply.stop, usage=usage)
