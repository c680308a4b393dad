"""Scenes of whole sessions: stored, listed, forked, exported, imported, shared and reloaded; and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.same.client import DONE, HALF, LINES, PROSE, Scenery, call, say, text

__all__ = [
    "answer_forms",
    "choose",
    "command",
    "extend",
    "keep_files",
    "keep_rules",
    "keep_sessions",
    "know",
    "open_earlier_files",
    "restart",
    "share",
]

EARLIER: Final = Path(__file__).with_name("sessions")
"""Session files that earlier versions wrote, one of each form, oldest first."""

_SKILL: Final = "---\nname: pdf\ndescription: Fill in forms.\n---\nUse scripts/fill.py.\n"
_COMMAND: Final = "---\ndescription: Fix it\nargument-hint: FILE\n---\nAlways fix $1, and $ARGUMENTS.\n"
_HOOKS: Final = """
[[hooks]]
on = "beforeTool"
tools = ["write"]
command = "echo frozen until Monday >&2; exit 2"
[[hooks]]
on = "prompt"
command = "echo branch: main"
"""
_FOREIGN: Final = (
    {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-000000000001",
        "parentUuid": None,
        "sessionId": "00000000-0000-4000-8000-00000000000a",
        "cwd": "/same/project",
        "timestamp": "2025-10-01T10:00:00.000Z",
        "message": {"role": "user", "content": "Where is the parser?"},
    },
    {
        "type": "assistant",
        "uuid": "00000000-0000-4000-8000-000000000002",
        "parentUuid": "00000000-0000-4000-8000-000000000001",
        "sessionId": "00000000-0000-4000-8000-00000000000a",
        "cwd": "/same/project",
        "timestamp": "2025-10-01T10:00:05.000Z",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "In parser.py."}]},
    },
)


async def keep_sessions(scenery: Scenery) -> None:
    """Sessions are named, listed, searched, forked, exported, imported, archived, loaded again, deleted."""
    place = scenery.place
    foreign = "".join(f"{json.dumps(each)}\n" for each in _FOREIGN).replace(
        "/same/project", str(place.project)
    )
    source = place.write("foreign.jsonl", foreign)
    answers = [[{"thinking": "hm"}, *say(f"Answer {number}")] for number in range(6)]
    client = await scenery.start({"keep": [[call("ls", path=".")], *answers]})
    first = await client.new("keep", title="The first")
    for number in range(3):
        await client.prompt(first, f"question {number} about brackets")
    await client.call("session/rename", sid=first, title="Renamed")
    nodes = (await client.call("session/read", sid=first, limit=2))["result"]["nodes"]
    await client.call("session/read", sid=first, cursor="2", limit=2)
    forked = (await client.call("session/fork", sid=first, atNode=nodes[1]["id"], title="A fork"))["result"]
    await client.prompt(forked["sid"], "another way")
    await client.call("session/tree", sid=forked["sid"])
    short = await client.new("keep", ephemeral=True)
    await client.prompt(short, "not to be stored")
    for form in ("markdown", "json", "jsonl", "claude-code", "codex"):
        await client.call("session/export", sid=first, format=form)
    await client.call("session/import", path=str(source), source="claude-code", cwd=str(place.project))
    await client.call("session/import", path=str(source), source="codex", cwd=str(place.project))
    await client.call("session/list")
    await client.call("session/list", query="renamed", limit=1)
    await client.call("session/list", content="brackets")
    await client.call("session/archive", sid=first)
    await client.call("session/list", archived=True)
    await client.call("session/unarchive", sid=first)
    await client.call("session/close", sid=first)
    await client.call("session/load", sid=first, replay={"lastTurns": 1})
    await client.call("session/close", sid=first)
    await client.call("session/load", sid=first, replay="full")
    await client.prompt(first, "and once more")
    await client.call("session/close", sid=forked["sid"])
    await client.call("session/delete", sid=forked["sid"])
    await client.call("session/list", cwd=str(place.project))
    if scenery.face == "acp":
        cwd = {"cwd": str(place.project), "mcpServers": []}
        await client.player.ask("session/list", {})
        for method in ("session/close", "session/load", "session/close", "session/resume", "session/fork"):
            await client.player.ask(method, {"sessionId": first, **cwd})
            await client.quiet()
        await client.player.ask("session/delete", {"sessionId": first})


async def keep_rules(scenery: Scenery) -> None:
    """Rules of the user: from files, in prompts, by command, taken back; over a compaction and a reload."""
    scenery.place.write("AGENTS.md", "# Rules\n\nUse spaces.\n")
    prose = "A long answer about the parser and its tests. " * 30
    client = await scenery.start({"rules": [*[say(prose)] * 5, *[DONE] * 8]})
    sid = await client.new("rules")
    await client.prompt(sid, "Never touch generated.py. Always run make check before you are done.")
    rule = (await client.call("rule/add", sid=sid, text="No new dependencies."))["result"]["rule"]
    await client.call("rule/add", sid=sid, text="No new dependencies.")
    for words in ("/remember answers in two lines", "/rules", "/forget two lines", "What now?", "And then?"):
        await client.prompt(sid, words)
    await client.call("rule/list", sid=sid)
    await client.compact(sid)
    await client.call("rule/remove", sid=sid, rule=rule["id"])
    await client.call("rule/list", sid=sid, all=True)
    await client.prompt(sid, "Forget what I said about generated.py: you may touch it now.")
    await client.call("session/close", sid=sid)
    await client.call("session/load", sid=sid)
    await client.call("rule/list", sid=sid, all=True)
    await client.call("context/usage", sid=sid, detail=True)
    await client.call("session/read", sid=sid)


async def keep_files(scenery: Scenery) -> None:
    """Files that a session changes: kept, shown as a difference, restored; with a rewind and an undo."""
    place = scenery.place
    place.write("a.txt", "one\n")
    place.write("b.txt", "one\n")
    script = [
        [call("read", path="a.txt")],
        [call("read", path="b.txt")],
        DONE,
        [
            call("edit", path="a.txt", old_text="one", new_text="two"),
            call("write", path="c.txt", content="new\n"),
        ],
        DONE,
        [call("edit", path="b.txt", old_text="one", new_text="two")],
        DONE,
        *[say(f"Reply {number}. {'words of an answer ' * 60}") for number in range(8)],
        [call("edit", path="a.txt", old_text="two", new_text="three")],
        *[DONE] * 6,
    ]
    client = await scenery.start({"files": script})
    sid = await client.new("files")
    for words in ("read them", "change a.txt", "change b.txt"):
        await client.prompt(sid, words)
    kept = (await client.call("checkpoint/list", sid=sid))["result"]["checkpoints"]
    await client.call("checkpoint/diff", sid=sid)
    await client.call("checkpoint/diff", sid=sid, checkpointId=kept[0]["checkpointId"])
    await client.call("checkpoint/restore", sid=sid, checkpointId=kept[1]["checkpointId"])
    nodes = (await client.call("session/read", sid=sid))["result"]["nodes"]
    await client.call("checkpoint/diff", sid=sid, toNode=nodes[4]["id"])
    await client.call("session/rewind", sid=sid, toNode=nodes[4]["id"], expectHead=None, files="restore")
    await client.call("context/files", sid=sid)
    for number in range(4):
        await client.prompt(sid, f"tell me more, {number}")
    await client.compact(sid)
    await client.prompt(sid, "/diff")
    await client.call("rehydrate/preview", sid=sid)
    place.write("a.txt", "of another program\n")
    await client.prompt(sid, "change it again")
    await client.call("compact/undo", sid=sid, force=True, files="restore")
    await client.call("rehydrate/preview", sid=sid, uris=[(place.project / "a.txt").as_uri()])
    await client.call("rehydrate/run", sid=sid, uris=[(place.project / "a.txt").as_uri()])
    await client.call("checkpoint/list", sid=sid)
    await client.call("session/read", sid=sid, view="full")


async def command(scenery: Scenery) -> None:
    """Each slash command, commands of the shell, and completions."""
    scenery.place.write("a.txt", "one\n")
    prose = "A long answer about the parser and its tests. " * 40
    script = [[call("read", path="a.txt")], *[say(f"{number}: {prose}") for number in range(5)], *[DONE] * 9]
    client = await scenery.start({"commands": script, "other": [DONE] * 3})
    sid = await client.new("commands")
    for words in ("read a.txt", "go on", "go on"):
        await client.prompt(sid, words)
    for words in (
        *(
            "/help",
            "/status",
            "/context",
            "/preview",
            "/compact runtime keep the names",
            "/loss",
            "/loss request",
        ),
        *("/pin port 8431", "/pins", "/expand", "/undo", "/undo", "/expand", "/unpin port 8431"),
        *(
            "/engine",
            "/engine agentcore",
            "/compact",
            "/uncompact force",
            "/model",
            "/model other",
            "/model none",
        ),
        *(
            "/permissions",
            "/permissions rules",
            "/permissions test bash rm -rf /",
            "/permissions allow bash(ls)",
        ),
        *(
            "/diff",
            "/checkpoint",
            "/rewind",
            "/rewind 1",
            "/fork",
            "/clear",
            "/resume",
            "/cost",
            "/files",
            "/remember be brief",
            "/forget be brief",
        ),
        *("!echo hello", "!exit 3", "go on", "/init", "/agnts word", "/rules"),
    ):
        await client.prompt(sid, words)
    for words in ("/co", "/engine ", "/model o", "@a", "@sel", "look at @"):
        await client.call("complete", text=words, position=len(words), sid=sid)
    await client.call("session/read", sid=sid)


async def choose(scenery: Scenery) -> None:
    """Options, models, modes and rules of permissions, and the answers that last."""
    scenery.place.write("a.txt", "one\ntwo\nthree\n")
    parts = [{"old_text": text, "new_text": text.upper()} for text in ("one", "three")]
    kept = [[call("read", path="a.txt")], [call("edit", path="a.txt", edits=parts)], DONE]
    runs = [[call("bash", command=f"touch {name}")] for name in ("b.txt", "c.txt", "d.txt")]
    edits = [[call("write", path=f"{name}.txt", content="x\n")] for name in ("e", "f", "g")]
    steps = [step for pair in zip([*runs, *edits], [DONE] * 6, strict=True) for step in pair]
    client = await scenery.start({"choose": [*kept, *steps], "other": [DONE]})
    sid = await client.new("choose", policy={"triggerRatio": 0.5})
    client.permissions = None
    running = client.send_prompt(sid, "shout")
    await client.player.until(lambda: client.questions)
    refused: dict[str, Any] = {"diff": 0, "hunk": 0, "accepted": False}
    edited: dict[str, Any] = {"diff": 0, "hunk": 1, "accepted": True, "text": "3\n"}
    client.answer(client.questions[0], "allow_once", [refused, edited])
    await running
    answers = iter(["allow_once", "reject_once", "allow_always"])
    client.permissions = lambda params: next(answers, "reject_once")
    for number in range(3):
        await client.prompt(sid, f"run {number}")
    await client.call("permission/rules", sid=sid)
    await client.call("permission/rules", sid=sid, test={"tool": "bash", "detail": "touch x.txt"})
    for option, value in (("permissions", "plan"), ("thinking", "high"), ("knowledge", "workspace")):
        await client.call("session/setConfigOption", sid=sid, configId=option, value=value)
    for number in range(3):
        await client.prompt(sid, f"write {number}")
    await client.call("model/list", sid=sid)
    await client.call("session/setConfigOption", sid=sid, configId="model", value="other")
    await client.prompt(sid, "and you?")
    if scenery.face == "acp":
        await client.player.ask("session/set_mode", {"sessionId": sid, "modeId": "ask"})
        await client.player.ask("session/set_model", {"sessionId": sid, "modelId": "choose"})
        wanted = {"sessionId": sid, "configId": "engine", "value": "runtime"}
        await client.player.ask("session/set_config_option", wanted)
        await client.player.ask("authenticate", {"methodId": "none"})
    await client.call("trace/set", level="off")
    await client.call("extension/list", sid=sid)


async def extend(scenery: Scenery) -> None:
    """Commands, skills and hooks of the user and of the folder, in one session."""
    place = scenery.place
    for path, content in {
        "../state/commands/fix.md": _COMMAND,
        "../state/skills/pdf/SKILL.md": _SKILL,
        "../state/config.toml": _HOOKS,
        ".sidecar/commands/deploy.md": "Deploy it.",
        ".mcp.json": json.dumps({"mcpServers": {"theirs": {"command": "false"}}}),
        ".sidecar.toml": '[[hooks]]\non = "stop"\ncommand = "false"\n',
    }.items():
        place.write(path, content)
    script = [[call("skill", name="pdf")], [call("skill", name="x")], [call("write", path="b", content="x")]]
    client = await scenery.start({"extend": [*script, DONE, DONE, DONE]})
    sid = await client.new("extend")
    await client.prompt(sid, "fill in the form")
    await client.prompt(sid, "/fix a.py")
    await client.prompt(sid, "/deploy now")
    await client.prompt(sid, "/help")
    await client.call("extension/list", sid=sid)
    await client.call("session/read", sid=sid)


async def know(scenery: Scenery) -> None:
    """The model that is built in, with knowledge of the folder and of past sessions."""
    place = scenery.place
    place.write("parser.py", "def parse_brackets(text):\n    return text.count('(')\n")
    place.write("notes.md", "# Notes\n\nThe parser counts brackets.\n")
    client = await scenery.start({"know": [DONE] * 4})
    sid = await client.new("offline-1")
    for words in ("what uses `count`?", "what is in notes.md?", "run `echo hello`", "thanks"):
        await client.prompt(sid, words)
    for _ in range(3):
        await client.prompt(sid, "what is in parser.py?")
    receipt = await client.compact(sid, policy={"keepRecent": 100})
    await client.call("compact/read", sid=sid, compactionId=receipt["result"]["compactionId"])
    await client.call("context/usage", sid=sid, detail=True)
    await client.call("session/read", sid=sid)


async def share(scenery: Scenery) -> None:
    """Clients of one session on both faces: each sees the prompts of the others, and one answers for all."""
    asks = [[call("bash", command=f"touch {name}.txt")] for name in "bcd"]
    client = await scenery.start({"share": [step for ask in asks for step in (ask, DONE)]})
    sid = await client.new("share")
    await client.prompt(sid, "before the others come")
    client.permissions = None
    for face in ("lsp", "acp"):
        guest = await scenery.join(face)
        guest.sids.append(sid)
        await guest.call("attach", sid=sid, fromSeq=0)
        await guest.prompt(sid, f"from {face}")
        await client.quiet()
        await guest.call("detach", sid=sid)
        await guest.quiet()
        await scenery.stage.end(guest.player)
    await client.call("session/list")
    await client.call("session/read", sid=sid)


async def answer_forms(scenery: Scenery) -> None:
    """Questions of the agent: answered, declined, asked of two clients, and again after a kill."""
    which = {"question": "Which database?", "choices": ["Postgres", "SQLite"], "default": "SQLite"}
    name = {"question": "Which name?"}
    ask = [call("ask", questions=[which, name])]
    shown: dict[str, Any] = {"form": {}, "url": {}}
    declared: dict[str, Any] = (
        {"elicitation": shown} if scenery.face == "lsp" else {"capabilities": {"elicitation": shown}}
    )
    first = await scenery.start({"forms": [*[ask, DONE] * 3, ask]}, **declared)
    sid = await first.new("forms")
    first.forms = lambda params: {"action": "accept", "content": {"q1": "Postgres", "q2": "main"}}
    await first.prompt(sid, "ask me")
    first.forms = lambda params: {"action": "decline"}
    await first.prompt(sid, "ask me again")
    first.forms = None
    running = first.send_prompt(sid, "ask us")
    await first.player.until(lambda: len(first.questions) == 3)
    guest = await scenery.join("lsp", elicitation=shown)
    guest.forms = lambda params: {"action": "accept", "content": {"q1": "SQLite", "q2": "guest"}}
    await guest.call("attach", sid=sid)
    await running
    await first.quiet()
    await scenery.stage.end(guest.player)
    first.send_prompt(sid, "ask and die")
    await first.player.until(lambda: len(first.questions) == 4)
    await first.call("attach", sid=sid)
    await scenery.stage.kill(first.player)
    second = await scenery.start({"forms": [DONE]}, **declared)
    second.forms = lambda params: {"action": "accept", "content": {"q1": "Postgres", "q2": "later"}}
    await second.call("session/load", sid=sid)
    second.sids.append(sid)
    await second.until_step(sid, "questionResolved", "settled" if scenery.face == "lsp" else "usage")
    await second.quiet()
    await second.call("session/read", sid=sid)


async def restart(scenery: Scenery) -> None:
    """A daemon is killed in the middle of a turn with prompts behind it; the next one has what was stored."""
    place = scenery.place
    place.write("a.txt", "one\n")
    prose = "A long answer about the parser and its tests. " * 40
    script = [
        [call("read", path="a.txt")],
        *[say(f"{number}: {prose}") for number in range(4)],
        say("# Objective\nsum\n# Plan\nnone\n# Carryover\nnone"),
        HALF,
    ]
    first = await scenery.start({"restart": script})
    sid = await first.new("restart")
    for number in range(4):
        await first.prompt(sid, f"prompt {number}")
    await first.compact(sid)
    await first.call("rule/add", sid=sid, text="be brief")
    await first.call("context/pin", sid=sid, text="port 8431")
    first.send_prompt(sid, "hang")
    n_before = len(first.steps(sid))
    await first.until_step(sid, "textDelta", after=n_before)
    await first.call("turn/start", sid=sid, input=text("still to do"))
    await scenery.stage.kill(first.player)
    second = await scenery.start({"restart": [DONE] * 5})
    await second.call("session/list")
    await second.call("session/load", sid=sid, replay="full")
    second.sids.append(sid)
    await second.quiet()
    await second.call("queue/list", sid=sid)
    place.write("a.txt", "two\n")
    await second.call("rehydrate/preview", sid=sid)
    await second.call("context/files", sid=sid)
    await second.call("compact/list", sid=sid)
    await second.call("rule/list", sid=sid)
    await second.prompt(sid, "here again")
    await second.call("compact/undo", sid=sid, force=True)
    await second.call("session/tree", sid=sid)
    await second.call("session/read", sid=sid)


async def open_earlier_files(scenery: Scenery) -> None:
    """Session files of all versions: listed, loaded, continued, and written again where they were removed.

    Each was written by the code of its time: a talk with compactions, an undo and a rewind.
    """
    place = scenery.place
    place.write("a.txt", LINES)
    place.write("b.txt", "two\n")
    place.sessions.mkdir(parents=True)
    sids = {}
    for source in sorted(EARLIER.glob("*.jsonl")):
        content = source.read_bytes()
        metas = [line for line in content.splitlines() if line.startswith(b'{"type":"meta"')]
        sids[json.loads(metas[0])["sid"]] = content
    for sid, content in sids.items():
        (place.sessions / f"{sid}.jsonl").write_bytes(content)
    client = await scenery.start({"talk": [say(f"Reply {number}. {PROSE}") for number in range(40)]})
    await client.call("session/list")
    for sid, content in sids.items():
        file = place.sessions / f"{sid}.jsonl"
        await client.call("session/read", sid=sid)
        await client.call("session/load", sid=sid, replay="full")
        client.sids.append(sid)
        for method in ("compact/list", "context/files", "rule/list", "checkpoint/list", "session/tree"):
            await client.call(method, sid=sid)
        await client.prompt(sid, "Where were we?")
        await client.compact(sid)
        await client.call("compact/undo", sid=sid, force=True)
        await client.call("session/read", sid=sid, view="full")
        assert file.read_bytes().startswith(content), "the lines of an earlier version were changed"
        file.unlink()
        await client.prompt(sid, "Write the file again.")
        await client.call("session/close", sid=sid)
        client.sids.remove(sid)
        await client.call("session/load", sid=sid)
        await client.call("compact/list", sid=sid)
        await client.call("session/close", sid=sid)
    await client.call("session/list")
