"""The updates of version 1 for each kind of event."""

from __future__ import annotations

from typing import Any

import pytest

from acp_schema import check_update
from sidecar.acp.updates import UpdateMapperV1

USAGE: dict[str, Any] = {"used": 10, "window": 100, "limit": 80, "pct": 10.0, "source": "estimate"}
SHOWN_USAGE = {"sessionUpdate": "usage_update", "used": 10, "size": 100}
TEXT = {"type": "text", "text": "hello"}
THINKING = {"type": "thinking", "text": "hm"}
THOUGHT = {"type": "text", "text": "hm"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "AA=="}
LOST: dict[str, Any] = {"sid": "s", "from": 2, "to": 5, "reason": "slowClient"}
CALL: dict[str, Any] = {"toolCallId": "t1", "name": "read", "title": "Read a.py", "kind": "read"}
PLACE = [{"path": "/p/a.py", "line": 1}]
DIFF = {"path": "/p/a.py", "oldText": None, "newText": "x"}
COMPACTION: dict[str, Any] = {
    "compactionId": "c1",
    "engine": "windowBudget",
    "trigger": "manual",
    "status": "in_progress",
    "preTokens": 900,
}
DONE: dict[str, Any] = {
    **COMPACTION,
    "status": "completed",
    "postTokens": 90,
    "durationMs": 5,
    "summary": "in short",
}
OVERFLOW: dict[str, Any] = {**DONE, "trigger": "overflow"}
COUNTED: dict[str, Any] = {**DONE, "loss": {"kept": 9, "shortened": 1, "gone": 2}}
NOOP: dict[str, Any] = {**COMPACTION, "status": "noop", "reason": "too short"}
UNDONE: dict[str, Any] = {**DONE, "status": "undone", "trigger": "undo"}
FAILED: dict[str, Any] = {**COMPACTION, "status": "failed"}
FAILED_SO: dict[str, Any] = {**FAILED, "error": "no"}
CANCELLED: dict[str, Any] = {**COMPACTION, "status": "cancelled", "reason": "by the user"}
LOSS_LINE = "Facts of the folded part: 9 kept word for word, 1 shortened, 2 let go. /loss lists them."
MARK: dict[str, Any] = {"version": 1, "trigger": "manual", "preTokens": 900}
DONE_MARK: dict[str, Any] = {**MARK, "postTokens": 90, "durationMs": 5}
OPTION: dict[str, Any] = {
    "id": "permissions",
    "name": "Permissions",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "all", "name": "Never ask"}],
}
REHYDRATED: dict[str, Any] = {
    "files": [{"uri": "file:///p/a.py", "hash": "sha256:0", "source": "disk", "tokens": 1}],
    "missing": ["file:///p/b.py"],
}
SUBAGENT: dict[str, Any] = {"child": "s2", "toolCallId": "c1", "title": "Look", "state": "running"}
ASIDES: dict[str, dict[str, Any]] = {
    "queue": {"items": [{"itemId": "i"}]},
    "question": {"elicitationId": "e1"},
    "questionResolved": {"elicitationId": "e1"},
    "headMoved": {"head": "n", "removed": ["o"], "cause": "rewind"},
    "pinsChanged": {"pins": []},
    "sessionChosen": {"sid": "s2"},
    "rulesChanged": {"rules": []},
}
"""Events that the protocol does not know, which are in the meta of an update for clients of ours."""


def event(kind: str, /, seq: int = 7, **data: Any) -> dict[str, Any]:
    return {"sid": "s", "seq": seq, "at": 0, "kind": kind, "data": data}


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def chunk(kind: str, block: dict[str, Any], message_id: str = "m") -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": block, "messageId": message_id}


def answer(text: str, message_id: str = "m") -> dict[str, Any]:
    return chunk("agent_message_chunk", {"type": "text", "text": text}, message_id)


def aside(**ours: Any) -> dict[str, Any]:
    return {"sessionUpdate": "session_info_update", "_meta": {"sidecar": ours}}


def call(update: str, status: str, **fields: Any) -> dict[str, Any]:
    """Return the update of a call, which has no places unless *fields* name them."""
    tool = fields.get("name", CALL["name"])
    own = {"sessionUpdate": update, **CALL, "locations": [], "status": status}
    return {**own, "_meta": {"sidecar": {"tool": tool}}, **fields}


