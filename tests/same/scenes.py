"""The recorded day: what an editor or an agent panel does with the daemon, in scenes of a few turns each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from tests.same import compaction_scenes, editor_scenes, session_scenes, wire_scenes
from tests.same.client import DONE, HALF, LINES, Scenery, call, say, text

__all__ = ["GROUPED", "SCENES", "WHOLE", "Scene", "faces_of"]

Scene: TypeAlias = Callable[[Scenery], Awaitable[None]]

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def use_tools(scenery: Scenery) -> None:
    """Tools of each kind, allowed, refused, failing and unknown; the model reasons in between.

    Calls that only read run side by side, so that there is one of them at a time.
    """
    place = scenery.place
    place.write("a.txt", LINES)
    place.write("src/one.py", "VALUE = 1\n\n\ndef one() -> int:\n    return VALUE\n")
    place.write("AGENTS.md", "Use spaces. Never touch generated files.\n")
    turns = [
        [
            {"thinking": "I look first.", "deltas": 3},
            *say("I read it.", deltas=2),
            call("read", path="a.txt"),
        ],
        [call("grep", pattern="VALUE")],
        [call("find", pattern="*.py")],
        [call("ls", path=".")],
        [*say("It has 40 lines.", deltas=4), {"usage": {"input": 900, "output": 40, "cacheRead": 500}}],
        [call("edit", path="src/one.py", old_text="VALUE = 1", new_text="VALUE = 2")],
        [call("read", path="src/one.py")],
        [call("edit", path="src/one.py", old_text="VALUE = 1", new_text="VALUE = 2")],
        DONE,
        [call("write", path="new/two.py", content="import one\n"), call("bash", command="cat new/two.py")],
        DONE,
        [call("bash", command="echo out; exit 3")],
        [call("bash", command="rm -rf src")],
        DONE,
        [call("nothing", a=1)],
        [call("read")],
        [call("read", path="absent.txt")],
        [call("read", path="/nowhere/else.txt")],
        DONE,
        [call("todo", entries=[{"content": "find it", "status": "completed"}, {"content": "mend it"}])],
        DONE,
        [call("task", title="Look", prompt="Look at a.txt.")],
        [call("read", path="a.txt", offset=3, limit=2)],
        say("Two lines."),
        say("The other agent has seen two lines."),
        [call("task", title="Run", prompt="Run it.", max_calls=5)],
        [call("bash", command="echo from below > below.txt")],
        [{"error": {"kind": "http", "message": "bad request", "status": 400}}],
        say("The other agent has failed."),
        say("A small picture."),
    ]
    client = await scenery.start({"tools": {"scripted": turns, "contextWindow": 32_000, "images": True}})
    sid = await client.new("tools")
    client.permissions = lambda params: "reject_once" if "rm -rf" in str(params) else "allow_once"
    for words in (
        "read a.txt",
        "change it",
        "write another",
        "run it",
        "try what fails",
        "plan it",
        "ask",
        "ask",
    ):
        await client.prompt(sid, words)
    await client.call("session/list", children=True, parent=sid)
    await client.prompt(
        sid,
        [
            *text("What is this?"),
            {"type": "image", "mimeType": "image/png", "data": PNG},
            {"type": "resource_link", "uri": (place.project / "a.txt").as_uri(), "name": "a.txt"},
            {"type": "resource", "resource": {"uri": "file:///note.txt", "text": "a note\n"}},
        ],
    )
    await client.call("context/usage", sid=sid, detail=True)
    await client.call("context/files", sid=sid)
    await client.call("session/read", sid=sid)


async def meet_errors(scenery: Scenery) -> None:
    """A model that fails in each way that a provider can, and requests that are wrong."""
    failures = (
        *[{"stop": "max_output"}] * 4,  # it goes on three times
        {"stop": "refusal"},
        {"error": {"kind": "auth", "message": "no key"}},
        {"error": {"kind": "http", "message": "bad request", "status": 400}},
        {"raise": "broken"},
        {"endWithoutDone": True},
    )
    client = await scenery.start({"errors": [[{"text": "Half"}, failure] for failure in failures]})
    sid = await client.new("errors")
    for number in range(len(failures) - 2):
        await client.prompt(sid, f"prompt {number}")
    await client.call("session/read", sid=sid, view="full")
    for method, params in (
        ("turn/start", {"sid": "none", "input": text("hi")}),
        ("turn/start", {"sid": sid}),
        ("turn/start", {"sid": sid, "input": []}),
        ("turn/start", {"sid": sid, "input": [{"type": "video"}]}),
        ("turn/steer", {"sid": sid, "input": []}),
        ("turn/interrupt", {"sid": sid}),
        ("context/expand", {"sid": sid}),
        ("context/drop", {"sid": sid, "nodeIds": ["none"], "expectHead": None}),
        ("context/pin", {"sid": sid, "factId": "none"}),
        ("compact/undo", {"sid": sid, "compactionId": "none"}),
        ("compact/undo", {"sid": sid}),
        ("compact/cancel", {"sid": sid, "compactionId": "none"}),
        ("compact/read", {"sid": sid, "compactionId": "none"}),
        ("compact/start", {"sid": sid, "planId": "none"}),
        ("compact/start", {"sid": sid, "engine": "none such"}),
        ("compact/preview", {"sid": sid, "policy": {"keepRecent": -1}}),
        ("session/rewind", {"sid": sid, "toNode": "none", "expectHead": None}),
        ("session/load", {"sid": "none"}),
        ("session/fork", {"sid": sid, "atNode": "none"}),
        ("session/setConfigOption", {"sid": sid, "configId": "model", "value": "none"}),
        ("session/setConfigOption", {"sid": sid, "configId": "none", "value": "none"}),
        ("queue/remove", {"sid": sid, "itemId": "none"}),
        ("queue/edit", {"sid": sid, "itemId": "none", "input": text("x")}),
        ("rule/remove", {"sid": sid, "rule": "none"}),
        ("rule/add", {"sid": sid, "text": ""}),
        ("checkpoint/restore", {"sid": sid, "checkpointId": "c1"}),
        ("checkpoint/diff", {"sid": sid}),
        ("fs/unwatch", {"watchId": "none"}),
        ("rehydrate/run", {"sid": sid, "uris": ["file:///nowhere.txt"]}),
        ("session/new", {"cwd": "relative"}),
        ("session/new", {"cwd": "/nowhere", "model": "none"}),
        ("no/such/method", {}),
    ):
        await client.call(method, **params)
    client.player.send_body(b"{")
    client.player.send_body(b"[]")
    client.player.send_body(b'{"jsonrpc": "2.0", "id": "x"}')
    client.player.notify("no/such/notification", {})
    await client.player.ask("initialize", {})


async def queue_prompts(scenery: Scenery) -> None:
    """Prompts behind a running turn: listed, changed, removed; a turn that is steered, and interrupted."""
    client = await scenery.start({"queue": [HALF, HALF, DONE, HALF, DONE]})
    sid = await client.new("queue")

    async def begin() -> Any:
        n_before = len(client.steps(sid))
        running = client.send_prompt(sid, "hang")
        await client.until_step(sid, "textDelta", after=n_before)
        return running

    running = await begin()
    for words in ("one", "two", "three"):
        await client.call("turn/start", sid=sid, input=text(words))
    items = (await client.call("queue/list", sid=sid))["result"]["items"]
    await client.call("queue/edit", sid=sid, itemId=items[0]["itemId"], input=text("one, changed"))
    await client.call("queue/remove", sid=sid, itemId=items[1]["itemId"])
    await client.call("turn/interrupt", sid=sid, queue="return")
    await running
    await client.quiet()
    running = await begin()
    await client.call("turn/start", sid=sid, input=text("reject me"), whenBusy="reject")
    await client.call("turn/start", sid=sid, input=text("keep me"))
    client.send("turn/interrupt", sid=sid, queue="keep")
    await running
    await client.quiet()
    running = await begin()
    await client.call("turn/start", sid=sid, input=text("and then"))
    await client.call("turn/interrupt", sid=sid, queue="drop")
    await running
    await client.quiet()
    await client.call("turn/interrupt", sid=sid)
    await client.call("turn/steer", sid=sid, input=text("too late"))
    await client.quiet()
    await client.call("session/read", sid=sid, view="full")


async def steer(scenery: Scenery) -> None:
    """A prompt that joins the running turn between two calls of the model."""
    scenery.place.write("a.txt", LINES)
    script = [[call("bash", command="touch b.txt")], say("With pleasure."), DONE]
    client = await scenery.start({"steer": script})
    sid = await client.new("steer")
    client.permissions = None
    running = client.send_prompt(sid, "touch it")
    await client.player.until(lambda: client.questions)
    await client.call("turn/steer", sid=sid, input=text("be brief"))
    client.answer(client.questions[0], "allow_always")
    await running
    await client.prompt(sid, "again")
    await client.call("session/read", sid=sid)


SCENES: Final[dict[str, Scene]] = {
    "tools": use_tools,
    "errors": meet_errors,
    "queue": queue_prompts,
    "steering": steer,
    "engines": compaction_scenes.compact_by_each_engine,
    "parts": compaction_scenes.take_back_in_parts,
    "unasked": compaction_scenes.compact_unasked,
    "failing": compaction_scenes.fail_to_compact,
    "sessions": session_scenes.keep_sessions,
    "rules": session_scenes.keep_rules,
    "files": session_scenes.keep_files,
    "commands": session_scenes.command,
    "options": session_scenes.choose,
    "extensions": session_scenes.extend,
    "knowledge": session_scenes.know,
    "shared": session_scenes.share,
    "forms": session_scenes.answer_forms,
    "restart": session_scenes.restart,
    "earlier": session_scenes.open_earlier_files,
    "editor": editor_scenes.report_editor,
    "buffers": editor_scenes.type_in_buffers,
    "plain": editor_scenes.be_a_plain_editor,
    "panel": editor_scenes.be_a_panel,
    "daemon": wire_scenes.ask_the_daemon,
    "refused": wire_scenes.be_refused,
    "words": wire_scenes.spell_out,
    "budgets": wire_scenes.spend,
    "during": wire_scenes.act_during_turns,
    "decisions": wire_scenes.decide_on_rules,
    "others": wire_scenes.meet_changes_of_others,
    "servers": wire_scenes.serve_tools,
    "provider": wire_scenes.use_a_provider,
    "code": editor_scenes.answer_for_the_code,
}
"""The scenes, by the name of their record."""

_OF_ONE_FACE: Final = {
    "parts": ("lsp",),
    "unasked": ("lsp",),
    "earlier": ("lsp",),
    "buffers": ("lsp",),
    "plain": ("lsp",),
    "panel": ("acp",),
}
"""Scenes that only one face has, or that the other one would tell in words that other scenes have."""


def faces_of(scene: str) -> tuple[str, ...]:
    """Return the faces on which a scene is played."""
    return _OF_ONE_FACE.get(scene, ("lsp", "acp"))


WHOLE: Final = frozenset(("tools", "options", "extensions", "provider"))
"""Scenes whose records have the lists of options, commands and methods as well."""

GROUPED: Final = frozenset(("plain", "panel"))
"""Scenes in which the daemon asks its client for files and progress side by side with its other work."""
