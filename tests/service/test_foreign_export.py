"""Conversations in the forms of other agents: read back, they are what they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imported_sessions import shown
from sidecar.conductor.contract import Compaction
from sidecar.conductor.records import SessionInfo
from sidecar.conversation import Entry, EntryKind, kind_by_role
from sidecar.importing.reading import read_session
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
)
from sidecar.runtime.store import SessionGraph
from sidecar.service.export import ForeignFormat, export_foreign
from sidecar.service.replay import timeline

INFO = SessionInfo(
    sid="0ed48b6ef87051cde314b35d61cb688c",
    cwd="/w",
    model="offline-1",
    engine="windowBudget",
    created_at=1_760_000_000_000,
    updated_at=1_760_000_000_000,
    title="Parser",
)
FORMS: tuple[ForeignFormat, ...] = ("claude-code", "codex")


def exported(*given: Any) -> str:
    """Return the whole text of an export."""
    return "".join(export_foreign(*given))


def user(*blocks: Block | str, kind: EntryKind = "user") -> Entry:
    return Entry(UserTurn(tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks)), kind)


def entry(turn: AssistantTurn | ToolTurn) -> Entry:
    return Entry(turn, kind_by_role(turn))


TALK = (
    user("read it", ImageBlock("image/png", "aGk=")),
    entry(
        AssistantTurn(
            (
                ThinkingBlock("hm", "proof"),
                TextBlock("Looking."),
                ToolCallBlock("c1", "read", {"path": "a.md"}),
                ToolCallBlock("c2", "bash", {"command": "make"}),
            )
        )
    ),
    entry(ToolTurn((ToolResultBlock("c1", "x\n"), ToolResultBlock("c2", "no rule", is_error=True)))),
    user(CommandBlock("clear")),
    user("and now?"),
    entry(AssistantTurn((TextBlock("Done. ümläut \u2028"),))),
)
SHOWN = [
    "user: read it | <image/png>",
    "assistant: Looking. | read#c1 | bash#c2",
    "tool: #c1=x\n | #c2!no rule",
    "user: /clear",
    "user: and now?",
    "assistant: Done. ümläut \u2028",
]


def graph_of(*entries: Entry) -> SessionGraph:
    graph = SessionGraph("s", lambda: 1_760_000_000_000)
    for each in entries:
        graph.append_entry(each)
    return graph


def read_back(folder: Path, text: str) -> tuple[list[str], Any]:
    path = folder / "exported.jsonl"
    path.write_text(text, encoding="utf-8")
    session = read_session(path)
    return shown(session), session


@pytest.mark.parametrize("form", FORMS)
def test_an_exported_conversation_reads_back_as_it_was(tmp_path: Path, form: ForeignFormat) -> None:
    graph = graph_of(*TALK)
    text = exported(INFO, [*graph.entries.values()], form)
    found, session = read_back(tmp_path, text)
    assert found == SHOWN
    assert (session.report.format, session.title, session.cwd) == (form, "Parser", "/w")
    assert session.report.notes == {}
    assert session.created_at == 1_760_000_000_000


def compacted() -> tuple[SessionGraph, list[Any]]:
    """Return a conversation that was compacted once, with its newest turn kept, and its timeline."""
    graph = graph_of(*TALK[:4], TALK[4])
    before = list(graph.entries.values())
    graph.resume(None)
    graph.append_entry(
        replace(user("We read it.", kind="summary"), origin=tuple(n.node_id for n in before[:4]))
    )
    graph.append_entry(user("a.md as it is now", kind="file"))
    after = graph.append_entry(TALK[4]).node_id
    graph.append_entry(TALK[5])
    done = Compaction(
        compaction_id="k1",
        engine="windowBudget",
        trigger="auto",
        status="completed",
        pre_tokens=900,
        pre_count=5,
        dropped_count=4,
        cut=4,
        microcompacted=0,
        before_head=before[-1].node_id,
        after_head=after,
        kept_from=before[4].node_id,
        undoable=True,
        summary="We read it.",
    )
    return graph, timeline(graph, [done], graph.leaf)


@pytest.mark.parametrize("form", FORMS)
def test_a_compaction_is_exported_where_it_happened(tmp_path: Path, form: ForeignFormat) -> None:
    _, story = compacted()
    found, session = read_back(tmp_path, exported(INFO, story, form))
    assert found == ["summary: We read it.", SHOWN[4], SHOWN[5]]
    assert session.report.n_compactions == 1
    assert session.report.entries == {"user": 3, "assistant": 2, "tool": 1, "summary": 1}


@pytest.mark.parametrize("form", FORMS)
def test_the_view_of_the_model_is_exported_alone(tmp_path: Path, form: ForeignFormat) -> None:
    graph, _ = compacted()
    text = exported(INFO, graph.entry_path(graph.leaf), form)
    found, session = read_back(tmp_path, text)
    assert found == ["summary: We read it.", SHOWN[4], SHOWN[5]]
    assert session.report.notes == {"hostText": 1}  # the restored file


def test_lines_of_claude_code_hang_on_each_other() -> None:
    _, story = compacted()
    lines = list(map(json.loads, exported(INFO, story, "claude-code").strip().split("\n")))
    messages = [line for line in lines if "uuid" in line]
    roots = [line for line in messages if line["parentUuid"] is None]
    assert [line.get("subtype") for line in roots] == [None, "compact_boundary"]
    assert len({line["uuid"] for line in messages}) == len(messages)
    assert {line["sessionId"] for line in messages} == {"0ed48b6e-f870-51cd-e314-b35d61cb688c"}
    assert lines[-1] == {"type": "summary", "summary": "Parser", "leafUuid": messages[-1]["uuid"]}


def test_a_call_of_another_provider_gets_an_id_that_claude_accepts() -> None:
    call, result = ToolCallBlock("call|1:x", "ls", ["a"]), ToolResultBlock("call|1:x", {"n": 1})
    graph = graph_of(user("hi"), entry(AssistantTurn((call,))), entry(ToolTurn((result,))))
    lines = map(json.loads, exported(INFO, [*graph.entries.values()], "claude-code").strip().split("\n"))
    _, used, answered, _ = (line.get("message", {}).get("content") for line in lines)
    assert used == [{"type": "tool_use", "id": "call_1_x", "name": "ls", "input": {"value": ["a"]}}]
    assert answered == [{"type": "tool_result", "tool_use_id": "call_1_x", "content": '{"n": 1}'}]