def think(update: str, status: str, mark: dict[str, Any], data: dict[str, Any], shown: str = "") -> Any:
    return {
        "sessionUpdate": update,
        "toolCallId": "compaction-c1",
        "title": "Compact conversation",
        "kind": "think",
        "status": status,
        "content": content(shown) if shown else [],
        "_meta": {"contextCompaction": mark, "sidecar": data},
    }


def check(
    events: list[Any], expected: list[Any], *, notices: bool = False, compactions: bool = False
) -> None:
    mapper = UpdateMapperV1(notices=notices, compactions=compactions)
    updates = [update for each in events for update in mapper.updates(each)]
    assert updates == expected
    for update in updates:
        check_update({"sessionId": "s", "update": update})


PLAIN = [
    pytest.param([event("userMessage", content=[TEXT], nodeId="n")], [], id="a client knows its own prompt"),
    pytest.param(
        [event("userMessage", content=[TEXT], nodeId="n", source={"clientId": "other", "name": "Zed"})],
        [chunk("user_message_chunk", TEXT, "n")],
        id="but not another client's",
    ),
    pytest.param(
        [event("userMessage", seq=0, content=[TEXT, IMAGE], nodeId="n")],
        [chunk("user_message_chunk", TEXT, "n"), chunk("user_message_chunk", IMAGE, "n")],
        id="a prompt of the past is mapped block by block",
    ),
    pytest.param(
        [event("textDelta", messageId="m", delta="hello"), event("message", messageId="m", content=[TEXT])],
        [answer("hello")],
        id="text that deltas have brought does not come again",
    ),
    pytest.param(
        [event("thinkingDelta", messageId="m", delta="hm")],
        [chunk("agent_thought_chunk", THOUGHT)],
        id="reasoning is a thought",
    ),
    pytest.param(
        [event("message", messageId="m", content=[THINKING, TEXT])],
        [chunk("agent_thought_chunk", THOUGHT), answer("hello")],
        id="an answer that did not stream comes whole",
    ),
    pytest.param(
        [event("textDelta", messageId="m", delta="hel"), event("message", messageId="m", content=[TEXT])],
        [answer("hel"), answer("lo")],
        id="the rest of an answer comes when deltas were lost",
    ),
    pytest.param(
        [event("textDelta", messageId="m", delta="lo"), event("message", messageId="m", content=[TEXT])],
        [answer("lo")],
        id="a client that came in the middle gets no beginning behind the end",
    ),
    pytest.param(
        [
            event("textDelta", messageId="m", delta="he"),
            event("gap", **LOST),
            event("textDelta", messageId="m", delta="o"),
            event("message", messageId="m", content=[TEXT]),
            event("textDelta", messageId="n", delta="hello"),
        ],
        [answer("he"), aside(gap=LOST), answer("llo"), answer("hello", "n")],
        id="deltas behind a lost one wait for the whole message",
    ),
    pytest.param(
        [
            event("textDelta", messageId="m", delta="hello"),
            event("message", messageId="m", content=[TEXT, IMAGE]),
        ],
        [answer("hello"), chunk("agent_message_chunk", IMAGE)],
        id="an image has no deltas",
    ),
    pytest.param(
        [event("message", seq=0, messageId="m", content=[TEXT, THINKING, TEXT])],
        [answer("hello"), chunk("agent_thought_chunk", THOUGHT), answer("hello")],
        id="an answer of the past comes in its order",
    ),
    pytest.param(
        [event("toolStarted", **CALL, input={"path": "a.py"}, locations=PLACE)],
        [call("tool_call", "in_progress", locations=PLACE, rawInput={"path": "a.py"})],
        id="a call begins with its kind, place and input",
    ),
    pytest.param(
        [event("toolStarted", **(CALL | {"kind": "_new"}), locations=[])],
        [call("tool_call", "in_progress", kind="other")],
        id="a kind the protocol does not know is other",
    ),
    pytest.param(
        [event("toolProgress", toolCallId="t1", content=text) for text in ("one\n", "two\n")],
        [
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "t1",
                "status": "in_progress",
                "content": content(text),
            }
            for text in ("one\n", "one\ntwo\n")
        ],
        id="the output of a call grows, because an update replaces it",
    ),
    pytest.param(
        [event("toolFinished", **CALL, content="1 x", isError=False, locations=PLACE, diffs=[])],
        [
            call(
                "tool_call_update",
                "completed",
                locations=PLACE,
                content=content("1 x"),
                rawOutput={"output": "1 x"},
            )
        ],
        id="a call ends with its output",
    ),
    pytest.param(
        [event("toolFinished", **(CALL | {"name": "edit"}), content="edited", isError=False, diffs=[DIFF])],
        [
            call(
                "tool_call_update",
                "completed",
                name="edit",
                content=[{"type": "diff", **DIFF, "_meta": {"sidecar": {"uri": "file:///p/a.py"}}}],
                rawOutput={"output": "edited"},
            )
        ],
        id="a change is shown as a diff, with the URI of its file",
    ),
    pytest.param(
        [event("toolFinished", **CALL, content={"rows": 3}, isError=True)],
        [call("tool_call_update", "failed", content=[], rawOutput={"rows": 3})],
        id="a failed call says so",
    ),
    pytest.param(
        [
            event(
                "plan",
                entries=[
                    {"content": "one", "status": "completed", "priority": "high"},
                    {"content": "two", "status": "_blocked", "priority": "_some"},
                ],
            )
        ],
        [
            {
                "sessionUpdate": "plan",
                "entries": [
                    {"content": "one", "status": "completed", "priority": "high"},
                    {"content": "two", "status": "pending", "priority": "medium"},
                ],
            }
        ],
        id="the plan comes whole, in words the protocol has",
    ),
    pytest.param(
        [event("usage", **USAGE)],
        [SHOWN_USAGE | {"_meta": {"sidecar": USAGE}}],
        id="usage is of the window, and says where it comes from",
    ),
    pytest.param(
        [event("usage", **{**USAGE, "window": 0})],
        [],
        id="usage of an unknown window is not shown as a window of nothing",
    ),
    pytest.param(
        [event("usage", **USAGE, cost=0.5)],
        [
            SHOWN_USAGE
            | {"cost": {"amount": 0.5, "currency": "USD"}, "_meta": {"sidecar": {**USAGE, "cost": 0.5}}}
        ],
        id="a known cost is included",
    ),
    pytest.param(
        [event("rehydrated", **REHYDRATED)],
        [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "restored-s-7",
                "title": "Read 1 file again",
                "kind": "read",
                "status": "completed",
                "locations": [{"path": "/p/a.py"}],
                "content": content("/p/a.py\nfile:///p/b.py cannot be read any more"),
                "_meta": {"sidecar": {"rehydrated": REHYDRATED}},
            }
        ],
        id="files that came back are a completed read",
    ),
    *(
        pytest.param([event(kind, **data)], [aside(**{kind: data})], id=f"{kind} is in the meta")
        for kind, data in ASIDES.items()
    ),
    pytest.param(
        [event("configChanged", configOptions=[OPTION])],
        [
            {"sessionUpdate": "config_option_update", "configOptions": [OPTION]},
            {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
        ],
        id="options come whole, and the mode for clients older than options",
    ),
    pytest.param(
        [event("configChanged", configOptions=[])],
        [{"sessionUpdate": "config_option_update", "configOptions": []}],
        id="no mode, no mode update",
    ),
    pytest.param(
        [
            event(
                "commandsChanged",
                commands=[
                    {"name": "compact", "description": "d", "hint": "[engine]"},
                    {"name": "status", "description": "e"},
                ],
            )
        ],
        [
            {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [
                    {"name": "compact", "description": "d", "input": {"hint": "[engine]"}},
                    {"name": "status", "description": "e"},
                ],
            }
        ],
        id="slash commands are on offer",
    ),
    pytest.param(
        [event("infoChanged", title="", updatedAt=0, archived=True)],
        [aside(archived=True) | {"title": None, "updatedAt": "1970-01-01T00:00:00.000Z"}],
        id="a session without a title has none",
    ),
    pytest.param(
        [event("subagent", **SUBAGENT)],
        [
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c1",
                "_meta": {"sidecar": {"subagent": SUBAGENT}},
            }
        ],
        id="a sub-agent is named at its call",
    ),
    pytest.param([event("phase", phase="idle")], [], id="phases have no update"),
    pytest.param([event("settled"), event("faulted")], [], id="the end of a turn answers its prompt"),
    pytest.param([event("_new")], [], id="an unknown kind has no update"),
    pytest.param(
        [event("compaction", **COMPACTION), event("compaction", **DONE)],
        [
            think("tool_call", "in_progress", MARK, COMPACTION),
            think("tool_call_update", "completed", DONE_MARK, DONE, "in short"),
        ],
        id="a compaction is a call that thinks",
    ),
    pytest.param(
        [event("compaction", **OVERFLOW)],
        [think("tool_call", "completed", {**DONE_MARK, "trigger": "automatic"}, OVERFLOW, "in short")],
        id="a compaction that is already over is one call",
    ),
    pytest.param(
        [event("compaction", **DONE), event("compaction", **COUNTED)],
        [
            think("tool_call", "completed", DONE_MARK, DONE, "in short"),
            think("tool_call_update", "completed", DONE_MARK, COUNTED, f"in short\n\n{LOSS_LINE}"),
        ],
        id="facts that are counted behind the outcome are read in its call",
    ),
    pytest.param(
        [event("compaction", **FAILED_SO)],
        [think("tool_call", "failed", {**MARK, "error": "no"}, FAILED_SO, "no")],
        id="a failed compaction is a failed call",
    ),
    pytest.param(
        [event("compactionSummaryDelta", compactionId="c1", delta="in ")], [], id="a summary comes whole"
    ),
]


