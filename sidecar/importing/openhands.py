"""OpenHands: the events of a run, in the ``history`` of one JSON object a line.

An event is an action of the agent or the user, or an observation, which names the action that caused it. An
action carries the response of the model, with the true name and arguments of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sidecar.importing.builder import ImportBuilder
from sidecar.importing.content import (
    Json,
    as_list,
    as_mapping,
    as_text,
    parse_arguments,
    parse_time,
    typed_block,
)
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock

_ENDS = ("finish", "reject")


def is_openhands(value: Json) -> bool:
    """Whether *value* is a run of OpenHands."""
    record = as_mapping(value)
    events = list(list_events(record.get("history")))[:3]
    return any("role" not in each and ("action" in each or "observation" in each) for each in events)


def list_events(history: Json) -> Iterator[Mapping[str, Json]]:
    """Yield the events of a history; older files have them in pairs."""
    for item in as_list(history):
        yield from map(as_mapping, item if isinstance(item, list) else [item])


def read_openhands(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the runs of a file, one after the other."""
    for record in map(as_mapping, records):
        builder.id = builder.id or as_text(record.get("instance_id"))
        builder.title = builder.title or as_text(record.get("instance_id"))
        for event in list_events(record.get("history")):
            read_event(builder, event)


def read_event(builder: ImportBuilder, event: Mapping[str, Json]) -> None:
    """Read one event."""
    at_ms = parse_time(event.get("timestamp"))
    action, source, arguments = event.get("action"), event.get("source"), as_mapping(event.get("args"))
    text = as_text(arguments.get("content")) or as_text(event.get("message"))
    if "observation" in event:
        read_observation(builder, event)
    elif action == "system":
        builder.note("systemPrompt")
    elif action == "message" and source == "user":
        builder.prompt([typed_block(text)], at_ms=at_ms)
    elif action == "message" or action in _ENDS:
        builder.answer([TextBlock(as_text(arguments.get("final_thought")) or text)], at_ms=at_ms)
    elif source == "agent":
        blocks: list[Block] = [TextBlock(as_text(arguments.get("thought"))), parse_action(event)]
        builder.answer(blocks, at_ms=at_ms)
    else:
        builder.note("hostText")


def read_observation(builder: ImportBuilder, event: Mapping[str, Json]) -> None:
    """Read the observation of a call; one that no call asked for is the environment's own."""
    metadata = as_mapping(event.get("tool_call_metadata"))
    if event.get("source") != "agent" and not metadata:
        builder.note("hostText")
        return
    extras = as_mapping(event.get("extras"))
    code = as_mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    call_id = as_text(metadata.get("tool_call_id")) or f"event_{event.get('cause')}"
    is_error = event.get("observation") == "error" or code not in (None, 0, -1)
    builder.result(call_id, event.get("content"), is_error=is_error)


def parse_action(event: Mapping[str, Json]) -> ToolCallBlock:
    """Return an action as the call that the model made, or with its own arguments where that is not kept."""
    metadata = as_mapping(event.get("tool_call_metadata"))
    call_id = as_text(metadata.get("tool_call_id"))
    arguments: Json = {
        name: value
        for name, value in as_mapping(event.get("args")).items()
        if name != "thought" and value not in (None, "", [])
    }
    for choice in as_list(as_mapping(metadata.get("model_response")).get("choices")):
        message = as_mapping(as_mapping(choice).get("message"))
        for call in map(as_mapping, as_list(message.get("tool_calls"))):
            if call_id and call.get("id") == call_id:
                arguments = parse_arguments(as_mapping(call.get("function")).get("arguments"))
    name = as_text(metadata.get("function_name")) or as_text(event.get("action"))
    return ToolCallBlock(call_id or f"event_{event.get('id')}", name, arguments)
