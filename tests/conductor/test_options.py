"""The config options of a session: their choices, their events, and the moment when a choice takes effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bare_sessions import NoLibrary
from long_talks import emitted, open_session
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.conductor.contract import ConfigChoice, ConfigOption
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import ConfigChanged
from sidecar.conductor.session import Session
from sidecar.llmgateway.registry import ModelRegistry
from sidecar.llmgateway.scripted import Say, WaitFor
from sidecar.rooms import KnowledgeSource, MockKnowledgeSource


def values(session: Session) -> dict[str, str]:
    return {option.id: option.current_value for option in session.turns.options.all()}


def choices(session: Session, config_id: str) -> list[str]:
    (option,) = (option for option in session.turns.options.all() if option.id == config_id)
    return [choice.value for choice in option.options]


def let_think(stage: Any) -> None:
    card = stage.models.card("scripted-1")
    stage.models.catalog = {**stage.models.catalog, card.id: replace(card, reasoning=True)}


async def test_the_options_are_listed_with_their_current_values(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    assert values(session) == {
        "model": "scripted-1",
        "engine": "windowBudget",
        "thinking": "default",
        "permissions": "ask",
        "budget": "default",
    }
    assert choices(session, "engine") == list(stage.hub.engines)
    assert choices(session, "thinking") == ["default"], "this model cannot think"
    assert session.turns.options.all()[3] == ConfigOption(
        "permissions",
        "Permissions",
        "mode",
        "ask",
        (
            ConfigChoice("ask", "Ask before every change"),
            ConfigChoice("allowEdits", "Edit files in the session's folders without asking"),
            ConfigChoice("plan", "Only read, and change nothing"),
            ConfigChoice("allowAll", "Never ask"),
        ),
    )


@pytest.mark.parametrize(
    ("config_id", "value"),
    [("model", "offline-1"), ("engine", "none"), ("thinking", "high"), ("permissions", "allowEdits")],
)
async def test_a_choice_emits_all_options(make_stage: Any, config_id: str, value: str) -> None:
    stage = await make_stage()
    let_think(stage)
    session = await stage.session()
    before = values(session)
    await session.choose(config_id, value)
    assert values(session) == {**before, config_id: value} | (
        {"thinking": "default"} if config_id == "model" else {}
    )
    (told,) = emitted(session, ConfigChanged)
    assert told == ConfigChanged(session.turns.options.all())


@pytest.mark.parametrize(
    ("config_id", "value", "kind"),
    [
        ("model", "steam", "modelNotFound"),
        ("engine", "steam", "invalidParams"),
        ("thinking", "high", "invalidParams"),
        ("permissions", "whatever", "invalidParams"),
        ("colour", "red", "invalidParams"),
    ],
)
async def test_a_refused_choice_emits_nothing(make_stage: Any, config_id: str, value: str, kind: str) -> None:
    _, session = await open_session(make_stage)
    with pytest.raises(SidecarError) as raised:
        await session.choose(config_id, value)
    assert (raised.value.kind, session.record.log.seq) == (kind, 0)


async def test_a_model_chosen_during_a_turn_answers_the_next_one(make_stage: Any) -> None:
    stage = await make_stage([[WaitFor("go"), Say("one")], [Say("two")]])
    let_think(stage)
    session = await stage.session()
    started = await session.submit(({"type": "text", "text": "1"},))
    await session.choose("thinking", "low")
    stage.model.gate("go").set()
    await started.outcome
    await stage.ask(session, "2")
    assert [call.options.thinking for call in stage.model.calls] == [None, "low"]


async def test_choices_are_stored_except_the_permission_mode(make_stage: Any) -> None:
    stage = await make_stage()
    let_think(stage)
    session = await stage.session()
    chosen = {"engine": "runtime", "thinking": "max", "permissions": "allowAll", "budget": "$2, 5M per day"}
    for config_id, value in chosen.items():
        await session.choose(config_id, value)
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert values(loaded) == {
        "model": "scripted-1",
        "engine": "runtime",
        "thinking": "max",
        "permissions": "ask",
        "budget": "2usd per prompt, 5M per day",
    }


class Shelf(NoLibrary):
    """A library with two sources on offer, which notes what is open."""

    names = ("workspace", "sessions")

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[str, ...]] = []

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        self.opened.append(tuple(names))
        return [MockKnowledgeSource(name=name) for name in names]

    async def release(self, sid: str) -> None:
        self.opened.append(())


async def test_the_knowledge_sources_are_an_option_and_are_stored(make_stage: Any) -> None:
    shelf = Shelf()
    stage = await make_stage([[Say("one")]] * 2, library=shelf)
    session = await stage.session(knowledge=("sessions",))
    assert choices(session, "knowledge") == ["none", "workspace", "sessions", "workspace+sessions"]
    assert values(session)["knowledge"] == "sessions"
    await session.choose("knowledge", "workspace+sessions")
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert values(loaded)["knowledge"] == "workspace+sessions"
    await loaded.choose("knowledge", "none")
    await loaded.choose("knowledge", "none")
    both = ("workspace", "sessions")
    assert shelf.opened == [("sessions",), (), both, (), both, ()]


async def test_there_is_no_knowledge_option_without_sources(make_stage: Any) -> None:
    session = await (await make_stage()).session()
    assert "knowledge" not in values(session)


async def test_an_unknown_option_is_refused_with_the_known_ones(make_stage: Any) -> None:
    session = await (await make_stage()).session()
    with pytest.raises(InvalidInput) as raised:
        session.turns.options.choose("colour", "red")
    assert raised.value.hint == "known options: model, engine, thinking, permissions, budget"


BAD_POLICIES = [
    pytest.param({"triggerRatio": -0.5}, id="less than nothing"),
    pytest.param({"triggerRatio": 0.5, "reserveTokens": 1e308}, id="beyond all windows"),
    pytest.param({"keepRecent": float("nan")}, id="no number"),
    pytest.param({"keepRecent": float("inf")}, id="endless"),
    pytest.param({"triggerRatio": 7}, id="more than the whole window"),
    pytest.param({"triggerRatio": 0}, id="none of the window"),
    pytest.param({"triggerRatoi": 0.5}, id="a name that no engine knows"),
    pytest.param({"maxEvents": 3}, id="a name that another engine knows"),
]


@pytest.mark.parametrize("policy", BAD_POLICIES)
async def test_an_unusable_threshold_is_refused(make_stage: Any, policy: dict[str, float]) -> None:
    """A session that had it could not even say how full its window is."""
    stage = await make_stage()
    with pytest.raises(InvalidInput, match=r"policy|threshold"):
        await stage.session(policy=policy)
    session = await stage.session(policy={"triggerRatio": 1e-9, "keepRecent": 1e12})
    with pytest.raises(InvalidInput, match=r"policy|threshold"):
        await session.preview(CompactionRequest(policy=policy))
    with pytest.raises(InvalidInput, match=r"policy|threshold"):
        session.compact(CompactionRequest(policy=policy))
    assert session.window.request.usage().used > 0


async def test_the_model_of_a_session_is_warmed_up_when_it_is_chosen_or_loaded(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await make_stage()
    warmed: list[str] = []
    monkeypatch.setattr(ModelRegistry, "warm_up", lambda models, name: warmed.append(name))
    session = await stage.session()
    with pytest.raises(SidecarError):
        await session.choose("model", "no such model")
    await session.choose("model", "offline-1")
    await stage.hub.close(session.sid)
    await stage.hub.load(session.sid)
    assert warmed == ["scripted-1", "offline-1", "offline-1"]