@pytest.mark.parametrize(("events", "expected"), PLAIN)
def test_the_updates_for_any_client(events: list[Any], expected: list[Any]) -> None:
    check(events, expected)


def test_the_table_has_every_kind_except_those_that_answer_a_prompt() -> None:
    updates = {each["kind"] for case in PLAIN for each in case.values[0]}  # type: ignore[union-attr]  # lists alone
    others = {"notice", "fileStale", "retry", "compactionNear", "budgetNear"}
    assert (
        updates - {"phase", "settled", "faulted", "_new"} | others
        == UpdateMapperV1(notices=False, compactions=False).kinds
    )


NOTICES = [
    pytest.param(
        "notice",
        {"severity": "error", "title": "No disk", "description": "in memory"},
        {"severity": "error", "title": "No disk", "description": "in memory"},
        id="a notice",
    ),
    pytest.param(
        "notice", {"severity": "info", "title": "Hm"}, {"severity": "info", "title": "Hm"}, id="a short one"
    ),
    pytest.param(
        "compactionNear",
        {"used": 112_000, "limit": 148_464, "window": 200_000, "prepared": True},
        {
            "severity": "info",
            "title": "A compaction is near",
            "description": "112,000 of 148,464 tokens; "
            "/compact with a wish decides what the summary stresses",
        },
        id="a compaction that is near",
    ),
    pytest.param(
        "budgetNear",
        {"per": "day", "usd": 5.0, "tokens": 9_000, "spentUsd": 4.2, "spentTokens": 1_000},
        {
            "severity": "warning",
            "title": "A budget is nearly used up",
            "description": "$4.20 of $5 and 1,000 of 9,000 tokens for this day are spent",
        },
        id="a budget that is nearly used up",
    ),
    pytest.param(
        "fileStale",
        {"uri": "file:///a", "readHash": "sha256:0", "nowHash": "sha256:1", "source": "disk"},
        {
            "severity": "info",
            "title": "A file has changed since it was read",
            "description": "file:///a",
        },
        id="a stale file",
    ),
    pytest.param(
        "fileStale",
        {"uri": "file:///a", "readHash": "sha256:0", "nowHash": None, "source": "disk"},
        {"severity": "info", "title": "A file is gone since it was read", "description": "file:///a"},
        id="a deleted file",
    ),
    pytest.param(
        "retry",
        {"attempt": 1, "max": 3, "delayMs": 1500, "error": "busy"},
        {
            "severity": "warning",
            "title": "The model did not answer; trying again in 2 seconds",
            "description": "busy (1 of 3)",
        },
        id="another try",
    ),
]


