"""Conversion of a history to the messages of a request: filter, wrap summaries, pair calls with results.

Pure. Nothing is merged or reordered except a late tool result, which moves up to its call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    Message,
    is_unsent,
    text_block,
    tool_message,
)

SUMMARY_MARK = "<context-summary>\n"
"""The beginning of every summary that this engine puts into a conversation; nobody else may copy it."""

_SUMMARY_END = "\n</context-summary>"
MISSING_RESULT = "No result was recorded for this tool call; it may not have run."


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
