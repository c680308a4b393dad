"""A provider that refuses what does not fit: one compaction, one more try, and every face hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from fake_panel import fake_agent
from long_talks import LONG
from memory_stream import MemoryClient
from provider_fakes import Called, Ended, Refused, Said, Scene, Spent
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.service.contract import Backend
from tests.models.conftest import connected

pytestmark = pytest.mark.processes

ENGINES = ("windowBudget", "runtime", "agentcore", "summarizing")
ANSWER: Scene = (Said((LONG,)), Spent(900, 900), Ended())
DIGEST: Scene = (Said(("# Objective\nFix the parser.\n# Guardrails\nnone\n# Carryover\nnone",)), Ended())
FULL: Scene = [Refused(400, "prompt is too long: this model's maximum context length is 200000 tokens")]
DONE: Scene = (Said(("done",)), Spent(50, 5), Ended())


async def a_long_talk(stage: Any, model: str = "known", **wanted: Any) -> Any:
    """Three prompts with long answers."""
    session = await stage.session(model, **wanted)
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    return session


def compactions(told: Any, session: Any) -> list[tuple[str, str]]:
    return [(event["data"]["trigger"], event["data"]["status"]) for event in told(session, "compaction")]


@pytest.mark.parametrize("engine", ENGINES)
async def test_every_engine_that_condenses_makes_room(on_stage: Any, told: Any, engine: str) -> None:
    async with on_stage({"anthropic-messages": [ANSWER] * 3 + [FULL, DIGEST, DONE]}) as stage:
        session = await a_long_talk(stage, engine=engine)
        outcome = await stage.ask(session, "four")
        last = str(stage.fake.sent[-1]["messages"])
        sizes = [len(call.body) for call in stage.fake.calls[3:]]
    assert (outcome.text, outcome.fault) == ("done", None)
    assert compactions(told, session) == [("overflow", "in_progress"), ("overflow", "completed")]
    assert sizes[-1] < sizes[0]
    assert "Fix the parser." in last
    assert "four" in last


async def test_an_engine_that_condenses_nothing_reports_it(on_stage: Any, told: Any) -> None:
    async with on_stage({"anthropic-messages": [ANSWER] * 3 + [FULL, DONE]}) as stage:
        session = await a_long_talk(stage, engine="none")
        outcome = await stage.ask(session, "four")
        n_calls = len(stage.fake.calls)
    assert compactions(told, session) == [("overflow", "in_progress"), ("overflow", "noop")]
    assert outcome.fault.message.startswith("the conversation does not fit the model's window")
    assert n_calls == 4


async def test_a_second_refusal_is_the_end_of_the_turn(on_stage: Any, told: Any) -> None:
    """One compaction and one more try; the next prompt may try again."""
    async with on_stage({"anthropic-messages": [ANSWER] * 3 + [FULL, DIGEST, FULL, DONE]}) as stage:
        session = await a_long_talk(stage)
        outcome = await stage.ask(session, "four")
        assert outcome.fault.error_kind == "modelFailed"
        assert (len(stage.fake.calls), len(compactions(told, session))) == (6, 2)
        assert (await stage.ask(session, "five")).text == "done"


async def test_room_is_made_in_the_middle_of_a_turn(on_stage: Any, told: Any) -> None:
    """What a tool said did not fit: the calls and results stay together, and the model goes on from there."""
    reads = (Called("call_1", "read", ('{"path": "a.txt"}',)), Ended("tool_calls"))
    async with on_stage({"anthropic-messages": [ANSWER] * 3 + [reads, FULL, DIGEST, DONE]}) as stage:
        (stage.folder / "a.txt").write_text("hi\n")
        session = await a_long_talk(stage)
        outcome = await stage.ask(session, "four")
        last = stage.fake.sent[-1]["messages"]
    assert outcome.text == "done"
    assert [event["kind"] for event in told(session, "toolFinished", "settled")][-2:] == [
        "toolFinished",
        "settled",
    ]
    kinds = [part["type"] for message in last[-2:] for part in message["content"]]
    assert kinds == ["tool_use", "tool_result"]


@pytest.mark.parametrize("face", ["lsp", "acp"])
async def test_each_face_shows_the_compaction_that_made_room(on_stage: Any, face: str) -> None:
    async with on_stage({"anthropic-messages": [ANSWER] * 3 + [FULL, DIGEST, DONE]}) as stage:
        seen = await (over_lsp if face == "lsp" else over_acp)(stage)
    assert [(each["trigger"], each["status"]) for each in seen] == [
        ("overflow", "in_progress"),
        ("overflow", "completed"),
    ]
    assert "Fix the parser." in seen[-1]["summary"]


async def over_lsp(stage: Any) -> list[dict[str, Any]]:
    """Return the compactions that a client of ours is told of."""
    client = await connected(stage)
    made = await client.request("new", "sidecar/session/new", {"cwd": str(stage.folder), "model": "known"})
    for prompt in ("one", "two", "three", "four"):
        given = {"sid": made["result"]["sid"], "input": [{"type": "text", "text": prompt}]}
        assert "error" not in await client.request(prompt, "sidecar/turn/run", given)
    told = [call["params"] for call in client.calls("sidecar/event")]
    return [event["data"] for event in told if event["kind"] == "compaction"]


async def over_acp(stage: Any) -> list[dict[str, Any]]:
    """Return the compactions that an agent panel is told of."""
    client, daemon = MemoryClient(lines=True), stage.daemon
    info = fake_agent("acp1")
    options = AcpOptions(info, lambda _: Backend(daemon.service, daemon.workspace))
    AcpConnection(client.stream, options).start()
    await client.request("hi", "initialize", {"protocolVersion": 1})
    given = {"cwd": str(stage.folder), "mcpServers": [], "_meta": {"sidecar": {"model": "known"}}}
    sid = (await client.request("new", "session/new", given))["result"]["sessionId"]
    for prompt in ("one", "two", "three", "four"):
        asked = {"sessionId": sid, "prompt": [{"type": "text", "text": prompt}]}
        assert "error" not in await client.request(prompt, "session/prompt", asked)
    updates = [call["params"]["update"] for call in client.calls("session/update")]
    return [each["_meta"]["sidecar"] for each in updates if "contextCompaction" in each.get("_meta", {})]


@pytest.mark.parametrize(
    ("engine", "said", "window"),
    [
        ("windowBudget", "maximum context length is 5000 tokens", 5_000),
        *((engine, "prompt is too long", 9_900) for engine in ENGINES),
    ],
)
async def test_an_unknown_window_is_learned_from_the_refusal(
    on_stage: Any, told: Any, engine: str, said: str, window: int
) -> None:
    """What it says, else no more than what was refused; from then on room is made before a refusal."""
    full: Scene = [Refused(400, said, "context_length_exceeded")]
    answer: Scene = (Said((LONG,)), Spent(9_000, 900), Ended())
    async with on_stage({"openai-chat": [answer] * 3 + [full, DIGEST, DONE]}) as stage:
        session = await a_long_talk(stage, "openai:nobody-knows", engine=engine)
        assert session.window.request.usage().window == 0
        outcome = await stage.ask(session, "four")
        learned = session.window.request.usage().window
    assert (outcome.text, outcome.fault) == ("done", None)
    # The first is for a window of unknown size. Another one follows where its result is over the limit.
    assert compactions(told, session)[:2] == [("overflow", "in_progress"), ("overflow", "completed")]
    assert learned == pytest.approx(window, rel=0.1)


async def test_the_refusal_of_a_small_request_teaches_no_window(on_stage: Any) -> None:
    """As of one with an image too many."""
    async with on_stage({"openai-chat": [[Refused(413, "request too large")], DONE]}) as stage:
        session = await stage.session("openai:nobody-knows")
        await stage.ask(session, "look")
        assert session.window.request.usage().window == 0