PROBLEM: dict[str, Any] = {"title": "No git", "description": "not installed"}
AGAIN: dict[str, Any] = {"attempt": 1, "max": 3, "delayMs": 1500, "error": "busy"}
BROKEN_OFF = (
    "Warning: The answer broke off, and what was shown of it does not count; trying again in 2 seconds: "
    "busy (1 of 3)"
)


@pytest.mark.parametrize(
    ("kind", "data", "update", "text"),
    [
        pytest.param("notice", {"severity": "info", **PROBLEM}, None, None, id="an info stays aside"),
        *(
            pytest.param(
                "notice",
                {"severity": word.lower(), **PROBLEM},
                "agent_message_chunk",
                f"{word}: No git: not installed",
                id=f"the text of a {word}",
            )
            for word in ("Warning", "Error")
        ),
        pytest.param(
            "retry",
            AGAIN,
            "agent_thought_chunk",
            "Warning: The model did not answer; trying again in 2 seconds: busy (1 of 3)",
            id="another try is a thought",
        ),
        pytest.param(
            "retry",
            {**AGAIN, "withdrawn": "t1.0"},
            "agent_message_chunk",
            BROKEN_OFF,
            id="an answer that broke off is withdrawn where it stands, for it cannot be taken back",
        ),
    ],
)
def test_a_problem_is_written_into_the_conversation_of_a_client_without_notices(
    kind: str, data: dict[str, Any], update: str | None, text: str | None
) -> None:
    meta = aside(**{kind: data})
    block = {"type": "text", "text": f"\n\n{text}\n\n"}
    expected = meta if update is None else meta | chunk(update, block, "notice-7")
    check([event(kind, **data)], [expected], compactions=True)


