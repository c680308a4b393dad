"""Every event, member, word and error that the schema names occurs in the recorded day, on each face.

What cannot occur has no place in the schema. Golden messages do not count: they are examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from repository import ONE_TEST
from sidecar.protocol.errors import ERROR_KINDS
from sidecar.protocol.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    EVENTS,
    METHODS,
    NOTIFICATIONS,
    Method,
    NotificationMethod,
)
from sidecar.protocol.schema import Schema, protocol_shapes
from tests.same.canonical import messages_of
from tests.same.compare import FOLDER, NAMES
from tests.same.engine_texts import TEXTS

_TESTS: Final = Path(__file__).parents[1]
_SHAPES: Final = protocol_shapes()
_REQUESTS: Final = {**METHODS, **CLIENT_REQUESTS}
_MESSAGES: Final[Mapping[str, Method | NotificationMethod]] = {
    **_REQUESTS,
    **CLIENT_NOTIFICATIONS,
    **NOTIFICATIONS,
}

ELSEWHERE: Final[Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]] = {
    # They need PostgreSQL, where one daemon loses a session to another. The ACP face has another code for it.
    (
        "runtime/store/postgres/test_daemons.py",
        "test_a_daemon_that_lost_its_lease_refuses_the_turn_and_says_so",
    ): {"lsp": ("error leaseLost",), "acp": ("error leaseLost",)},
    (
        "runtime/store/postgres/test_daemons.py",
        "test_an_idle_session_moves_from_machine_to_machine",
    ): {"lsp": ("SessionSummary.lease",)},
    # They take a message or a file of many megabytes, unless a test sets the limit.
    ("service/test_frontend.py", "test_the_limits_of_a_connection_are_kept"): {
        "lsp": ("error messageTooLarge",),
        "acp": ("error messageTooLarge",),
    },
    ("conductor/checkpoints/test_checkpoints.py", "test_a_large_file_is_named_and_not_kept"): {
        "lsp": ("CheckpointFile.problem",)
    },
    # It takes a tool server made with a package that need not be installed.
    ("service/test_frontend.py", "test_a_form_is_answered_as_far_as_the_client_can_show_it"): {
        "lsp": ("Elicitation.url",)
    },
    # They take a defect.
    ("service/test_frontend.py", "test_an_unexpected_exception_shows_nothing_of_itself"): {
        "lsp": ("error internal",),
        "acp": ("error internal",),
    },
    ("conductor/compaction/test_compacting.py", "test_what_a_failure_quotes_is_in_no_log"): {
        "lsp": ("Compaction.status = failed", "Compaction.error")
    },
    # It takes a summary of an earlier version, or a window in which not even places have room.
    (
        "conductor/compaction/test_loss.py",
        "test_without_a_chronicle_all_is_gone_and_the_list_outlives_a_restart",
    ): {"lsp": ("ReportedFact.state = gone",)},
    # The records have the first change of the list alone, and nobody attaches while a session waits.
    ("conductor/test_work.py", "test_every_decision_of_the_user_is_waited_for"): {
        "lsp": tuple(
            f"{shape}.{word}"
            for shape in ("SessionSnapshot", "SessionSummary")
            for word in ("waitingFor = permission", "waitingFor = budget")
        )
    },
    # It takes sixty prompts.
    (
        "conductor/test_price_trigger.py",
        "test_the_limit_falls_as_the_conversation_goes_on_and_the_context_says_why",
    ): {"lsp": ("ContextUsage.limitBy = price",)},
    # They take a client that comes while a sub-agent is at work.
    (
        "attach/test_subagents.py",
        "test_a_killed_daemon_leaves_an_interrupted_child_and_a_call_with_one_result",
    ): {"lsp": ("SessionSummary.task = running", "SessionSummary.task = interrupted")},
    (
        "attach/test_subagents.py",
        "test_a_child_that_is_stopped_ends_the_call_and_one_without_a_client_is_closed_and_read",
    ): {"lsp": ("SubagentChanged.state = interrupted",)},
    (
        "attach/test_subagents.py",
        "test_a_question_of_a_child_reaches_the_clients_of_both_once_and_one_of_them_steers_it",
    ): {"lsp": ("SessionSnapshot.kind = subagent",)},
    # It takes a client that shows forms, and a sub-agent that has a question.
    ("attach/test_subagents.py", "test_a_form_of_a_child_reaches_the_clients_of_both_once"): {
        "lsp": ("Elicitation.child",)
    },
    # A server that ends is started again after a second, so that nobody knows which state a client sees.
    (
        "capabilities/mcp/test_servers.py",
        "test_the_tools_of_a_server_that_ends_stay_declared_until_the_next_prompt",
    ): {"lsp": ("ListedServer.state = running", "ListedServer.state = restarting")},
}
"""What the recorded day does not have, on which face, by the file and the test that sees it."""


def words_of(kind: Schema) -> Iterator[str]:
    """Yield the words that a value of *kind* may be or have."""
    match kind:
        case {"enum": words}:
            yield from words
        case {"items": inner} | {"additionalProperties": inner}:
            yield from words_of(inner)
        case {"anyOf": arms}:
            for arm in arms:
                yield from words_of(arm)


def found_in(kind: Schema, value: Any, where: str) -> Iterator[str]:
    """Yield the members and words that occur in *value*; *where* is the member that has it."""
    match kind, value:
        case {"enum": words}, str():
            yield from (f"{where} = {word}" for word in words if word == value)
        case {"$ref": str(ref)}, _:
            yield from found_in_shape(ref.rpartition("/")[2], value)
        case {"items": item}, list():
            for each in value:
                yield from found_in(item, each, where)
        case {"additionalProperties": item}, dict():
            for each in value.values():
                yield from found_in(item, each, where)
        case {"anyOf": arms}, _:
            for arm in arms:
                yield from found_in(arm, value, where)


def members_of(name: str) -> Iterable[tuple[str, Schema]]:
    """Return the members of the shape *name*."""
    members: Mapping[str, Schema] = _SHAPES[name].get("properties", {})
    return members.items()


def found_in_shape(name: str, value: Any) -> Iterator[str]:
    """Yield the members and words that occur in *value*, a shape *name* or null."""
    for member, kind in members_of(name):
        if isinstance(value, dict) and member in value:
            yield f"{name}.{member}"
            yield from found_in(kind, value[member], f"{name}.{member}")


def shape_names(names: Iterable[str]) -> set[str]:
    """Return *names* of shapes, and those of the shapes in them."""
    found, waiting = set[str](), list(names)

    def named(kind: Schema) -> Iterator[str]:
        match kind:
            case {"$ref": str(ref)}:
                yield ref.rpartition("/")[2]
            case {"items": inner} | {"additionalProperties": inner}:
                yield from named(inner)
            case {"anyOf": arms}:
                for arm in arms:
                    yield from named(arm)

    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for _, kind in members_of(name):
                waiting.extend(named(kind))
    return found


def wanted_on(face: str) -> Iterator[str]:
    """Yield what must occur on *face*.

    The ACP face has requests of its own to a client, and updates in place of our events. Its records
    have hashes in place of the results of our methods, which the same handlers make. So members and words are
    those of the requests of a client alone.
    """
    yield from (f"event {kind}" for kind in EVENTS)
    yield from (f"error {kind}" for kind in ERROR_KINDS)
    requests = _REQUESTS if face == "lsp" else METHODS
    yield from (*requests, *CLIENT_NOTIFICATIONS, *NOTIFICATIONS)
    yield from (f"answer to {method}" for method in requests)
    sent = [_MESSAGES[name].params.__name__ for name in (*METHODS, *CLIENT_NOTIFICATIONS)]
    names = shape_names(sent) if face == "acp" else _SHAPES
    for name in sorted(names):
        for member, kind in members_of(name):
            yield f"{name}.{member}"
            yield from (f"{name}.{member} = {word}" for word in words_of(kind))


@cache
def seen_in_records() -> Mapping[str, frozenset[str]]:
    """Return what occurs in the records, by the face that it occurs on."""
    found: Mapping[str, set[str]] = {"lsp": set(), "acp": set()}
    for name in NAMES:
        if name not in TEXTS:
            for face, each in _read_record(name):
                found[face].add(each)
    return {face: frozenset(seen) for face, seen in found.items()}


def _read_record(name: str) -> Iterator[tuple[str, str]]:
    asked: dict[tuple[str, Any], str] = {}
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    for face, side, message in messages_of(lines, name.partition("-")[0]):
        yield from ((face, each) for each in _read_message(message, side, asked))


def _read_message(message: Mapping[str, Any], side: str, asked: dict[tuple[str, Any], str]) -> Iterator[str]:
    """Yield what occurs in a message; *asked* has the requests before it by side and number, and gets it."""
    method, number = str(message.get("method", "")).removeprefix("_"), message.get("id")
    if method in _MESSAGES:
        asked[side, number] = method
        yield method
        params = message.get("params", {})
        yield from found_in_shape(_MESSAGES[method].params.__name__, params)
        if method == "sidecar/event":
            yield from _read_event(params["kind"], params["data"])
    elif method == "session/update":
        meta = message["params"]["update"].get("_meta", {})
        ours = meta.get("sidecar", {})
        kind = "compaction" if "contextCompaction" in meta else "usage" if "window" in ours else ""
        for each, data in {kind: ours, **ours}.items():
            yield from _read_event(each, data) if each in EVENTS else ()
        yield from UPDATES.get(message["params"]["update"]["sessionUpdate"], ())
    elif "error" in message:
        yield f"error {(message['error'].get('data') or {}).get('kind')}"
    elif "result" in message:
        other = "-->" if side == "<--" else "<--"
        if (row := _REQUESTS.get(asked.get((other, number), ""))) is not None:
            yield f"answer to {row.name}"
            yield from found_in_shape(row.result.__name__, message["result"])


def _read_event(kind: str, data: Any) -> Iterator[str]:
    yield f"event {kind}"
    yield from found_in_shape(EVENTS[kind].__name__, data)


UPDATES: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_message_chunk": ("event textDelta", "event message"),
    "agent_thought_chunk": ("event thinkingDelta",),
    "user_message_chunk": ("event userMessage",),
    "tool_call": ("event toolStarted",),
    "tool_call_update": ("event toolProgress", "event toolFinished"),
    "plan": ("event plan",),
    "compaction_summary_chunk": ("event compactionSummaryDelta",),
    "config_option_update": ("event configChanged",),
    "available_commands_update": ("event commandsChanged",),
    "session_info_update": ("event infoChanged",),
}
"""The events that an update of the ACP face stands for, where it has none of their names in ``_meta``."""


def seen_elsewhere(face: str) -> set[str]:
    """Return what the tests of the table see on *face*; a member is seen with one of its words."""
    words = {each for row in ELSEWHERE.values() for each in row.get(face, ())}
    return words | {each.partition(" = ")[0] for each in words}


@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_what_the_schema_names_occurs_in_the_day_or_is_looked_for_elsewhere(face: str) -> None:
    wanted, in_records = [*wanted_on(face)], seen_in_records()[face]
    seen = in_records | seen_elsewhere(face)
    assert [each for each in wanted if each not in seen] == []
    rows = [each for row in ELSEWHERE.values() for each in row.get(face, ())]
    assert [each for each in rows if each in in_records or each not in wanted] == []


def test_the_named_tests_are_there_and_have_the_words() -> None:
    missing = []
    for (path, name), seen in ELSEWHERE.items():
        text = (_TESTS / path).read_text(encoding="utf-8")
        source = {test["name"]: test[0] for test in ONE_TEST.finditer(text)}
        words = {re.split("[ .]", each)[-1] for row in seen.values() for each in row}
        missing += [(name, word) for word in words if word not in source.get(name, "")]
    assert missing == []
