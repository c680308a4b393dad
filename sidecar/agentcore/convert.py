"""From a history to what a model is sent: filter, wrap the summary, make every call have its one result.

Pure. Nothing is merged or reordered except a late tool result, which moves up to its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, takewhile

from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    Message,
    is_unsent,
    text_block,
    tool_message,
)

__all__ = [
    "CONTEXT_SUMMARY_CLOSE",
    "CONTEXT_SUMMARY_OPEN",
    "MISSING_RESULT",
    "compaction_convert_to_llm",
    "default_convert_to_llm",
    "repair_message_sequence",
]

CONTEXT_SUMMARY_OPEN = "<context-summary>\n"
CONTEXT_SUMMARY_CLOSE = "\n</context-summary>"
MISSING_RESULT = "No result was recorded for this tool call; it may not have run."


def default_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """Return the messages a model may see: those that neither failed nor were aborted (facts 1.5).

    >>> default_convert_to_llm([Message("assistant", stop_reason="error"), CompactionSummary("s")])
    []
    """
    return [m for m in messages if isinstance(m, Message) and not is_unsent(m)]


def compaction_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """Return what :func:`default_convert_to_llm` returns, with each summary as a user's message (fact A15).

    >>> compaction_convert_to_llm([CompactionSummary("so far")])[0].text_content()
    '<context-summary>\\nso far\\n</context-summary>'
    """
    sent: list[Message] = []
    for message in messages:
        if isinstance(message, CompactionSummary):
            sent.append(_wrap(message))
        elif isinstance(message, Message) and not is_unsent(message):
            sent.append(message)
    return sent


def repair_message_sequence(messages: Sequence[Message]) -> list[Message]:
    """Return *messages* with one result for every tool call, right behind it, and no other results.

    A call without a result in that run gets one directly behind the assistant: its own, if it arrived late,
    else a synthetic error. Results that answer no call, or answer one twice, are left out (facts 1.5).

    >>> [m.role for m in repair_message_sequence([tool_message("gone", "x"), Message("user")])]
    ['user']
    """
    late = _late_results(messages)
    repaired: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        repaired.append(message)
        if message.role == "assistant" and message.has_tool_calls():
            repaired.extend(_answers(messages, index, late))
    return repaired


def _wrap(summary: CompactionSummary) -> Message:
    text = CONTEXT_SUMMARY_OPEN + summary.summary + CONTEXT_SUMMARY_CLOSE
    metadata = {
        "type": "compaction_summary",
        "tokens_before": summary.tokens_before,
        "read_files": summary.read_files,
        "modified_files": summary.modified_files,
    }
    return Message("user", (text_block(text),), metadata=metadata, timestamp=summary.timestamp)


def _answers(
    messages: Sequence[Message], asker: int, late: Mapping[tuple[int, str], Message]
) -> list[Message]:
    """Return the results of the calls at *asker*: those its run lacks, then the run's own, each id once."""
    wanted = {call.id: call.name for call in messages[asker].tool_calls()}
    found: dict[str, Message] = {}
    for result in takewhile(lambda m: m.role == "tool", islice(messages, asker + 1, None)):
        if result.tool_call_id in wanted:
            found.setdefault(result.tool_call_id or "", result)
    missing = [
        late.get((asker, call_id)) or tool_message(call_id, MISSING_RESULT, is_error=True, tool_name=name)
        for call_id, name in wanted.items()
        if call_id not in found
    ]
    return [*missing, *found.values()]


def _late_results(messages: Sequence[Message]) -> dict[tuple[int, str], Message]:
    """Return the results outside the run of their call, by the index of who asked and the call id."""
    late: dict[tuple[int, str], Message] = {}
    asked: dict[str, int] = {}
    newest = -1
    for index, message in enumerate(messages):
        if message.role != "tool":
            newest = index
            asked.update(dict.fromkeys((call.id for call in message.tool_calls()), index))
        elif (asker := asked.get(message.tool_call_id or "")) is not None and asker != newest:
            late.setdefault((asker, message.tool_call_id or ""), message)
    return late