@pytest.mark.parametrize(("kind", "data", "notice"), NOTICES)
def test_a_notice_is_for_clients_that_take_them(
    kind: str, data: dict[str, Any], notice: dict[str, Any]
) -> None:
    """The protocol forbids to send it to any other."""
    updates = aside(**{kind: data}) | {"sessionUpdate": "notice", **notice}
    check([event(kind, **data)], [updates], notices=True)


def update(status: str, mark: dict[str, Any], data: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = {"contextCompaction": mark, "sidecar": data}
    return {
        "sessionUpdate": "compaction_update",
        "compactionId": "c1",
        "status": status,
        "_meta": meta,
        **more,
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [
                event("compaction", **COMPACTION),
                event("compactionSummaryDelta", compactionId="c1", delta="in short"),
                event("compaction", **DONE),
            ],
            [
                update("in_progress", MARK, COMPACTION),
                {
                    "sessionUpdate": "compaction_summary_chunk",
                    "compactionId": "c1",
                    "content": {"type": "text", "text": "in short"},
                },
                update("completed", DONE_MARK, DONE, summary=[{"type": "text", "text": "in short"}]),
            ],
            id="from its beginning to its summary",
        ),
        pytest.param(
            [event("compaction", **COUNTED)],
            [
                update(
                    "completed",
                    DONE_MARK,
                    COUNTED,
                    summary=[{"type": "text", "text": "in short"}, {"type": "text", "text": LOSS_LINE}],
                )
            ],
            id="with the facts that it kept and let go",
        ),
        pytest.param(
            [event("compaction", **FAILED)],
            [update("failed", MARK, FAILED, error="the compaction failed")],
            id="a failure has a reason",
        ),
        pytest.param(
            [event("compaction", **CANCELLED)], [update("cancelled", MARK, CANCELLED)], id="a cancelled one"
        ),
        pytest.param(
            [event("compaction", **NOOP)],
            [think("tool_call", "completed", MARK, NOOP, "too short")],
            id="a compaction that did nothing is a call",
        ),
        pytest.param(
            [event("compaction", **COMPACTION), event("compaction", **NOOP)],
            [update("in_progress", MARK, COMPACTION), update("completed", MARK, NOOP)],
            id="unless it had begun",
        ),
        pytest.param(
            [event("compaction", **UNDONE)],
            [
                think("tool_call", "completed", DONE_MARK, UNDONE)
                | {"toolCallId": "undo-c1", "title": "Compact conversation: undone"}
            ],
            id="undoing is a call of its own",
        ),
    ],
)
def test_a_client_that_takes_compactions(events: list[Any], expected: list[Any]) -> None:
    check(events, expected, compactions=True)


