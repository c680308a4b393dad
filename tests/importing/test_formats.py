"""Small sessions of every format, written for these tests: what a reader makes of them, entry by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from imported_sessions import import_records, path_of, shown
from sidecar.importing.aider import read_aider
from sidecar.importing.builder import ImportBuilder
from sidecar.importing.chat import is_chat
from sidecar.importing.claude_code import is_claude_code
from sidecar.importing.codex import is_codex
from sidecar.importing.contract import NOTES
from sidecar.importing.copilot_cli import is_copilot_cli
from sidecar.importing.gemini_cli import is_gemini_cli
from sidecar.importing.opencode import is_opencode
from sidecar.importing.openhands import is_openhands
from sidecar.importing.pi import is_pi
from sidecar.importing.reading import read_session
from sidecar.importing.registry import FORMATS, recognise_format
from sidecar.runtime.wire import NO_RESULT

AT = "2026-11-22T10:00:00.000Z"
PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}


def claude(kind: str, content: Any, uuid: str = "", parent: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    ids = {"uuid": uuid or f"{id(content)}", "parentUuid": parent}
    return {"type": kind, "message": message, "sessionId": "s", "cwd": "/w", "timestamp": AT, **ids, **more}


def result(call_id: str, text: str, *, is_error: bool = False) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}]


def tool_use(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


CLAUDE = [
    claude("user", "Caveat: it was local", isMeta=True),
    claude("user", [{"type": "text", "text": "look"}, {"type": "image", "source": PNG}]),
    claude("assistant", [{"type": "thinking", "thinking": "hm", "signature": "x"}], message={"id": "m1"}),
    claude("assistant", [{"type": "text", "text": "I read."}], message={"id": "m1"}),
    claude("assistant", [tool_use("t1", "Read", file_path="/w/a.py")], message={"id": "m1"}),
    claude("user", result("t1", "1\tx"), toolUseResult={"file": {"filePath": "/w/a.py", "content": "x"}}),
    claude("assistant", [tool_use("t2", "Bash", command="make")], message={"id": "m1"}),
    claude("user", "inside a subagent", isSidechain=True),
    claude("user", result("t2", "boom", is_error=True)),
    claude("user", "<bash-input>git status</bash-input>"),
    claude("user", "<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>"),
    claude("user", "<command-name>/review</command-name>\n<command-args>the parser</command-args>"),
    claude("user", "<command-name>/clear</command-name>\n<command-args></command-args>"),
    claude("user", "<local-command-stdout>ok</local-command-stdout>"),
    claude("user", "[Request interrupted by user]"),
    claude("assistant", [{"type": "redacted_thinking", "data": "x"}], message={"id": "m2"}),
    {"type": "custom-title", "customTitle": "Parser", "sessionId": "s"},
    {"type": "novelty", "sessionId": "s"},
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "c1", "cwd": "/w"}, "timestamp": AT},
    *(
        {"type": "response_item", "timestamp": AT, "payload": payload}
        for payload in (
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "<environment_context>x</environment_context>"},
                    {"type": "input_text", "text": "Fix it"},
                    {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
                ],
            },
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "**Plan**"}]},
            {"type": "function_call", "call_id": "1", "name": "shell", "arguments": '{"command":["ls"]}'},
            {"type": "custom_tool_call", "call_id": "2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "web_search_call", "action": {"query": "x"}},
            {"type": "custom_tool_call_output", "call_id": "2", "output": "Exit code: 1\nno"},
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": json.dumps({"output": "a.py", "metadata": {"exit_code": 0}}),
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again"}]},
        )
    ),
    {
        "type": "compacted",
        "timestamp": AT,
        "payload": {
            "message": "So far.",
            "replacement_history": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again"}]}
            ],
        },
    },
]
PI = [
    {"type": "session", "version": 3, "id": "p1", "cwd": "/w", "timestamp": AT},
    *(
        {"type": "message", "id": key, "parentId": parent, "timestamp": AT, "message": message}
        for key, parent, message in (
            ("a", None, {"role": "user", "content": "hi"}),
            (
                "b",
                "a",
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm"},
                        {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "a.py"}},
                    ],
                },
            ),
            (
                "c",
                "b",
                {"role": "toolResult", "toolCallId": "1", "content": [{"type": "text", "text": "x\n"}]},
            ),
            ("d", "c", {"role": "bashExecution", "command": "ls", "output": "a.py\n", "exitCode": 0}),
            ("e", "d", {"role": "user", "content": "wrong way"}),
            ("f", "d", {"role": "user", "content": [{"type": "text", "text": "right way"}]}),
        )
    ),
    {"type": "compaction", "id": "g", "parentId": "f", "summary": "So far.", "firstKeptEntryId": "f"},
    {
        "type": "message",
        "id": "h",
        "parentId": "g",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
    },
]
COPILOT = [
    {"type": "session.start", "data": {"sessionId": "o1", "context": {"cwd": "/w"}}, "timestamp": AT},
    {"type": "system.message", "data": {"content": "You are"}},
    {"type": "user.message", "id": "u1", "data": {"content": "Fix it", "attachments": []}},
    {"type": "user.message", "id": "u2", "data": {"content": "a skill", "source": "skill"}},
    {
        "type": "assistant.message",
        "data": {
            "content": "I look.",
            "reasoningText": "hm",
            "toolRequests": [
                {"toolCallId": "1", "name": "view", "arguments": {"path": "/w/a.py"}},
                {"toolCallId": "2", "name": "bash", "arguments": {"command": "make"}},
            ],
        },
    },
    {
        "type": "assistant.message",
        "data": {
            "content": "sub",
            "parentToolCallId": "2",
            "toolRequests": [{"toolCallId": "9", "name": "x"}],
        },
    },
    {
        "type": "tool.execution_complete",
        "data": {"toolCallId": "9", "success": True, "result": {"content": "?"}},
    },
    {
        "type": "tool.execution_complete",
        "data": {"toolCallId": "2", "success": False, "error": {"message": "failed"}},
    },
    {
        "type": "tool.execution_complete",
        "data": {"toolCallId": "1", "success": True, "result": {"content": "1. x = 1\n2. "}},
    },
    {"type": "session.compaction_start", "data": {}},
    {"type": "user.message", "id": "u3", "data": {"content": "Meanwhile"}},
    {"type": "session.compaction_complete", "data": {"success": True, "summaryContent": "So far."}},
]
OPENCODE = {
    "info": {"id": "ses_1", "directory": "/w", "title": "Fix", "revert": {"messageID": "m5"}},
    "messages": [
        {
            "info": {"id": "m1", "role": "user", "time": {"created": 1_760_000_000_000}},
            "parts": [
                {"type": "text", "text": "Fix @a.py"},
                {"type": "text", "text": "Called the Read tool", "synthetic": True},
                {
                    "type": "text",
                    "synthetic": True,
                    "text": "<path>/w/a.py</path>\n<content>\n1: x\n\n(End of file - total 1 lines)\n",
                },
            ],
        },
        {
            "info": {"id": "m2", "role": "assistant"},
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm"},
                {
                    "type": "tool",
                    "id": "p1",
                    "callID": "REDACTED",
                    "tool": "bash",
                    "state": {
                        "status": "completed",
                        "input": {"command": "ls"},
                        "output": "no",
                        "metadata": {"exit": 2},
                    },
                },
                {
                    "type": "tool",
                    "id": "p2",
                    "callID": "REDACTED",
                    "tool": "edit",
                    "state": {"status": "running", "input": {}},
                },
            ],
        },
        {"info": {"id": "m3", "role": "user"}, "parts": [{"type": "compaction", "auto": True}]},
        {
            "info": {"id": "m4", "role": "assistant", "summary": True},
            "parts": [{"type": "text", "text": "So far."}],
        },
        {"info": {"id": "m5", "role": "user"}, "parts": [{"type": "text", "text": "taken back"}]},
    ],
}
GEMINI: dict[str, Any] = {
    "sessionId": "g1",
    "projectHash": "x",
    "messages": [
        {"id": "1", "type": "info", "content": "An update"},
        {
            "id": "2",
            "type": "user",
            "content": [
                {"text": "Fix @a.py"},
                {"text": "\n--- Content from referenced files ---"},
                {"text": "\nContent from @a.py:\n"},
                {"text": "x"},
            ],
        },
        {
            "id": "3",
            "type": "gemini",
            "content": "I look.",
            "thoughts": [{"subject": "Plan", "description": "hm"}],
            "toolCalls": [
                {
                    "id": "c1",
                    "name": "read_file",
                    "args": {"file_path": "/w/b.py"},
                    "status": "success",
                    "result": [{"functionResponse": {"response": {"output": "y\n"}}}],
                },
                {
                    "id": "c2",
                    "name": "run_shell_command",
                    "args": {"command": "make"},
                    "status": "success",
                    "result": [{"functionResponse": {"response": {"output": "Exit Code: 2"}}}],
                },
                {"id": "c3", "name": "glob", "args": {}, "status": "cancelled", "result": None},
                {"id": "c4", "name": "glob", "args": {}, "status": "executing"},
            ],
        },
    ],
}
GEMINI_LINES = [
    {"sessionId": "g1", "projectHash": "x", "kind": "main"},
    {"id": "1", "type": "user", "content": "one"},
    {"id": "2", "type": "gemini", "content": "first try"},
    {"id": "2", "type": "gemini", "content": "an answer"},
    {"id": "3", "type": "user", "content": "two"},
    {"$rewindTo": "3"},
    {"id": "4", "type": "user", "content": "three"},
    {"$set": {"summary": "Counting"}},
]
CLINE = {
    "version": 1,
    "agent": "lead",
    "sessionId": "k1",
    "system_prompt": "You are",
    "messages": [
        {
            "role": "user",
            "ts": 1_760_000_000_000,
            "content": [
                {"type": "text", "text": "Fix @a.py"},
                {"type": "file", "path": "/w/a.py", "content": "x\n"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, tool_use("1", "editor")]},
        {"role": "user", "content": result("1", "edited")},
    ],
}
CLINE_TAGS = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "<task>\nFix it\n</task>"},
            {"type": "text", "text": "<environment_details>\nmany\n</environment_details>"},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "I read.\n\n<read_file>\n<path>a.py</path>\n</read_file>"}],
    },
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "[read_file for 'a.py'] Result:"},
            {"type": "text", "text": "x = 1"},
            {"type": "text", "text": "<feedback>\nmore of it\n</feedback>"},
        ],
    },
]
CHAT = [
    {"role": "system", "content": "You are"},
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "a.py"},
    {"role": "assistant", "content": "done"},
]
ACTIONS = [
    {"role": "user", "content": "Fix it"},
    {"role": "assistant", "content": "I open it.", "action": "open a.py\n", "thought": "I open it."},
    {"role": "user", "content": "[File: a.py]"},
]
OPENHANDS = {
    "instance_id": "i1",
    "history": [
        {"id": 0, "source": "agent", "action": "system", "message": "You are"},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it"}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "Fix it"}},
        {"id": 3, "source": "environment", "observation": "recall", "cause": 2, "content": "workspace"},
        [
            {"id": 4, "source": "agent", "action": "run", "args": {"thought": "I look.", "command": "make"}},
            {
                "id": 5,
                "source": "agent",
                "observation": "run",
                "cause": 4,
                "content": "boom",
                "extras": {"metadata": {"exit_code": 2}},
            },
        ],
        {"id": 6, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}},
    ],
}
AIDER = """\
# aider chat started at 2026-11-20 09:00:00

