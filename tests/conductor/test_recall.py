"""Recall in a session: declared from the first request on, and the digest says that it is there."""

from __future__ import annotations

from typing import Any

from long_talks import DIGEST, LONG
from sidecar.conductor.engine import CompactionRequest
from sidecar.llmgateway.scripted import Call, Say


async def test_what_a_compaction_folded_away_can_be_recalled(make_stage: Any) -> None:
    recall = [Call("recall", {"query": "zebra"})]
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(DIGEST)], recall, [Say("It runs on 7013.")]])
    session = await stage.session()
    await stage.ask(session, f"The zebra runs on port 7013. {LONG}")
    await stage.ask(session, "go on")
    assert "recall" in [tool.name for tool in stage.model.calls[-1].conversation.tools or ()]
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed"
    assert done.summary is not None
    await stage.ask(session, "where does it run?")
    conversation = stage.model.calls[-1].conversation
    assert "recall" in [tool.name for tool in conversation.tools or ()]
    assert "The zebra runs on port 7013." in str(conversation.turns[-1])
    assert "The tool `recall` shows an entry" in str(conversation.turns[0])


async def test_a_place_of_the_chronicle_shows_its_entry(make_stage: Any) -> None:
    recalls = [[Call("recall", {"entry": "#1"})], [Call("recall", {"query": "#99"})]]
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(DIGEST)], *recalls, [Say("It runs on 7013.")]])
    session = await stage.session()
    await stage.ask(session, f"The zebra runs on port 7013. {LONG}")
    await stage.ask(session, "go on")
    await session.compact(CompactionRequest()).outcome
    await stage.ask(session, "where does it run?")
    turns = stage.model.calls[-1].conversation.turns
    assert "The zebra runs on port 7013." in str(turns[-3])
    assert "there is no entry '#99'" in str(turns[-1])
