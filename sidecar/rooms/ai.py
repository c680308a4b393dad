"""Messages to and from a language model, the port of the model itself, and its public double.

No request is made here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from sidecar._internal.values import Value, force_setattr
from sidecar.rooms.events import RoomContext, to_json


class AITextPart(Value):
    """Prose."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class AIImagePart(Value):
    """An image behind a URL, or inside a ``data:`` one."""

    type: ClassVar[Literal["image"]] = "image"
    url: str
    mime_type: str | None = None


class AIToolCallPart(Value):
    """A request of the model to run the tool *name*."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


class AIToolResultPart(Value):
    """The result of the call *tool_call_id*: any JSON value, usually text."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_call_id: str
    name: str
    result: Any

    @property
    def as_text(self) -> str:
        """The result as the model reads it: text as it is, anything else as JSON."""
        if isinstance(self.result, str):
            return self.result
        return to_json(self.result)


class AIThinkingPart(Value):
    """The model's reasoning; *signature* is the provider's proof of it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str
    signature: str | None = None


AIPart: TypeAlias = AITextPart | AIImagePart | AIToolCallPart | AIToolResultPart | AIThinkingPart
"""A piece of a message that is more than a string; ``type`` tells the variants apart."""


class AIMessage(Value):
    """One message to or from a model: a string, or parts in order."""

    role: str
    content: str | Sequence[AIPart]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            force_setattr(self, "content", tuple(self.content))


class AITool(Value):
    """A tool the model may ask for; *parameters* is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class AIContext(Value):
    """One request. *max_tokens* bounds the answer, None leaves it to the provider."""

    messages: Sequence[AIMessage]
    system_prompt: str | None = None
    temperature: float = 0.7
    max_tokens: int | None = None
    tools: Sequence[AITool] = ()
    room: RoomContext | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "messages", tuple(self.messages))
        force_setattr(self, "tools", tuple(self.tools))


class AIResponse(Value):
    """One answer. *usage* counts tokens under the provider's own names."""

    content: str
    thinking: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    tool_calls: Sequence[AIToolCallPart] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class AIProvider(ABC):
    """A language model behind one call."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The model that answers."""

    @property
    def context_window(self) -> int | None:
        """The most tokens that a request and its answer may have together, None when unknown."""
        return None

    @abstractmethod
    async def generate(self, context: AIContext) -> AIResponse:
        """Answer *context*. It may raise; the memory providers survive that."""

    async def close(self) -> None:
        """Release the resources of the provider. Nothing by default."""
        return


class MockAIProvider(AIProvider):
    """A model that gives *responses* in turn, from the first again after the last; an exception is raised.

    ``calls`` holds the context of every call.
    """

    def __init__(
        self,
        responses: Sequence[str | AIResponse | Exception] = ("mock response",),
        *,
        model_name: str = "mock",
        context_window: int | None = None,
    ) -> None:
        self.responses = tuple(responses)
        self.calls: list[AIContext] = []
        self.closed = False
        self._model_name = model_name
        self._context_window = context_window

    @property
    def model_name(self) -> str:
        """The configured name."""
        return self._model_name

    @property
    def context_window(self) -> int | None:
        """The configured window."""
        return self._context_window

    async def generate(self, context: AIContext) -> AIResponse:
        """Record *context* and give the next response."""
        response = self.responses[len(self.calls) % len(self.responses)]
        self.calls.append(context)
        if isinstance(response, Exception):
            raise response
        return AIResponse(response) if isinstance(response, str) else response

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True
