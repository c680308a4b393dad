"""The message vocabulary of an agent loop, its messages in a request, and the port of the summarising model.

For a request the messages are filtered, summaries are wrapped, and calls are paired with results. Nothing is
merged or reordered except a late tool result, which moves up to its call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from sidecar._internal.values import Value

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
BlockType: TypeAlias = Literal["text", "thinking", "toolCall", "image", "tool_reference"]
ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]

SUMMARY_MARK = "<context-summary>\n"
"""The beginning of every summary that this engine puts into a conversation; nobody else may copy it."""

_SUMMARY_END = "\n</context-summary>"
MISSING_RESULT = "No result was recorded for this tool call; it may not have run."


class ToolCall(Value):
    """A request to run the tool *name*; *args* is the raw JSON text of its arguments."""

    id: str
    name: str
    args: str = "{}"

    def arguments(self) -> dict[str, Any] | None:
        """Return the arguments, or None when their text is anything but a JSON object.

        >>> ToolCall("1", "ls", '{"path": "."}').arguments(), ToolCall("1", "ls", "[").arguments()
        ({'path': '.'}, None)
        """
        try:
            value = json.loads(self.args) if self.args else {}
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class Image(Value):
    """An image, either base64 *data* or a *url*."""

    data: str = ""
    url: str = ""
    mime_type: str = ""


class ContentBlock(Value):
    """One block of a message; *type* says which other field holds its content."""

    type: BlockType
    text: str = ""
    thinking: str = ""
    tool_call: ToolCall | None = None
    image: Image | None = None
    tool_name: str = ""


class Usage(Value):
    """Tokens of one model call as its provider reported them; *cost* in US dollars."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: float = 0.0


