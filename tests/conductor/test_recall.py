"""Recall in a session: declared from the first request on, and the digest says that it is there."""

from __future__ import annotations

from typing import Any

from long_talks import DIGEST, LONG, compact, open_session
from sidecar.llmgateway.scripted import Call, Say


async def test_what_a_compaction_folded_away_can_be_recalled(
    make_stage: Any,
) -> None:
    recalls = [[Call("recall", given)] for given in ({"query": "zebra"}, {"entry": "#1"}, {"query": "#99"})]
    script = [[Say(LONG)], [Say(LONG)], [Say(DIGEST)], *recalls, [Say("It runs on 7013.")]]
    stage, session = await open_session(make_stage, script, f"The zebra runs on port 7013. {LONG}", "go on")
    assert "recall" in [tool.name for tool in stage.model.calls[-1].conversation.tools or ()]
    assert (await compact(session)).status == "completed"
    await stage.ask(session, "where does it run?")
    conversation = stage.model.calls[-1].conversation
    assert "recall" in [tool.name for tool in conversation.tools or ()]
    assert "The tool `recall` shows an entry" in str(conversation.turns[0])
    by_words, _, by_place, _, no_place = conversation.turns[-5:]
    assert "The zebra runs on port 7013." in str(by_words)
    assert "The zebra runs on port 7013." in str(by_place)
    assert "there is no entry '#99'" in str(no_place)
