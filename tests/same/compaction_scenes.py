"""Scenes of compactions: by each engine, on top of each other, unasked, failing, and taken back in parts."""

from __future__ import annotations

from typing import Any, Final

from tests.same.client import HALF, LINES, PROSE, Client, Scenery, call, say, text

__all__ = ["compact_by_each_engine", "compact_unasked", "fail_to_compact", "take_back_in_parts"]

ENGINES: Final = ("windowBudget", "runtime", "agentcore", "slidingWindow", "summarizing", "none")
_FACTS: Final = (
    "Never touch generated.py. Use port 8431 for the tests.",
    "I went with a stack rather than recursion in src/parse.py.",
    "The test test_brackets fails with KeyError: 'open'.",
    "What is left: mend src/lex.py:12, then run make check.",
)


def a_talk(n_answers: int = 8) -> list[list[dict[str, Any]]]:
    """Return the script of a model that reads and edits a file and then answers at some length."""
    return [
        [call("read", path="a.txt")],
        [call("edit", path="a.txt", old_text="line 7 of a file", new_text="line seven of a file")],
        say("I have read a.txt and changed its line 7."),
        [call("bash", command="echo KeyError; exit 1")],
        *(say(f"Answer {number}. {_FACTS[number % 4]} {PROSE * 8}") for number in range(n_answers)),
    ]


def summaries(n: int) -> list[list[dict[str, Any]]]:
    """Return the script of a model that summarises or answers, whichever it is asked."""
    rules = 'standing: "Never touch generated.py."\nmoment: "Go on."'
    return [
        say(
            f"# Objective\nReply {number}: a.txt has 40 lines, line seven is new; tests use 8431.\n"
            f"# Plan\nnone\n# Carryover\nnone\n<rules>\n{rules}\n</rules>"
        )
        for number in range(n)
    ]


async def hold_talk(client: Client, sid: str, n_questions: int = 8) -> None:
    """Play the prompts of a talk."""
    await client.prompt(sid, "Read a.txt and change line 7. Never touch generated.py.")
    for number in range(n_questions):
        await client.prompt(sid, f"Question {number}: what does part {number} do? {PROSE * 2}")


async def compact_by_each_engine(scenery: Scenery) -> None:
    """One conversation, compacted by each engine in turn and restored: plan, outcome, texts, next prompt."""
    scenery.place.write("a.txt", LINES)
    client = await scenery.start({"engines": [*a_talk(), *summaries(40)]})
    sid = await client.new("engines")
    await hold_talk(client, sid)
    await client.call("compact/compare", sid=sid, detail=True)
    for engine in ENGINES:
        await client.call("session/setConfigOption", sid=sid, configId="engine", value=engine)
        await client.call("compact/preview", sid=sid, mode="force")
        receipt = (await client.compact(sid, instructions="keep the names"))["result"]
        for part in ("summary", "prompt", "loss"):
            await client.call("compact/read", sid=sid, compactionId=receipt["compactionId"], part=part)
        await client.call("context/usage", sid=sid, detail=True)
        await client.prompt(sid, f"Go on with {engine}.")
        await client.call("session/read", sid=sid)
        await client.call("compact/undo", sid=sid, force=True)
    await client.call("compact/list", sid=sid)
    await client.call("context/usage", sid=sid, detail=True)


