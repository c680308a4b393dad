"""A budget is one for every client of a session, and the sum of a day outlives each daemon."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

import pytest

from shared_daemon import SIDECAR, Stage, stage
from sidecar.conductor.contract import TokenCounts
from sidecar_client import CostBudget

__all__ = ["stage"]

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAID: list[dict[str, Any]] = [{"text": "It is paid."}, {"usage": {"input": 85_000, "output": 100}}]
PRICES = {"input": 2.0, "output": 8.0}
"""An answer costs 0.1708 dollars."""

MODELS = {"priced-1": {"scripted": [PAID] * 9, "contextWindow": 200_000, "cost": PRICES}}


async def test_an_editor_and_a_panel_meet_one_budget_and_the_day_survives_kill_9(stage: Stage) -> None:
    from sdk_panel import RequestError, SdkPanel, connected_agent

    editor = await stage.shim(options={"models": MODELS}).start()
    session = await editor.start_session(stage.paths.home, model="priced-1", brief="Speak like a pirate.")
    events = session.events()
    panel = SdkPanel()
    command, env = (*SIDECAR, "serve", "--shared"), {**os.environ, **stage.environment}
    async with connected_agent(panel, *command, env=env) as agent:
        cwd = str(stage.paths.home)
        await agent.load_session(session_id=session.sid, cwd=cwd, mcp_servers=[])
        chosen = await agent.set_config_option(
            session_id=session.sid, config_id="budget", value="0.3usd per day"
        )
        assert {each.id: each.current_value for each in chosen.config_options}["budget"] == "0.30usd per day"
        assert (await session.run("spend")).stop_reason == "end_turn"
        ended = await panel.ask(agent, session.sid, "spend more")
        assert ended.stop_reason == "max_turn_requests"
        assert (ended.field_meta or {})["sidecar"]["stopReason"] == "budget"
        assert "All sessions have used today $0.1708 of $0.30, and the next call takes $0.17" in panel.text()
        seen = []
        async for event in events:
            seen.append(event)
            if event.kind == "settled" and event.data["stopReason"] == "budget":
                break
        assert [each.data["kind"] for each in seen if each.kind == "notice"] == ["budget"]
        with pytest.raises(RequestError, match="the system prompt cannot be replaced"):
            await agent.new_session(cwd=cwd, mcp_servers=[], systemPrompt="You are a pirate.")
    assert stage.daemon_pid is not None
    os.kill(stage.daemon_pid, signal.SIGKILL)
    await stage.wait_until_gone()
    with suppress(Exception):
        await editor.close()
    later = await stage.shim(options={"models": MODELS}).start()
    session = await later.load_session(session.sid)
    assert (await session.run("go on")).stop_reason == "budget", "neither the budget nor the sum is lost"
    over = await session.run("go on", budget=CostBudget(usd=0.4, per="day"))
    assert over.stop_reason == "end_turn", "a turn may have a budget of its own"
    assert "Speak like a pirate." in (await session.run("/context")).text
    answers = await asyncio.gather(*(session.run("go on", budget=CostBudget(usd=9, per="day")) for _ in "12"))
    assert {each.stop_reason for each in answers} == {"end_turn"}
    assert "- All sessions of today: $0.6832, 340,400 tokens" in (await session.run("/budget")).text
    await later.close()


async def test_a_sub_agent_spends_the_budget_of_its_parent(stage: Stage) -> None:
    """The second call of the sub-agent would break the budget, and so would the next one of the parent."""
    paid = {"usage": {"input": 44_000, "output": 1_000}}
    hand_over = {"toolCall": {"name": "task", "input": {"title": "Look", "prompt": "Look around."}}}
    look = {"toolCall": {"name": "ls", "input": {"path": "."}}}
    models = {
        "boss-1": {"scripted": [[paid, hand_over], [paid, look], *[PAID] * 3], "contextWindow": 200_000}
    }
    client = await stage.shim(options={"models": models}).start()
    session = await client.start_session(stage.paths.home, model="boss-1")
    ended = await session.run("hand it over", budget=CostBudget(tokens=100_000))
    assert (ended.stop_reason, ended.usage.session_total) == ("budget", TokenCounts(88_000, 2_000))
    assert (await session.run("go on")).text == "It is paid.", "the next prompt has no budget"
    await client.close()