@runtime_checkable
class AgentMessage(Protocol):
    """Any item of a history. Only a :class:`Message` is sent to a model as it is."""

    def get_role(self) -> Role:
        """Return the role of the speaker."""
        ...

    def get_timestamp(self) -> datetime | None:
        """Return the time of the message, aware of its zone, or None when it is not known."""
        ...

    def text_content(self) -> str:
        """Return the text of all blocks, without separators."""
        ...

    def thinking_content(self) -> str:
        """Return the reasoning of all blocks, without separators."""
        ...

    def has_tool_calls(self) -> bool:
        """Return whether the message calls tools."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation with a model.

    A tool result has role ``tool``, one text block and the metadata ``tool_call_id`` (str), ``is_error``
    (bool) and, where it is known, ``tool_name`` (str). *stop_reason* is None where no model wrote.

    >>> Message("user", (text_block("hel"), text_block("lo"))).text_content()
    'hello'
    """

    role: Role
    content: tuple[ContentBlock, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None

    def get_role(self) -> Role:
        """Return the role of the speaker."""
        return self.role

    def get_timestamp(self) -> datetime | None:
        """Return the time of the message, or None."""
        return self.timestamp

    def text_content(self) -> str:
        """Return the text of all blocks, without separators."""
        return "".join([block.text for block in self.content if block.type == "text"])

    def thinking_content(self) -> str:
        """Return the reasoning of all blocks, without separators."""
        return "".join([block.thinking for block in self.content if block.type == "thinking"])

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the message, in order."""
        return tuple([block.tool_call for block in self.content if block.tool_call is not None])

    def has_tool_calls(self) -> bool:
        """Return whether the message calls tools."""
        return any(block.tool_call is not None for block in self.content)

    @property
    def tool_call_id(self) -> str | None:
        """The id of the call that this tool result answers, or None."""
        value = self.metadata.get("tool_call_id")
        return value if self.role == "tool" and isinstance(value, str) else None

    @property
    def is_error(self) -> bool:
        """Whether this tool result reports a failure."""
        return bool(self.metadata.get("is_error"))


class Unread(Value):
    """The labelled *parts* of a summary that no model has read, and the text *read* by one before them."""

    read: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """The message that stands for condensed messages.

    It is not a :class:`Message`, so that only ``compaction_convert_to_llm`` sends it.

    Attributes:
        summary: the text; it ends with the sections of files read and modified, where there are any.
        tokens_before: the estimate of the whole view that was compacted.
        read_files: paths that the condensed messages read and did not modify, sorted.
        modified_files: paths that they modified, sorted.
        timestamp: the time of the compaction.
        unread: the part that a local digest stands for; the next model that answers reads it. None for none.
    """

    summary: str
    tokens_before: int = 0
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    timestamp: datetime | None = None
    unread: Unread | None = field(default=None, compare=False, repr=False)

    def get_role(self) -> Role:
        """Return ``user``: models receive a summary as a user message."""
        return "user"

    def get_timestamp(self) -> datetime | None:
        """Return the time of the compaction, or None."""
        return self.timestamp

    def text_content(self) -> str:
        """Return the summary."""
        return self.summary

    def thinking_content(self) -> str:
        """Return nothing: a summary holds no reasoning."""
        return ""

    def has_tool_calls(self) -> bool:
        """Return False: a summary calls no tools."""
        return False


class ChatModel(Protocol):
    """The model that writes summaries.

    Contract: returns one assistant message, or raises any exception; the stop reasons ``error``, ``aborted``
    and ``length`` count as a failure. Calls are never made at the same time.
    """

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> Message:
        """Answer a request.

        Args:
            messages: one system message and one user message.
            max_tokens: the longest answer; None leaves it to the model.
            thinking: the level of reasoning; None leaves it to the model.
        """
        ...


def text_block(text: str) -> ContentBlock:
    """Return a block of prose."""
    return ContentBlock("text", text=text)


def call_block(call_id: str, name: str, args: str = "{}") -> ContentBlock:
    """Return the block of a tool call.

    Args:
        call_id: the id that its result will name.
        name: the tool.
        args: the arguments, raw JSON.
    """
    return ContentBlock("toolCall", tool_call=ToolCall(call_id, name, args))


def text_message(role: Role, text: str) -> Message:
    """Return a message of one text block.

    >>> text_message("user", "hi").text_content()
    'hi'
    """
    return Message(role, (text_block(text),))


def tool_message(call_id: str, text: str, *, is_error: bool = False, tool_name: str = "") -> Message:
    """Return a tool result.

    Args:
        call_id: the call that it answers.
        text: the output of the tool.
        is_error: whether the tool failed.
        tool_name: the tool; an empty name is left out of the metadata.
    """
    metadata: dict[str, Any] = {"tool_call_id": call_id, "is_error": is_error}
    if tool_name:
        metadata["tool_name"] = tool_name
    return Message("tool", (text_block(text),), metadata=metadata)


def is_unsent(message: AgentMessage) -> bool:
    """Return whether *message* stays out of every prompt: it failed, was aborted, or is of a foreign type."""
    if isinstance(message, Message):
        return message.stop_reason in ("error", "aborted")
    return not isinstance(message, CompactionSummary)


def is_user_prompt(message: AgentMessage) -> bool:
    """Return whether a user wrote *message*; a :class:`CompactionSummary` is no prompt."""
    return isinstance(message, Message) and message.role == "user"


def wrap_summary(summary: str) -> str:
    """Return *summary* as the text of a user message.

    >>> wrap_summary("so far")
    '<context-summary>\\nso far\\n</context-summary>'
    """
    return SUMMARY_MARK + summary + _SUMMARY_END


def unwrap_summary(text: str) -> str | None:
    """Return the summary inside *text*, or None when *text* is anything else than a wrapped summary.

    >>> unwrap_summary(wrap_summary("so far")), unwrap_summary("<context-summary>")
    ('so far', None)
    """
    summary = text.removeprefix(SUMMARY_MARK).removesuffix(_SUMMARY_END)
    return summary if text == wrap_summary(summary) else None


def default_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """Return the messages that a model may see: no failed or aborted ones, no summaries, no foreign types.

    >>> default_convert_to_llm([Message("assistant", stop_reason="error"), CompactionSummary("s")])
    []
    """
    return [m for m in messages if isinstance(m, Message) and not is_unsent(m)]


def compaction_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """Return the messages of :func:`default_convert_to_llm`, and each summary as a user message.

    The metadata of such a message holds ``type`` (``compaction_summary``), ``tokens_before``, ``read_files``
    and ``modified_files``.

    >>> compaction_convert_to_llm([CompactionSummary("so far")])[0].text_content()
    '<context-summary>\\nso far\\n</context-summary>'
    """
    sent: list[Message] = []
    for message in messages:
        if isinstance(message, CompactionSummary):
            metadata = {
                "type": "compaction_summary",
                "tokens_before": message.tokens_before,
                "read_files": message.read_files,
                "modified_files": message.modified_files,
            }
            content = (text_block(wrap_summary(message.summary)),)
            sent.append(Message("user", content, metadata=metadata, timestamp=message.timestamp))
        elif isinstance(message, Message) and not is_unsent(message):
            sent.append(message)
    return sent


def repair_message_sequence(messages: Sequence[Message]) -> list[Message]:
    """Return *messages* with one result for every tool call, right behind it, and no other results.

    A call without a result in the run behind its assistant message gets its own late result, if there is
    one, else a synthetic error. Results that answer no call, or answer one twice, are left out.

    >>> [m.role for m in repair_message_sequence([tool_message("gone", "x"), Message("user")])]
    ['user']
    """
    late = find_late_results(messages)
    repaired: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        repaired.append(message)
        if message.role != "assistant":
            continue
        tools = {call.id: call.name for call in message.tool_calls()}
        answers: dict[str, Message] = {}
        for result in takewhile(lambda m: m.role == "tool", islice(messages, index + 1, None)):
            if result.tool_call_id in tools:
                answers.setdefault(result.tool_call_id or "", result)
        repaired.extend(
            late.get((index, call_id)) or tool_message(call_id, MISSING_RESULT, is_error=True, tool_name=name)
            for call_id, name in tools.items()
            if call_id not in answers
        )
        repaired.extend(answers.values())
    return repaired


def find_late_results(messages: Sequence[Message]) -> dict[tuple[int, str], Message]:
    """Return the results outside the run of their call, by (index of the calling message, call id)."""
    late: dict[tuple[int, str], Message] = {}
    callers: dict[str, int] = {}
    newest = -1
    for index, message in enumerate(messages):
        if message.role != "tool":
            newest = index
            callers.update(dict.fromkeys((call.id for call in message.tool_calls()), index))
        elif (caller := callers.get(message.tool_call_id or "")) is not None and caller != newest:
            late.setdefault((caller, message.tool_call_id or ""), message)
    return late