async def take_back_in_parts(scenery: Scenery) -> None:
    """Compactions on top of each other; turns shown again, left out, taken back; facts that are pinned."""
    scenery.place.write("a.txt", LINES)
    client = await scenery.start({"parts": [*a_talk(), *summaries(30)]})
    sid = await client.new("parts")
    await hold_talk(client, sid, 5)
    first = (await client.compact(sid))["result"]["compactionId"]
    dropped = (await client.call("compact/read", sid=sid, compactionId=first, part="dropped"))["result"]
    nodes = [node["id"] for node in dropped["nodes"]]
    await client.call("session/read", sid=sid, view={"compactionId": first, "at": "before"})
    loss = (await client.call("compact/read", sid=sid, compactionId=first, part="loss"))["result"]
    facts = [fact["factId"] for fact in loss["facts"]]
    pin = await client.call("context/pin", sid=sid, factId=facts[0])
    await client.call("context/pin", sid=sid, nodeId=nodes[0])
    await client.call("context/pin", sid=sid, text="port 8431")
    await client.call("context/pin", sid=sid, unpin=pin["result"]["pin"]["pinId"])
    await client.call("context/expand", sid=sid, nodeIds=nodes[4:6])
    await client.call("context/usage", sid=sid, detail=True)
    await client.prompt(sid, "What do you see now?")
    for number in range(3):
        await client.prompt(sid, f"And part {number}? {PROSE * 6}")
    second = (await client.compact(sid))["result"]["compactionId"]
    await client.call("compact/read", sid=sid, compactionId=second)
    await client.call("context/expand", sid=sid)
    await client.call("compact/undo", sid=sid)
    await client.call("context/expand", sid=sid, fromNode=nodes[0], toNode=nodes[2])
    shown = (await client.call("session/read", sid=sid))["result"]["nodes"]
    await client.call("context/drop", sid=sid, nodeIds=[shown[-2]["id"]], expectHead=shown[-1]["id"])
    await client.call("session/rewind", sid=sid, toNode=shown[-1]["id"], expectHead=None)
    await client.call("session/rewind", sid=sid, toNode=nodes[3], expectHead=None)
    await client.call("session/tree", sid=sid)
    await client.call("compact/list", sid=sid)
    await client.prompt(sid, "From here then.")
    await client.call("session/read", sid=sid, view="full")


async def compact_unasked(scenery: Scenery) -> None:
    """A small window: the conversation is compacted before a prompt, within a run, and after a refusal.

    The model always says the same: whether a summary is prepared before or after its next answer goes by the
    load.
    """
    scenery.place.write("a.txt", LINES * 12)
    near = [say(f"It does this. {' '.join(_FACTS)} {PROSE * 30}")] * 60
    refusal = {
        "error": {
            "kind": "http",
            "message": "prompt is too long: 40000 tokens > 32000 maximum",
            "status": 400,
        }
    }
    inner = [*([call("read", path="a.txt")] for _ in range(8)), say("Read eight times."), *summaries(9)]
    window = {"contextWindow": 9_000, "maxOutputTokens": 1_000}
    models = {
        "near": {"scripted": near, **window},
        "refusing": {"scripted": [*near[:6], [refusal], *summaries(9)], "contextWindow": 32_000},
        "inner": {"scripted": inner, **window},
    }
    client = await scenery.start(models)
    for engine in ENGINES[:3]:
        sid = await client.new("near", engine=engine)
        for number in range(9):
            await client.prompt(sid, f"Question {number}: what does part {number} do?")
        await client.call("compact/list", sid=sid)
        await client.call("session/close", sid=sid)
    sid = await client.new("refusing")
    for number in range(7):
        await client.prompt(sid, f"Question {number}: what does part {number} do?")
    await client.call("session/read", sid=sid)
    sid = await client.new("inner")
    await client.prompt(sid, "Read a.txt eight times.")
    await client.call("session/read", sid=sid)


async def fail_to_compact(scenery: Scenery) -> None:
    """A model without a summary, a compaction that is stopped, queued, refused, or has nothing to do."""
    scenery.place.write("a.txt", LINES)
    broken = {"error": {"kind": "http", "message": "no summaries today", "status": 400}}
    models = {"broken": [*a_talk(4), *[[broken]] * 9], "slow": [*a_talk(4), HALF, *summaries(9)]}
    client = await scenery.start(models)
    sid = await client.new("broken")
    await client.compact(sid)
    await hold_talk(client, sid, 4)
    await client.compact(sid)
    await client.call("compact/list", sid=sid)
    sid = await client.new("slow")
    await hold_talk(client, sid, 4)
    n_before = len(client.steps(sid))
    started = await client.call("compact/start", sid=sid)
    await client.until_step(sid, "compaction in_progress", after=n_before)
    await client.call("attach", sid=sid)
    await client.call("compact/start", sid=sid, whenBusy="reject")
    await client.call("compact/start", sid=sid)
    await client.call("turn/start", sid=sid, input=text("after the compaction"))
    await client.call("compact/cancel", sid=sid, compactionId=started["result"]["compactionId"])
    await client.quiet()
    await client.call("compact/undo", sid=sid, force=True)
    plan = (await client.call("compact/preview", sid=sid, mode="force"))["result"]
    await client.call("compact/start", sid=sid, expectHead="another")
    await client.compact(sid, planId=plan["planId"], expectHead=plan["expectHead"])
    await client.call("compact/start", sid=sid, planId=plan["planId"])
    await client.compact(sid, mode="auto")
    await client.call("compact/list", sid=sid)
    await client.call("session/read", sid=sid)
