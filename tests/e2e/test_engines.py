"""Every compaction engine, and what sessions know, as clients of the real daemon meet them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from provider_fakes import FakeProvider, fake_provider
from provider_fakes.scenes import Ended, Said, Spent
from sidecar_client import Session, SidecarClient, allow

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

COMPACTING = ("windowBudget", "runtime", "agentcore", "summarizing", "slidingWindow")
MODEL = "openai-chat:gpt-4o"
RECORD = {"tokensBefore", "tokensAfter", "messagesBefore", "messagesAfter", "compactedCount", "keptCount"}
RECORD |= {"isSplitTurn", "isIncremental", "summaryLen", "durationMs"}
HEADER = "[Relevant context from knowledge sources]"
FACT = "The staging database listens on port 7341."
QUESTION = "Which port does the staging database use?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[FakeProvider]:
    """A provider on the loopback, which shows what models are sent; its model says the same each time."""
    scene = (Said(("I see.",)), Spent(40, 4), Ended())
    async with fake_provider("openai-chat", [scene]) as served:
        yield served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def env(home: Path, provider: FakeProvider) -> Mapping[str, str]:
    return {"INDUSAGI_HOME": str(home), "OPENAI_BASE_URL": provider.http.url, "OPENAI_API_KEY": "sk-test"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(env: Mapping[str, str], home: Path) -> AsyncIterator[SidecarClient]:
    async with SidecarClient.spawn(env=env, cwd=home, permission=allow) as started:
        yield started


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("lexer", "parser", "printer"):
        lines = (f"def {name}_{number}(token):\n    return token\n\n\n" for number in range(60))
        (tmp_path / f"{name}.py").write_text("".join(lines), encoding="utf-8")
    return tmp_path


async def a_talk(client: SidecarClient, project: Path, engine: str) -> Session:
    """A session with something to condense, answered by the built-in model."""
    session = await client.start_session(project, engine=engine, model="offline-1")
    for name in ("lexer", "parser", "printer"):
        await session.run(f"What is in {name}.py? Never rename {name}_0.")
    return session


@pytest.mark.parametrize("engine", COMPACTING)
async def test_an_engine_previews_compacts_reports_and_undoes(
    client: SidecarClient, project: Path, engine: str
) -> None:
    session = await a_talk(client, project, engine)
    before = await session.usage()
    plan = await session.preview()
    assert (plan.engine, plan.noop) == (engine, None)
    done = await session.compact()
    assert (done.status, done.engine, done.trigger, done.summary_source) == (
        "completed",
        engine,
        "manual",
        "localFallback",
    )
    assert plan.cut is not None
    assert done.cut == plan.cut.index
    assert (await session.usage()).used < before.used
    assert set(done.info or ()) >= RECORD
    (listed,) = (await client.compact_list(session.sid)).compactions
    assert listed == done
    read = await client.compact_read(session.sid, done.compaction_id, "summary")
    assert read.content
    dropped = await client.compact_read(session.sid, done.compaction_id, "dropped")
    n_before = len(dropped.nodes or ())
    assert n_before - done.dropped_count in (0, 1), "the newest prompt stays, wherever it stood"
    assert "lexer.py" in str(dropped.nodes)
    undone = await session.undo()
    assert undone.restored_tokens > 0
    assert (await session.usage()).used >= before.used
    assert (await session.run("What is in lexer.py?")).stop_reason == "end_turn"


async def test_engines_are_compared_side_by_side_and_nothing_changes(
    client: SidecarClient, project: Path
) -> None:
    session = await a_talk(client, project, "windowBudget")
    head = (await client.session_read(session.sid)).nodes[-1].id
    plans = (await client.compact_compare(session.sid)).plans
    assert {plan.engine for plan in plans} >= set(COMPACTING)
    assert all(plan.noop is None for plan in plans if plan.engine in COMPACTING)
    assert (await client.session_read(session.sid)).nodes[-1].id == head


# What sessions know: told by what a provider is sent.


def finds(provider: FakeProvider) -> str:
    """What was found for the newest prompt, empty for nothing."""
    texts = [_text(message["content"]) for message in provider.sent[-1]["messages"]]
    return next((text for text in reversed(texts) if text.startswith(HEADER)), "")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


async def until_found(ask: Callable[[], Awaitable[object]], provider: FakeProvider, words: str) -> str:
    """Ask again until *words* are found: an index is built in the background."""
    for _ in range(50):
        await ask()
        if words in finds(provider):
            return finds(provider)
    raise AssertionError(f"{words!r} was not found; the last finds: {finds(provider)!r}")


async def test_a_second_session_recalls_what_the_first_has_learned(
    client: SidecarClient, project: Path, provider: FakeProvider
) -> None:
    first = await client.start_session(project, model=MODEL)
    await first.run(FACT)
    second = await client.start_session(project, model=MODEL, knowledge=["sessions"])
    found = await until_found(lambda: second.run(QUESTION), provider, FACT)
    assert "[a conversation, user, " in found
    third = await client.start_session(project, model=MODEL)
    await third.run(QUESTION)
    assert finds(provider) == ""


async def test_dropped_content_of_a_compaction_is_recalled(
    client: SidecarClient, project: Path, provider: FakeProvider
) -> None:
    session = await client.start_session(project, model=MODEL, engine="agentcore", knowledge=["sessions"])
    await session.run(FACT)
    for number in range(3):
        await session.run(f"Tell me about the garden, part {number}. " + "Roses and lilies. " * 60)
    await session.run(QUESTION)
    assert FACT not in finds(provider), "what is in sight is not found again"
    done = await session.compact()
    assert done.status == "completed"
    found = await until_found(lambda: session.run(QUESTION), provider, FACT)
    assert "[this conversation, user, " in found


async def test_the_workspace_is_searched(
    client: SidecarClient, project: Path, provider: FakeProvider
) -> None:
    session = await client.start_session(project, model=MODEL)
    await client.session_set_config_option(session.sid, "knowledge", "workspace")
    found = await until_found(lambda: session.run("where is printer_42 defined?"), provider, "printer_42")
    assert "[workspace] printer.py:" in found


async def test_the_loss_is_shown_and_nothing_is_out_of_reach(
    client: SidecarClient, project: Path, provider: FakeProvider
) -> None:
    """A fact that a summary let go is listed with its node, pinned, and back; so are the turns themselves."""

    def is_sent(text: str) -> bool:
        return any(text in _text(message["content"]) for message in provider.sent[-1]["messages"])

    session = await client.start_session(project, model=MODEL)
    detail = "The gardener prefers tulips that she planted by the seventh gate."
    for number in range(12):
        await session.run(f"{detail if number == 3 else ''} Part {number}. " + "Roses and lilies. " * 150)
    done = await session.compact()
    assert done.loss is not None
    read = await client.compact_read(session.sid, done.compaction_id, "loss")
    facts = read.facts or ()
    assert read.loss == done.loss
    assert done.loss.total == len(facts)
    few = await client.compact_read(session.sid, done.compaction_id, "loss", limit=2)
    assert (few.facts, few.next_cursor) == (facts[:2], "2")
    fact = next(each for each in facts if detail in each.text)
    nodes = (await client.session_read(session.sid, "full")).nodes
    assert detail in str(next(node for node in nodes if node.id == fact.node_id).blocks)
    await session.run("Which flowers?")
    assert is_sent(detail) is (fact.state != "gone")
    pin = (await client.context_pin(session.sid, text=detail)).pin
    assert pin is not None
    by_id = (await client.context_pin(session.sid, fact_id=facts[-1].fact_id)).pin
    assert by_id is not None
    assert by_id.text.startswith(facts[-1].text.removesuffix("…"))
    assert by_id.node_id == facts[-1].node_id
    await session.run("Which flowers?")
    assert is_sent(detail)
    await session.close()
    await client.session_load(session.sid)
    assert (await client.context_pin(session.sid)).pins == (pin, by_id)
    assert (await client.context_pin(session.sid, unpin=pin.pin_id)).pins == (by_id,)
    expanded = await client.context_expand(session.sid, done.compaction_id)
    assert expanded.expanded > 0
    assert expanded.tokens > 0
    await session.run("And now?")
    assert is_sent(detail)
    await session.undo(expanded.compaction_id)
    assert "Let go: " in (await session.run("/loss")).text or not done.loss.let_go