> /usr/bin/aider

#### fix the parser
#### and the tests

I will.

> Applied edit to a.py

It is done.

#### /run make
> ok

#### /clear
# aider chat started at 2026-11-21 09:00:00

#### again
"""

SESSIONS = [
    pytest.param(
        CLAUDE,
        [
            "user: look | <image/png>",
            "assistant: (hm) | I read. | Read#t1 | Bash#t2",
            "tool: #t1=1\tx | #t2!boom",
            "user: $ git status",
            "user: clean",
            "user: /review the parser",
            "user: /clear",
        ],
        {"hostText": 3, "subagent": 1, "hiddenThinking": 1, "unknownItem": 1},
        ("claude-code", "/w", "Parser", 0),
        id="claude-code",
    ),
    pytest.param(
        CODEX,
        ["summary: So far.", "user: Again"],
        {"systemPrompt": 1, "hostText": 1, "hiddenThinking": 1, "hostedCall": 1},
        ("codex", "/w", "", 0),
        id="codex",
    ),
    pytest.param(
        CODEX[:-1],
        [
            "user: Fix it | <image/png>",
            "assistant: (**Plan**) | shell#1 | apply_patch#2",
            "tool: #1=a.py | #2!Exit code: 1\nno",
            "assistant: Done.",
            "user: Again",
        ],
        {"systemPrompt": 1, "hostText": 1, "hiddenThinking": 1, "hostedCall": 1},
        ("codex", "/w", "", 0),
        id="codex before a compaction",
    ),
    pytest.param(
        PI,
        ["summary: So far.", "user: right way", "assistant: ok"],
        {"rewound": 1},
        ("pi", "/w", "", 1),
        id="pi",
    ),
    pytest.param(
        COPILOT,
        ["summary: So far.", "user: Meanwhile"],
        {"systemPrompt": 1, "hostText": 1, "subagent": 1},
        ("copilot-cli", "/w", "", 1),
        id="copilot-cli",
    ),
    pytest.param(
        COPILOT[:9],
        ["user: Fix it", "assistant: (hm) | I look. | view#1 | bash#2", "tool: #1=1. x = 1\n2.  | #2!failed"],
        {"systemPrompt": 1, "hostText": 1, "subagent": 1},
        ("copilot-cli", "/w", "", 1),
        id="copilot-cli before a compaction",
    ),
    pytest.param(
        [OPENCODE],
        ["summary: So far."],
        {"danglingCall": 1, "hostText": 1, "rewound": 1},
        ("opencode", "/w", "Fix", 1),
        id="opencode",
    ),
    pytest.param(
        [GEMINI],
        [
            "user: Fix @a.py",
            "file: \n--- Content from referenced files ---\nContent from @a.py:\nx",
            "assistant: (**Plan**\nhm) | I look. | read_file#c1 | run_shell_command#c2 | glob#c3 | glob#c4",
            f"tool: #c1=y\n | #c2!Exit Code: 2 | #c3! | #c4!{NO_RESULT}",
        ],
        {"danglingCall": 1, "hostText": 1},
        ("gemini-cli", "", "", 1),
        id="gemini-cli",
    ),
    pytest.param(
        GEMINI_LINES,
        ["user: one", "assistant: an answer", "user: three"],
        {"rewound": 1},
        ("gemini-cli", "", "Counting", 0),
        id="gemini-cli in lines",
    ),
    pytest.param(
        [CLINE],
        ["user: Fix @a.py", "file: <file path=/w/a.py>\nx\n", "assistant: ok | editor#1", "tool: #1=edited"],
        {"systemPrompt": 1},
        ("cline", "", "", 1),
        id="cline",
    ),
    pytest.param(
        [CLINE_TAGS],
        [
            "user: Fix it",
            "assistant: I read. | read_file#tag_1",
            "tool: #tag_1=[read_file for 'a.py'] Result:\nx = 1\n<feedback>\nmore of it\n</feedback>",
            "user: more of it",
        ],
        {"hostText": 1},
        ("chat", "", "", 0),
        id="cline with tags",
    ),
    pytest.param(
        [{"history": ACTIONS, "trajectory": []}],
        [
            "user: Fix it",
            "assistant: I open it. | open#action_1",
            "tool: #action_1=[File: a.py]",
        ],
        {},
        ("chat", "", "", 0),
        id="actions",
    ),
    pytest.param(
        [OPENHANDS],
        ["user: Fix it", "assistant: I look. | run#event_4", "tool: #event_4!boom", "assistant: Done."],
        {"systemPrompt": 1, "hostText": 2},
        ("openhands", "", "i1", 0),
        id="openhands",
    ),
    pytest.param(
        CHAT,
        ["user: hi", "assistant: ls#1", "tool: #1=a.py", "assistant: done"],
        {"systemPrompt": 1},
        ("chat", "", "", 0),
        id="chat",
    ),
]


@pytest.mark.parametrize(("records", "entries", "notes", "head"), SESSIONS)
def test_a_session_becomes_entries(
    tmp_path: Path,
    records: list[Any],
    entries: list[str],
    notes: dict[str, int],
    head: tuple[str, str, str, int],
) -> None:
    session = import_records(tmp_path, *records)
    assert shown(session) == entries
    assert session.report.notes == notes
    assert (session.report.format, session.cwd, session.title, session.report.n_reads) == head


def test_a_command_of_the_user_is_no_prompt(tmp_path: Path) -> None:
    session = import_records(tmp_path, *PI[:-2])
    assert "shell: $ ls\na.py\n[exit 0]" in shown(session)


def test_a_prompt_in_the_place_of_an_earlier_one_begins_a_branch(tmp_path: Path) -> None:
    session = import_records(
        tmp_path,
        claude("user", "one", "a"),
        claude("assistant", [{"type": "text", "text": "first"}], "b", "a"),
        {"type": "progress", "uuid": "p", "parentUuid": "b", "sessionId": "s"},
        claude("user", "wrong", "c", "p"),
        claude("assistant", [{"type": "text", "text": "no"}], "d", "c"),
        claude("user", "right", "e", "p"),
        claude("user", "one", "a"),
    )
    assert shown(session) == ["user: one", "assistant: first", "user: right"]
    assert session.report.notes == {"duplicate": 1, "rewound": 2}


def queue(operation: str, content: str | None = None) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": operation, "content": content, "sessionId": "s"}


def test_a_prompt_that_was_sent_in_the_middle_of_a_turn_is_read_once(tmp_path: Path) -> None:
    attachment = {"type": "queued_command", "prompt": "and this"}
    session = import_records(
        tmp_path,
        claude("user", "one", "a"),
        claude("assistant", [tool_use("1", "ls")], "b", "a"),
        queue("enqueue", "and that"),
        queue("enqueue", "and this"),
        queue("enqueue", '{"task_id": "1"}'),
        queue("remove"),
        queue("remove"),
        claude("user", result("1", "x"), "c", "b"),
        {"type": "attachment", "attachment": attachment, "sessionId": "s"},
        queue("enqueue", "no, not that"),
        queue("popAll", "no, not that"),
        queue("enqueue", "later"),
        queue("dequeue"),
        claude("user", "later", "d", "c"),
        claude("user", "<user-memory-input>use tabs</user-memory-input>", "e", "d"),
    )
    assert shown(session) == [
        "user: one",
        "assistant: ls#1",
        "tool: #1=x",
        "user: and that",
        "user: and this",
        "user: later",
        "user: # use tabs",
    ]
    assert session.report.notes == {"unsentPrompt": 1}


def test_a_title_of_another_conversation_is_not_taken(tmp_path: Path) -> None:
    titles = [
        {"type": "summary", "summary": name, "leafUuid": leaf}
        for name, leaf in (("Other", "z"), ("Own", "a"))
    ]
    assert import_records(tmp_path, *titles, claude("user", "one", "a")).title == "Own"


def test_results_of_parallel_calls_are_no_branches(tmp_path: Path) -> None:
    session = import_records(
        tmp_path,
        claude("user", "one", "a"),
        claude("assistant", [tool_use("1", "ls")], "b", "a", message={"id": "m"}),
        claude("assistant", [tool_use("2", "ls")], "c", "b", message={"id": "m"}),
        claude("user", result("1", "x"), "d", "b"),
        claude("user", result("2", "y"), "e", "c"),
        claude("user", "next", "f", "d"),
    )
    assert shown(session) == ["user: one", "assistant: ls#1 | ls#2", "tool: #1=x | #2=y", "user: next"]
    assert session.report.notes == {}


def test_a_history_of_aider_is_one_conversation(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(AIDER, encoding="utf-8")
    session = read_session(path)
    assert shown(session) == [
        "user: fix the parser\nand the tests",
        "assistant: I will. | It is done.",
        "user: /run make\nok",
        "user: /clear",
        "user: again",
    ]
    assert (session.report.notes, session.cwd) == ({"hostText": 2}, str(tmp_path))


def test_an_aider_file_may_end_anywhere() -> None:
    for n_lines in range(len(AIDER.splitlines())):
        builder = ImportBuilder()
        read_aider(AIDER.splitlines()[:n_lines], builder)
        assert len(builder.path) <= 5


@pytest.mark.parametrize("records", [pytest.param(each.values[0], id=each.id) for each in SESSIONS])
def test_a_session_that_was_cut_anywhere_is_read_up_to_there(tmp_path: Path, records: list[Any]) -> None:
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    for size in range(len(text) // 3, len(text), max(1, len(text) // 40)):
        builder = ImportBuilder()
        path = tmp_path / "cut.jsonl"
        path.write_text(text[:size], encoding="utf-8")
        try:
            session = read_session(path)
        except Exception as error:
            assert "is not a session" in str(error) or "holds no messages" in str(error)  # noqa: PT017
            continue
        assert path_of(session)
        assert builder.notes == {}


RECOGNISED = {
    "claude-code": (is_claude_code, CLAUDE[1]),
    "codex": (is_codex, CODEX[0]),
    "pi": (is_pi, PI[0]),
    "opencode": (is_opencode, OPENCODE),
    "copilot-cli": (is_copilot_cli, COPILOT[0]),
    "gemini-cli": (is_gemini_cli, GEMINI),
    "openhands": (is_openhands, OPENHANDS),
    "chat": (is_chat, CHAT[1]),
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_record_is_recognised_by_its_own_format_first(name: str) -> None:
    recognises, record = RECOGNISED[name]
    found = recognise_format([record])
    assert recognises(record)
    assert found is not None
    assert found.name == name


def test_every_reason_of_a_note_has_a_sentence_and_every_format_a_name() -> None:
    assert all(NOTES.values())
    assert all(name == each.name for name, each in FORMATS.items())


def test_of_prompts_with_one_text_a_compaction_keeps_as_many_as_it_carries(tmp_path: Path) -> None:
    prompts = [{"type": "message", "role": "user", "content": text} for text in ("go on", "stop", "go on")]
    items = [{"type": "response_item", "timestamp": AT, "payload": each} for each in prompts]
    compacted = {"message": "So far.", "replacement_history": [prompts[1], prompts[2]]}
    records = [CODEX[0], *items, {"type": "compacted", "timestamp": AT, "payload": compacted}]
    session = import_records(tmp_path, *records)
    assert shown(session) == ["summary: So far.", "user: stop", "user: go on"]


def test_turns_that_codex_rolled_back_are_left(tmp_path: Path) -> None:
    prompts = [{"type": "message", "role": "user", "content": text} for text in ("one", "two", "three")]
    items = [{"type": "response_item", "timestamp": AT, "payload": each} for each in prompts]
    rolled_back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 2}}
    session = import_records(tmp_path, CODEX[0], *items, rolled_back)
    assert shown(session) == ["user: one"]
    assert session.report.notes == {"rewound": 2}
