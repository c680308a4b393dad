"""Scenes of the wire itself: the daemon's own methods, each parameter spelled out, and each kind of error."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Any, Final

from tests.same.client import DONE, HALF, LINES, PROSE, Client, Scenery, call, say, text

__all__ = [
    "act_during_turns",
    "ask_the_daemon",
    "be_refused",
    "decide_on_rules",
    "meet_changes_of_others",
    "serve_tools",
    "spell_out",
    "use_a_provider",
]

_FACTS: Final = ("request", "outcome", "modified", "read", "command", "search", "error")
_STATES: Final = ("kept", "shortened", "line", "gone")


async def ask_the_daemon(scenery: Scenery) -> None:
    """The state of the daemon, its description, its log and its trace; clients that watch and that act."""
    place = scenery.place
    client = await scenery.start({"daemon": [*[DONE] * 3, HALF]})
    sid = await client.new("daemon")
    await client.prompt(sid, "hello")
    await client.call("status")
    for form in ("jsonschema", "ts", "markdown"):
        for face in ("lsp", "acp"):
            await client.call("schema", format=form, face=face)
    client.notify("editor/context", tabs=3)
    await client.catch_up()
    await client.call("log/tail")
    for level in ("info", "warning", "error"):
        await client.call("log/tail", level=level, fromLine=1, session=sid)
    await client.call("trace/set", level="messages", toFile=str(place.folder / "trace"))
    await client.call("trace/set", level="verbose", toFile=str(place.folder / "trace"))
    await client.call("trace/set", level="off")
    guest = await scenery.join(scenery.face, events={})
    guest.sids.append(sid)
    await guest.call("attach", sid=sid, mode="observe", fromSeq=1_000)
    await guest.call("turn/start", sid=sid, input=text("mine"))
    await guest.call("session/delete", sid=sid)
    await guest.call("attach", sid=sid, mode="control")
    await guest.call("session/load", sid=sid, replay={"fromSeq": 1_000})
    await guest.call("turn/run", sid=sid, input=text("hello again"))
    await guest.quiet()
    await guest.call("session/load", sid=sid, replay="none")
    await guest.call("session/delete", sid=sid, force=True)


async def be_refused(scenery: Scenery) -> None:
    """Requests too early, cancelled, for more than the model may do, and without a store."""
    place = scenery.place
    place.write("a.txt", LINES)
    player = await scenery.stage.start(scenery.face)
    own = "sidecar/status" if scenery.face == "lsp" else "_sidecar/status"
    await player.ask(own, {})
    client = Client(player)
    small_talk = [say(f"Answer {number}. {PROSE * 36}") for number in range(30)]
    models: dict[str, Any] = {
        "refused": [[call("read", path="a.txt")], HALF, DONE, DONE],
        "small": {"scripted": small_talk, "contextWindow": 9_000, "maxOutputTokens": 1_000},
        "long": {"scripted": [say(PROSE * 360)], "contextWindow": 9_000, "maxOutputTokens": 1_000},
    }
    await client.hello(models, events={})
    small = await client.new("small")
    sid = await client.new("refused")
    await client.call("turn/run", sid=sid, input=text("read it"), maxModelCalls=1)
    await client.quiet()
    n_before = len(client.steps(sid))
    running = client.send("turn/run", sid=sid, input=text("hang"))
    number = player.messages[-1][1]["id"]
    await client.until_step(sid, "textDelta", after=n_before)
    name = "id" if scenery.face == "lsp" else "requestId"
    player.notify("$/cancelRequest" if scenery.face == "lsp" else "$/cancel_request", {name: number})
    await running
    await client.call("turn/interrupt", sid=sid)
    await client.quiet()
    for number in range(6):
        await client.call("turn/run", sid=small, input=text(f"tell me, {number}"))
    await client.compact(small)
    await client.call("session/setConfigOption", sid=small, configId="model", value="long")
    await client.call("turn/run", sid=small, input=text("tell me all"))
    compactions = await client.player.probe(client.own("sidecar/compact/list"), {"sid": small})
    newest = compactions["result"]["compactions"][-1]["compactionId"]
    await client.call("compact/undo", sid=small)
    await client.call("compact/undo", sid=small, compactionId=newest, force=True)
    await client.call("compact/undo", sid=small, compactionId=newest, force=True)
    shutil.rmtree(place.sessions)
    place.sessions.write_text("no folder")
    await client.call("session/fork", sid=sid)
    await client.call("turn/run", sid=sid, input=text("not stored"))
    await client.quiet()
    await client.call("log/tail")
    place.sessions.unlink()
    place.sessions.mkdir()


async def spend(scenery: Scenery) -> None:
    """Budgets for each period, in tokens and in dollars: nearly used up, used up, and without a price."""
    answer = [*say("It is paid."), {"usage": {"input": 85_000, "output": 100}}]
    priced = {"scripted": [answer] * 3, "contextWindow": 200_000, "cost": {"input": 2.0, "output": 8.0}}
    client = await scenery.start({"priced": priced, "free": {**priced, "cost": {}}})
    sid = await client.new("priced")
    await client.call("session/setConfigOption", sid=sid, configId="budget", value="a lot")
    budgets = "100k per prompt, 100k per session, 100k per day"
    await client.call("session/setConfigOption", sid=sid, configId="budget", value=budgets)
    for words in ("spend", "spend more", "/budget", "/budget none"):
        await client.prompt(sid, words)
    for budget in (
        {"usd": 0.2, "tokens": 300_000, "per": "prompt"},
        {"usd": 0.3, "per": "session"},
        {"tokens": 1_000, "per": "day"},
        {"usd": -1.0},
        {},
    ):
        await client.call("turn/run", sid=sid, input=text("go on"), budget=budget)
        await client.quiet()
    free = await client.new("free")
    await client.call("turn/start", sid=free, input=text("spend"), budget={"usd": 1.0})
    await client.quiet()


async def spell_out(scenery: Scenery) -> None:
    """Parameters that other scenes leave out, or at their default."""
    place = scenery.place
    project = str(place.project)
    place.write("a.txt", LINES)
    uri = (place.project / "a.txt").as_uri()
    answers = [say(f"Answer {number}. {PROSE * 8}") for number in range(40)]
    client = await scenery.start({"words": [[call("read", path="a.txt")], *answers]})
    wanted = {"model": "words", "title": "Words", "roots": [project], "knowledge": ["workspace"]}
    wanted["brief"] = "Answer in rhymes."
    new = (await client.call("session/new", cwd=project, **wanted, mcpServers=[]))["result"]
    sid = new["sid"]
    client.sids.append(sid)
    child = (await client.call("session/new", cwd=project, model="words", parent=sid))["result"]["sid"]
    short = {"engine": "runtime", "policy": {"keepRecent": 2}, "ephemeral": True}
    await client.call("session/new", cwd=project, model="words", **short)
    watch = await client.call("fs/watch", sid=sid, globs=["*.txt"])
    await client.call("fs/unwatch", watchId=watch["result"]["watchId"])
    await client.call("session/close", sid=child)
    again = {"cwd": project, "roots": [], "mcpServers": [], "brief": "Answer in prose."}
    await client.call("session/load", sid=child, replay="none", **again)
    await client.call("session/fork", sid=sid, **again)
    await client.call("session/delete", sid=child, force=True)
    head = (await client.call("session/read", sid=sid, view="active"))["result"]["nodes"]
    assert head == []
    await client.call(
        "turn/run",
        sid=sid,
        input=text("read a.txt"),
        whenBusy="queue",
        idempotencyKey="one",
        workDoneToken="work",
        partialResultToken="parts",
        maxModelCalls=9,
        allow=["npm run *"],
    )
    await client.call("turn/run", sid=sid, input=text("read a.txt"), idempotencyKey="one")
    for number in range(8):
        await client.call("turn/run", sid=sid, input=text(f"Question {number}"), whenBusy="steer")
    await client.call("turn/start", sid=sid, input=text("started"))
    await client.quiet()
    nodes = (await client.call("session/read", sid=sid))["result"]["nodes"]
    last = nodes[-1]["id"]
    await client.call("turn/run", sid=sid, input=text("and now"), expectHead=last)
    await client.call("turn/run", sid=sid, input=text("and now"), expectHead=last)
    await client.call("turn/steer", sid=sid, input=text("too late"), expectTurnId="none")
    await client.quiet()
    await client.call("turn/interrupt", sid=sid, turnId="none")
    await client.quiet()
    await client.call("session/rename", sid=sid, title="Other words")
    await client.call("session/list", limit=1)
    listed = await client.call("session/list", limit=1)
    await client.call("session/list", limit=1, cursor=listed["result"]["nextCursor"])
    for view in ("active", "full"):
        await client.call("session/export", sid=sid, view=view, path=str(place.project / f"{view}.md"))
    await client.call("session/export", sid=sid, path=str(place.project / "full.md"))
    await import_sessions(client)
    await client.call("complete", text="@a", position=2, cwd=project, limit=3)
    code = "def f():\n    return [1, 'one']  # \U0001f600"
    await client.call("highlight", text=code, path="a.py")
    await client.call("highlight", text=code, language="unheard-of")
    for encoding in ("utf-8", "utf-16", "utf-32"):
        await client.call("complete", text="@a", position=2, sid=sid, encoding=encoding, limit=3)
    await change_rules(client, sid)
    await client.call("context/usage", sid=sid, detail=False)
    await client.call("rehydrate/preview", sid=sid, uris=[uri], budget=1_000)
    await client.call("compact/compare", sid=sid, engines=["agentcore"], mode="auto")
    await client.call("compact/compare", sid=sid, engines=["runtime"], mode="force")
    await client.call("compact/preview", sid=sid, engine="runtime", mode="auto", instructions="keep names")
    wanted = {"mode": "force", "whenBusy": "afterTurn", "engine": "windowBudget", "workDoneToken": "compact"}
    receipt = (await client.compact(sid, **wanted))["result"]
    named: dict[str, Any] = {"sid": sid, "compactionId": receipt["compactionId"]}
    for kind in _FACTS:
        await client.call("compact/read", **named, part="loss", kinds=[kind])
    for state in _STATES:
        await client.call("compact/read", **named, part="loss", states=[state])
    page = (await client.call("compact/read", **named, part="dropped", limit=2))["result"]
    await client.call("compact/read", **named, part="dropped", limit=2, cursor=page["nextCursor"])
    shown = [node["id"] for node in page["nodes"]]
    await client.call("context/expand", **named, nodeIds=shown[:1])
    await client.call("context/expand", sid=sid, fromNode=shown[1], toNode=shown[1])
    await client.call("checkpoint/diff", sid=sid, compactionId=receipt["compactionId"], uris=[uri])
    nodes = (await client.call("session/read", sid=sid))["result"]["nodes"]
    pin = await client.call("context/pin", sid=sid, nodeId=nodes[-1]["id"])
    await client.call("context/pin", sid=sid, unpin=pin["result"]["pin"]["pinId"])
    await client.call("context/expand", **named, expectHead=nodes[-1]["id"])
    await client.call("compact/undo", sid=sid, files="keep", expectHead="another")
    await client.call("session/rewind", sid=sid, toNode=nodes[-1]["id"], expectHead=None, files="keep")
    await client.call("context/drop", sid=sid, nodeIds=[nodes[-1]["id"]], expectHead=None)


async def import_sessions(client: Client) -> None:
    """List and import a session of another agent, which has a damaged line."""
    place = client.place
    said = {"type": "user", "uuid": "u1", "cwd": str(place.project), "timestamp": "2025-10-01T10:00:00Z"}
    line = json.dumps({**said, "sessionId": "s1", "message": {"role": "user", "content": "Where is it?"}})
    place.write("../home/.claude/projects/p/s1.jsonl", f"{line}\n{{broken\n")
    await client.call("session/import", listOnly=True, limit=3)
    wanted = {"title": "Theirs", "model": "words", "engine": "runtime", "workDoneToken": "import"}
    await client.call("session/import", source="claude-code", id="s1", **wanted)


async def change_rules(client: Client, sid: str) -> None:
    """Add rules for permissions, judge calls by them, and take them away again."""
    for effect, rule in (("allow", "npm run *"), ("deny", "git push")):
        await client.call("permission/rules", sid=sid, set={"effect": effect, "rule": rule})
    for words in ("npm run test", "git push", "touch x.txt"):
        test = {"tool": "bash", "input": {"command": words}}
        await client.call("permission/rules", sid=sid, test=test)
    for effect, rule in (("allow", "npm run *"), ("deny", "git push")):
        await client.call("permission/rules", sid=sid, set={"effect": effect, "rule": rule, "remove": True})


async def act_during_turns(scenery: Scenery) -> None:
    """Prompts and questions while a turn runs: steered, behind a waiting one, with rules of its own."""
    script = [HALF, *[DONE] * 3, [call("bash", command="sleep 600")], DONE]
    client = await scenery.start({"during": script})
    sid = await client.new("during")
    n_before = len(client.steps(sid))
    running = client.send("turn/run", sid=sid, input=text("hang"), allow=["touch *", "edit: docs/**"])
    await client.until_step(sid, "textDelta", after=n_before)
    await client.call("permission/rules", sid=sid)
    await client.call("attach", sid=sid)
    waiting = (await client.call("turn/start", sid=sid, input=text("behind it")))["result"]["turnId"]
    await client.call("turn/steer", sid=sid, input=text("behind that"), expectTurnId=waiting)
    await client.call("turn/start", sid=sid, input=text("into it"), whenBusy="steer")
    await client.call("turn/start", sid=sid, input=text("long " * 3_200_000))
    await client.call("turn/start", sid=sid, input=text("too much"))
    await client.call("turn/interrupt", sid=sid, queue="drop")
    await running
    await client.quiet()
    for words in ("one", "two", "three"):
        await client.prompt(sid, words)
    running = client.send("turn/run", sid=sid, input=text("wait"))
    n_before = len(client.steps(sid))
    await client.until_step(sid, "toolStarted" if scenery.face == "lsp" else "tool_call", after=n_before)
    status: Any = {"children": []}
    while not status["children"]:
        status = (await client.player.probe(client.own("sidecar/status")))["result"]
    await client.call("status")
    await client.call("turn/interrupt", sid=sid)
    await running
    await client.quiet()
    await client.prompt(sid, "!echo hello")
    uri = (scenery.place.project / "a.py").as_uri()
    start, end = {"line": 0, "character": 0}, {"line": 0, "character": 4}
    active = {"uri": uri, "languageId": "python", "selections": [], "isDirty": True}
    active["visibleRanges"] = [{"start": start, "end": end}]
    problem = {"range": {"start": start, "end": end}, "message": "unused", "severity": 2, "code": "F401"}
    found = [{"uri": uri, "diagnostics": [problem], "version": 3}]
    for encoding in ("utf-8", "utf-16", "utf-32"):
        client.notify("editor/context", active=active, positionEncoding=encoding)
    client.notify("editor/context", diagnostics=found, replacesDiagnostics=True)
    await client.catch_up()
    await client.prompt(sid, "what do I see?")
    await client.call("session/tree", sid=sid)
    await scenery.stage.stop(client.player)


async def decide_on_rules(scenery: Scenery) -> None:
    """Rules that the model of the summary proposes: kept, dismissed, and taken back by later words."""
    wishes = "Always run make check. Never touch generated.py. Use tabs in makefiles."
    standing = "".join(f'standing: "{wish.strip()}."\n' for wish in wishes.rstrip(".").split(". "))
    summary = "# Objective\nsum\n# Plan\nnone\n# Carryover\nnone\n<rules>\n{}</rules>"
    talk = [say(f"Answer {number}. {PROSE * 12}") for number in range(8)]
    first = await scenery.start({"rules": [*talk, *[say(summary.format(standing))] * 3]})
    sid = await first.new("rules")
    await first.prompt(sid, wishes)
    for number in range(7):
        await first.prompt(sid, f"Question {number}")
    await first.compact(sid)
    rules = (await first.player.probe(first.own("sidecar/rule/list"), {"sid": sid}))["result"]["rules"]
    await first.call("rule/keep", sid=sid, rule=rules[0]["id"])
    await first.call("rule/dismiss", sid=sid, rule=rules[1]["id"])
    await first.call("rule/keep", sid=sid)
    await first.call("rule/dismiss", sid=sid)
    await scenery.stage.end(first.player)
    freed = "From now on you need not run make check."
    ended = say(summary.format(f'ended {rules[0]["id"]}: "{freed}"\n'))
    second = await scenery.start({"rules": [*talk, *[ended] * 3]})
    await second.call("session/load", sid=sid)
    second.sids.append(sid)
    await second.prompt(sid, freed)
    for number in range(7):
        await second.prompt(sid, f"Question {number}")
    await second.compact(sid)
    await second.call("rule/list", sid=sid, all=True)
    other = await scenery.start({})
    await other.call("session/list")
    await scenery.stage.end(other.player)


async def meet_changes_of_others(scenery: Scenery) -> None:
    """Files that others have changed, that are outside, and whose earlier content is gone."""
    place = scenery.place
    for name in ("a.txt", "b.txt", "docs/c.txt"):
        place.write(name, "one\n")
    place.write("../other/d.txt", "one\n")
    place.write("../state/AGENTS.md", "Be brief.\n")
    place.write("docs/AGENTS.md", "Write in English.\n")
    other = str(place.folder / "other")
    script = [
        *([call("read", path=name)] for name in ("a.txt", "b.txt", "docs/c.txt", f"{other}/d.txt")),
        [call("grep", pattern="one")],
        [call("edit", path="a.txt", old_text="one", new_text="two")],
        [call("edit", path="b.txt", old_text="one", new_text="two")],
        [call("edit", path=f"{other}/d.txt", old_text="one", new_text="two")],
        DONE,
        [call("read", path="docs/c.txt")],
        *[say(f"Answer {number}. {PROSE * 12}") for number in range(12)],
    ]
    client = await scenery.start({"others": script}, events={})
    sid = await client.new("others", roots=[other])
    await client.call("fs/watch", sid=sid, globs=["**/*.txt"])
    await client.prompt(sid, "change them")
    await client.call("context/usage", sid=sid, detail=True)
    await client.call("session/close", sid=sid)
    await client.call("session/load", sid=sid, cwd=str(place.project), roots=[])
    place.write("a.txt", "three\n")
    place.write("docs/c.txt", "three\n")
    await client.prompt(sid, "has it changed?")
    shutil.rmtree(place.folder / "state" / "checkpoints", ignore_errors=True)
    await client.call("checkpoint/diff", sid=sid)
    wanted = [(place.project / name).as_uri() for name in ("a.txt", "b.txt")]
    await client.call("checkpoint/restore", sid=sid, checkpointId="c1", uris=wanted)
    await client.call("checkpoint/restore", sid=sid, checkpointId="c1")
    for number in range(8):
        await client.prompt(sid, f"Question {number}")
    receipt = (await client.compact(sid))["result"]
    await client.call("compact/read", sid=sid, compactionId=receipt["compactionId"], part="loss")


async def serve_tools(scenery: Scenery) -> None:
    """Tool servers of a client that do not come up, and extensions of a folder that the user trusts."""
    place = scenery.place
    slow = {"command": "sleep", "args": ["600"]}
    mine = '[mcp_servers.mine]\ncommand = "sleep"\nargs = ["600"]\n'
    place.write("../state/config.toml", f"trusted = [{json.dumps(str(place.project))}]\n{mine}")
    place.write(".mcp.json", json.dumps({"mcpServers": {"theirs": slow}}))
    place.write(".sidecar.toml", '[[hooks]]\non = "stop"\ncommand = "true"\n')
    place.write(".sidecar/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Fill in forms.\n---\nUse it.\n")
    client = await scenery.start({"serve": [DONE] * 5})
    servers: list[dict[str, Any]] = [
        {"name": "web", "type": "http", "url": "http://127.0.0.1:9/", "headers": []},
        {"name": "old", "type": "sse", "url": "http://127.0.0.1:9/"},
        {
            "name": "gone",
            "type": "stdio",
            "command": "false",
            "args": ["x"],
            "env": [{"name": "KEY", "value": "none"}],
        },
    ]
    for server in servers:
        wanted = {"cwd": str(place.project), "model": "serve", "mcpServers": [server]}
        sid = (await client.call("session/new", **wanted))["result"]["sid"]
        client.sids.append(sid)
        state = "starting"
        while state == "starting":
            listed = await client.player.probe(client.own("sidecar/extension/list"), {"sid": sid})
            servers_now = listed["result"]["servers"]
            state = next(each["state"] for each in servers_now if each["name"] == server["name"])
        await client.call("extension/list", sid=sid)
        await client.call("session/close", sid=sid)


async def use_a_provider(scenery: Scenery) -> None:
    """A provider with a price: it breaks off, is busy, answers, and then finds the conversation too long."""
    place = scenery.place
    n_calls = 0
    too_long = {"error": {"message": "prompt is too long: 40000 tokens > 32000 maximum"}}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_calls
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "/chat/completions" not in head:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
        n_calls += 1
        refused = {2: ("503 Unavailable", {}), 10: ("400 Bad Request", too_long)}
        if n_calls in refused:
            status, body = refused[n_calls]
            writer.write(f"HTTP/1.1 {status}\r\nconnection: close\r\n\r\n{json.dumps(body)}".encode())
        else:
            said = f"Answer {n_calls}. {PROSE * 40}"
            parts: list[Any] = [{"choices": [{"index": 0, "delta": {"content": said}}]}]
            if n_calls > 1:
                parts += [
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                    {"choices": [], "usage": {"prompt_tokens": 9_000, "completion_tokens": 800}},
                ]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.writelines(f"data: {json.dumps(each)}\n\n".encode() for each in parts)
            writer.write(b"data: [DONE]\n\n" if n_calls > 1 else b"")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    place.write(
        "../state/config.toml",
        f"""
[providers.near]
base_url = "http://127.0.0.1:{port}/v1"
api = "openai-chat"
[models.mine]
provider = "near"
name = "m"
context_window = 32000
cost = {{ input = 100.0, output = 200.0, cache_read = 1.0, cache_write = 2.0 }}
[models.far]
provider = "nowhere"
name = "m"
""",
    )
    client = await scenery.start({})
    sid = await client.new("mine")
    for number in range(9):
        await client.prompt(sid, f"hello {number}")
    await client.call("model/list", sid=sid)
    other = await client.new("near:other")
    await client.call("model/list", sid=other)
    published = await client.new("openai:gpt-5")
    await client.call("model/list", sid=published)
    server.close()
