"""A conversation that is broken, as an import or an older version may leave it, is repaired and reported."""

from __future__ import annotations

from typing import Any

import pytest

from provider_fakes import Ended, Refused, Said
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.store import SessionStore
from turns import assistant, calls, results, user

pytestmark = pytest.mark.processes

BROKEN: list[Any] = [
    pytest.param([user("a"), calls("c1", "c2"), results("c1"), user("b")], id="a call without its result"),
    pytest.param([user("a"), results("c9"), assistant("so")], id="a result without its call"),
    pytest.param([assistant("hello")], id="the assistant speaks first"),
]


@pytest.mark.parametrize("turns", BROKEN)
async def test_a_broken_conversation_is_repaired_and_reported_once(
    on_stage: Any, told: Any, turns: list[Turn]
) -> None:
    """The fake refuses what is not valid: an answer says that the request was."""
    async with on_stage({"anthropic-messages": [(Said(("fine",)), Ended())]}) as stage:
        session = await stage.session()
        hub, sid = stage.daemon.service.hub, session.sid
        await hub.close(sid)
        journal = SessionStore(stage.home / "sessions").journal(sid)
        await journal.load()
        await journal.record(turns)
        await journal.close()
        loaded = (await hub.load(sid)).session
        texts = [(await stage.ask(loaded, prompt)).text for prompt in ("go on", "and on")]
        stored = await SessionStore(stage.home / "sessions").open(sid)
    assert texts == ["fine", "fine"]
    assert [node.turn for node in stored.graph.nodes[: len(turns)]] == turns
    (notice,) = told(loaded, "notice")
    assert "conversation was repaired" in notice["data"]["title"]
    assert "put in order" in notice["data"]["description"]


async def test_an_organization_without_summaries_of_reasoning_is_asked_for_none(on_stage: Any) -> None:
    """A refusal is answered by the same request without them, once for all."""
    sentence = (
        "Your organization must be verified to generate reasoning summaries. (param: reasoning.summary)"
    )
    refused = Refused(400, sentence, "unsupported_value", details=({"param": "reasoning.summary"},))
    scenes = [(refused,), (Said(("one",)), Ended()), (Said(("two",)), Ended())]
    async with on_stage({"openai-responses": scenes}) as stage:
        session = await stage.session()
        await session.choose("thinking", "high")
        assert [(await stage.ask(session, word)).text for word in ("a", "b")] == ["one", "two"]
        sent = stage.fake.sent
    assert [request.get("reasoning") for request in sent] == [
        {"effort": "high", "summary": "auto"},
        {"effort": "high"},
        {"effort": "high"},
    ]