def test_the_output_shown_of_a_running_call_is_bounded() -> None:
    mapper = UpdateMapperV1(notices=False, compactions=False)
    line = "x" * 1000
    for _ in range(50):
        (updates,) = mapper.updates(event("toolProgress", toolCallId="t1", content=line))
    assert len(updates["content"][0]["content"]["text"]) == 16_000


RULE = {"id": "r1", "text": "never push to main", "source": "prompt", "at": 5, "holds": True, "conflicts": []}


def rules(seq: int, *standing: dict[str, Any], turn_id: str | None = "t") -> dict[str, Any]:
    return event("rulesChanged", seq=seq, rules=list(standing)) | (
        {} if turn_id is None else {"turnId": turn_id}
    )


def test_a_rule_is_shown_when_it_is_kept_and_when_it_is_taken_back() -> None:
    mapper = UpdateMapperV1(notices=False, compactions=False)
    (kept,) = mapper.updates(rules(8, RULE))
    assert (kept["sessionUpdate"], kept["title"], kept["status"]) == ("tool_call", "Keep a rule", "completed")
    assert kept["content"] == content("never push to main\n/forget r1 takes it back")
    (aside,) = mapper.updates(rules(9, RULE))
    assert aside["sessionUpdate"] == "session_info_update"
    (gone,) = mapper.updates(rules(10, turn_id=None))
    assert (gone["title"], gone["content"]) == ("Take a rule back", content("No longer: never push to main"))


def test_rules_that_a_session_is_opened_with_are_no_news() -> None:
    mapper = UpdateMapperV1(notices=False, compactions=False)
    (aside,) = mapper.updates(rules(1, RULE, turn_id=None))
    assert aside["sessionUpdate"] == "session_info_update"
    other = RULE | {"id": "r2", "text": "use tabs"}
    (kept,) = mapper.updates(rules(2, RULE, other, turn_id=None))
    assert kept["content"] == content("use tabs\n/forget r2 takes it back")


def test_news_of_a_turn_are_thoughts() -> None:
    news = event("notice", severity="info", title="Model", description="offline-1") | {"turnId": "t"}
    (shown,) = UpdateMapperV1(notices=False, compactions=False).updates(news)
    assert (shown["sessionUpdate"], shown["content"]["text"]) == (
        "agent_thought_chunk",
        "\n\nInfo: Model: offline-1\n\n",
    )


def test_a_client_that_takes_plans_by_their_ids() -> None:
    mapper = UpdateMapperV1(notices=False, compactions=False, plans=True)
    entry = {"content": "find it", "priority": "medium", "status": "completed"}
    plan = {"type": "items", "planId": "plan-s", "entries": [entry]}
    assert [*mapper.updates(event("plan", entries=[entry]))] == [
        {"sessionUpdate": "plan_update", "plan": plan}
    ]
    assert [*mapper.updates(event("plan", entries=[]))] == [
        {"sessionUpdate": "plan_removed", "planId": "plan-s"}
    ]


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        pytest.param("settled", {"stopReason": "cancelled"}, "Warning: The turn was stopped", id="stopped"),
        pytest.param(
            "settled",
            {"stopReason": "max_tokens"},
            "Warning: The turn ended early: max tokens",
            id="ended by a limit",
        ),
        pytest.param("faulted", {"message": "no key"}, "Error: The turn failed: no key", id="failed"),
    ],
)
def test_a_turn_of_the_past_without_a_whole_answer_has_a_mark_behind_it(
    kind: str, data: dict[str, Any], text: str
) -> None:
    """A live one answers its prompt, and the client shows the reason."""
    past, live = event(kind, seq=0, **data) | {"turnId": "t"}, event(kind, **data) | {"turnId": "t"}
    shown = chunk("agent_message_chunk", {"type": "text", "text": f"\n\n{text}\n\n"}, "notice-t")
    check([live, past], [aside(**{kind: data}) | shown])
