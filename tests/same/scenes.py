"""The recorded day: what an editor or an agent panel does with the daemon, in scenes of a few turns each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from tests.same.client import DONE, Client, call, say

__all__ = ["SCENES", "Scene"]

Scene: TypeAlias = Callable[[Client], Awaitable[None]]

_LINES: Final = "".join(f"line {number} of a file\n" for number in range(1, 41))
_PROSE: Final = "The parser reads a line, splits it at blanks and keeps the words in order. "
_ENGINES: Final = ("windowBudget", "runtime", "agentcore", "slidingWindow", "summarizing", "none")


async def use_tools(client: Client) -> None:
    """Tools of each kind, allowed, refused, failing and unknown; the model reasons in between.

    Calls that only read run side by side, so that there is one of them at a time.
    """
    place = client.place
    place.write("a.txt", _LINES)
    place.write("src/one.py", "VALUE = 1\n\n\ndef one() -> int:\n    return VALUE\n")
    turns = [
        [
            {"thinking": "I look first.", "deltas": 3},
            *say("I read it.", deltas=2),
            call("read", path="a.txt"),
        ],
        [call("grep", pattern="VALUE")],
        [call("find", pattern="*.py")],
        [call("ls", path=".")],
        say("It has 40 lines.", deltas=4),
        [call("edit", path="src/one.py", old_text="VALUE = 1", new_text="VALUE = 2")],
        [call("read", path="src/one.py")],
        [call("edit", path="src/one.py", old_text="VALUE = 1", new_text="VALUE = 2")],
        DONE,
        [call("write", path="new/two.py", content="import one\n"), call("bash", command="cat new/two.py")],
        DONE,
        [call("bash", command="echo out; echo err >&2; exit 3")],
        [call("bash", command="rm -rf src")],
        DONE,
        [call("nothing", a=1)],
        [call("read")],
        [call("read", path="absent.txt")],
        [call("read", path="/nowhere/else.txt")],
        DONE,
        [call("todo", entries=[{"content": "find it", "status": "completed"}, {"content": "mend it"}])],
        DONE,
    ]
    await client.hello({"tools": turns})
    sid = await client.new("tools")
    client.permissions = lambda params: "reject_once" if "rm -rf" in str(params) else "allow_once"
    for words in (
        "read a.txt",
        "change it",
        "write another",
        "run something",
        "try what fails",
        "plan it",
    ):
        await client.prompt(sid, words)
    await client.call("context/usage", sid=sid, detail=True)
    await client.call("context/files", sid=sid)
    await client.call("session/read", sid=sid)


async def meet_errors(client: Client) -> None:
    """A model that fails in each way that a provider can, and requests that are wrong."""
    failures = (
        {"stop": "max_output"},
        {"stop": "refusal"},
        {"error": {"kind": "auth", "message": "no key"}},
        {"error": {"kind": "http", "message": "bad request", "status": 400}},
        {"raise": "broken"},
        {"endWithoutDone": True},
    )
    await client.hello({"errors": [[{"text": "Half"}, failure] for failure in failures]})
    sid = await client.new("errors")
    for number in range(len(failures) + 1):
        await client.prompt(sid, f"prompt {number}")
    await client.call("session/read", sid=sid, view="full")
    await client.call("turn/start", sid="none", input=[])
    await client.call("turn/start", sid=sid)
    await client.call("context/expand", sid=sid)
    await client.call("compact/undo", sid=sid, compactionId="none")
    await client.call("session/rewind", sid=sid, nodeId="none", expectHead=None)
    await client.call("queue/remove", sid=sid, itemId="none")
    await client.call("rule/remove", sid=sid, rule="none")
    await client.call("checkpoint/restore", sid=sid, checkpointId="c1")
    await client.call("session/setConfigOption", sid=sid, configId="model", value="none")
    await client.call("no/such/method")


async def compact(client: Client) -> None:
    """Each engine: preview, compaction, what it tells of it, undo, and the next prompt."""
    place = client.place
    place.write("a.txt", _LINES)
    talk = [
        [call("read", path="a.txt")],
        *(say(f"Answer {number}. {_PROSE * 12}") for number in range(8)),
    ]
    tail = [say(f"Summary or answer {number}: a.txt has 40 lines; keep cents.") for number in range(20)]
    await client.hello({engine: [*talk, *tail] for engine in _ENGINES})
    for engine in _ENGINES:
        sid = await client.new(engine, engine=engine)
        await client.prompt(sid, "Read a.txt. Never touch b.txt.")
        for number in range(7):
            await client.prompt(sid, f"Question {number}: what does part {number} do? {_PROSE * 4}")
        await client.call("compact/preview", sid=sid, mode="force")
        started = await client.call("compact/start", sid=sid, mode="force", instructions="keep the names")
        compaction = started["result"]["compactionId"]
        if started["result"]["disposition"] != "noop":
            await client.player.until(partial(is_compacted, client, sid))
            for part in ("summary", "dropped", "prompt", "loss"):
                await client.call("compact/read", sid=sid, compactionId=compaction, part=part)
            await client.call("context/usage", sid=sid, detail=True)
            await client.prompt(sid, "Go on.")
            await client.call("compact/undo", sid=sid, force=True)
        await client.call("compact/list", sid=sid)
        await client.call("session/read", sid=sid)


def is_compacted(client: Client, sid: str) -> bool:
    """Whether the newest compaction of *sid* is over, and the usage after it was reported."""
    kinds = [
        "over" if each["kind"] == "compaction" and each["data"]["status"] != "in_progress" else each["kind"]
        for each in (message["params"] for message in client.player.received("sidecar/event"))
        if each["sid"] == sid and each["kind"] in ("compaction", "usage")
    ]
    return kinds[-2:] == ["over", "usage"]


SCENES: Final[dict[str, Scene]] = {"tools": use_tools, "errors": meet_errors, "compactions": compact}
"""The scenes, by the name of their record."""
