"""Knowledge of a session: searches before an answer, the message with the results, and ingested turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from histories import entry_of, history_of
from long_talks import LONG, emitted, open_session, sent
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.read import READ
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import Notice
from sidecar.conductor.session import Session
from sidecar.conductor.window.knowledge import event_of, with_knowledge
from sidecar.llmgateway.contract import AssistantTurn, ToolResultBlock, ToolTurn, Turn
from sidecar.llmgateway.scripted import Call, Say
from sidecar.rooms import KnowledgeResult, KnowledgeSource, MockKnowledgeSource, RoomEvent
from sidecar.rooms.memory.summaries import KNOWLEDGE_MARK
from turns import assistant, user

FIND = KnowledgeResult("parser.py:12\ndef parse(text):", 0.9, "workspace", {"path": "/p/parser.py"})


class EveryFolder(frozenset[Path]):
    """A collection that holds every folder."""

    def __contains__(self, folder: object) -> bool:
        return True


class FakeLibrary:
    """A library of one source, which records its calls."""

    in_use = EveryFolder()

    names = ("workspace", "sessions")

    def __init__(self, source: KnowledgeSource | None = None) -> None:
        self.source = source or MockKnowledgeSource([FIND], name="workspace")
        self.opened: list[tuple[str, tuple[str, ...], tuple[Path, ...]]] = []
        self.released: list[str] = []
        self.ingested: list[RoomEvent] = []
        self.forgotten: list[str] = []
        self.excluded_ids: Callable[[], Collection[str]] = tuple
        self.progress: Callable[[int, int], None] = lambda done, total: None

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        self.opened.append((sid, tuple(names), tuple(roots)))
        self.excluded_ids, self.progress = excluded_ids, progress
        return (self.source,)

    async def release(self, sid: str) -> None:
        self.released.append(sid)

    def ingest(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        self.ingested += events

    def forget(self, sid: str) -> None:
        self.forgotten.append(sid)


def notices(session: Session) -> list[str]:
    return [each.title for each in emitted(session, Notice)]


async def test_the_results_precede_the_prompt_and_are_never_stored(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say("one")], [Say("two")]], library=library)
    session = await stage.session(knowledge=("workspace",))
    await stage.ask(session, "hello there")
    await stage.ask(session, "where is the parser?")
    finds = f"{KNOWLEDGE_MARK}\n- [workspace] parser.py:12\n  def parse(text):"
    assert sent(stage) == ["hello there", "one", finds, "where is the parser?"]
    assert [turn.role for turn in session.record.history.turns] == ["user", "assistant", "user", "assistant"]
    assert all("parser.py" not in str(turn) for turn in session.record.history.turns)
    assert library.opened == [(session.sid, ("workspace",), (stage.folder,))]


async def test_a_prompt_is_searched_for_once_for_all_its_model_calls(make_stage: Any) -> None:
    library = FakeLibrary()
    rounds = [[Call("read", {"path": "a.py"})], [Call("read", {"path": "a.py"})], [Say("done")]]
    stage = await make_stage(rounds, tools=[READ], library=library)
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    session = await stage.session(knowledge=("workspace",))
    await stage.ask(session, "where is the parser?")
    assert isinstance(library.source, MockKnowledgeSource)
    assert [call.query for call in library.source.search_calls] == ["where is the parser?"]
    for index in range(3):
        assert sent(stage, index)[0].startswith(KNOWLEDGE_MARK)
        assert sent(stage, index)[1] == "where is the parser?"


@pytest.mark.parametrize(
    "engine", ["windowBudget", "runtime", "agentcore", "summarizing", "slidingWindow", "none"]
)
async def test_every_engine_sends_the_results(make_stage: Any, engine: str) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say("one")], [Say("two")]], library=library)
    session = await stage.session(knowledge=("workspace",), engine=engine)
    await stage.ask(session, "hello")
    used = session.window.request.usage().used
    await stage.ask(session, "where is the parser?")
    assert sent(stage)[2].startswith(KNOWLEDGE_MARK)
    assert session.window.request.usage().used < used + 100, "finds are no part of the conversation"


async def test_without_a_source_no_search_is_made(make_stage: Any) -> None:
    library = FakeLibrary()
    stage, _ = await open_session(make_stage, [[Say("one")]], "where is the parser?", library=library)
    assert sent(stage) == ["where is the parser?"]
    assert library.opened == []


async def test_an_unknown_source_is_refused_with_the_known_ones(make_stage: Any) -> None:
    stage = await make_stage([], library=FakeLibrary())
    with pytest.raises(InvalidInput, match="no knowledge source 'web'") as caught:
        await stage.session(knowledge=("web",))
    assert caught.value.hint == "known sources: workspace, sessions"


async def test_the_results_are_bounded_by_the_window(make_stage: Any) -> None:
    many = [KnowledgeResult(f"f{n}.py:1\n" + "x = 1\n" * 2000, 0.5, "workspace") for n in range(5)]
    stage = await make_stage([[Say("one")]], library=FakeLibrary(MockKnowledgeSource(many)), window=8_000)
    session = await stage.session(knowledge=("workspace",))
    await stage.ask(session, "where is x?")
    assert len(sent(stage)[0]) <= 4 * 1_000
    assert "[... truncated from" in sent(stage)[0]


async def test_every_gate_counts_the_tokens_of_the_results(make_stage: Any) -> None:
    stage = await make_stage([[Say("one")]] * 2, library=FakeLibrary())
    plain, knowing = await stage.session(), await stage.session(knowledge=("workspace",))
    for session in (plain, knowing):
        await stage.ask(session, "hello")
    gates = [(await session.preview(CompactionRequest())).gate.tokens for session in (plain, knowing)]
    assert gates[1] - gates[0] == 4_000


async def test_secrets_in_the_results_are_masked(make_stage: Any) -> None:
    leak = KnowledgeResult("settings.py:3\nAPI_KEY = 'sk-proj-abcdefghijklmnop1234'", 0.5, "workspace")
    stage = await make_stage([[Say("one")]], library=FakeLibrary(MockKnowledgeSource([leak])))
    session = await stage.session(knowledge=("workspace",))
    await stage.ask(session, "what is the API_KEY?")
    assert "[secret]" in sent(stage)[0]
    assert "abcdefghijklmnop" not in sent(stage)[0]


class SlowSource(MockKnowledgeSource):
    """A source that answers when it is let go."""

    def __init__(self) -> None:
        super().__init__([FIND], name="slow")
        self.may_answer = asyncio.Event()

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        await self.may_answer.wait()
        return await super().search(query, room_id=room_id, limit=limit)


async def test_a_slow_source_is_not_waited_for_and_is_reported_once(make_stage: Any) -> None:
    stage = await make_stage(
        [[Say("one")], [Say("two")]], library=FakeLibrary(SlowSource()), knowledge_timeout_s=0.01
    )
    session = await stage.session(knowledge=("workspace",))
    for prompt in ("where is it?", "and now?"):
        assert (await stage.ask(session, prompt)).fault is None
    assert sent(stage) == ["where is it?", "one", "and now?"]
    assert notices(session) == ["The knowledge source 'slow' did not answer"]


async def test_a_failed_source_loses_its_results_and_nothing_else(make_stage: Any) -> None:
    source = MockKnowledgeSource(error=RuntimeError("secret words"), name="broken")
    stage = await make_stage([[Say("one")]], library=FakeLibrary(source))
    session = await stage.session(knowledge=("workspace",))
    assert (await stage.ask(session, "where is it?")).text == "one"
    assert notices(session) == ["The knowledge source 'broken' did not answer"]
    assert "secret words" not in str(session.record.log.after(0, limit=1000))


async def test_a_turn_can_be_stopped_during_a_search(make_stage: Any) -> None:
    stage = await make_stage([[Say("one")]], library=FakeLibrary(SlowSource()))
    session = await stage.session(knowledge=("workspace",))
    started = await session.submit(({"type": "text", "text": "where is it?"},))
    await stage.settle()
    assert session.turns.prompts.interrupt(started.turn_id, "keep").accepted
    assert (await started.outcome).stop_reason == "cancelled"
    assert stage.model.calls == []


# What the sources are told, and what is hidden from them.


async def test_each_turn_is_ingested_once_with_its_author(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage(
        [[Call("read", {"path": "a.py"})], [Say("one")], [Say("two")]], tools=[READ], library=library
    )
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    session = await stage.session()
    await stage.ask(session, "read a.py")
    await stage.ask(session, "go on")
    said = [(event.id.partition(".")[0], getattr(event.content, "body", "")) for event in library.ingested]
    assert said == [("user", "read a.py"), ("assistant", "one"), ("user", "go on"), ("assistant", "two")]
    assert {event.room_id for event in library.ingested} == {session.sid}


async def test_an_ephemeral_session_ingests_nothing(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say("one")]], library=library)
    await stage.ask(await stage.session(ephemeral=True), "between us")
    assert library.ingested == []


async def test_summaries_are_not_ingested(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say(LONG)]] * 3 + [[Say("the digest")], [Say("four")]], library=library)
    session = await stage.session()
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    await session.compact(CompactionRequest()).outcome
    await stage.ask(session, "go on")
    texts = [getattr(event.content, "body", "") for event in library.ingested]
    assert not any("the digest" in text for text in texts)
    assert {"one", "two", "three", "go on"} <= set(texts)


async def test_turns_that_the_model_sees_are_excluded_from_the_results(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say("answer")]], repeat=True, library=library)
    session = await stage.session(knowledge=("sessions",))
    for number in range(4):
        if number == 2:
            await session.rewind(None, expect_head=None)
        await stage.ask(session, f"prompt {number}")
    ids = {getattr(event.content, "body", ""): event.id for event in library.ingested}
    hidden = set(library.excluded_ids())
    assert {ids["prompt 2"], ids["answer"], ids["prompt 3"]} == hidden
    assert ids["prompt 0"] not in hidden


async def test_a_closed_session_releases_its_sources_and_a_deleted_one_is_forgotten(make_stage: Any) -> None:
    library = FakeLibrary()
    stage = await make_stage([[Say("one")]], library=library)
    session = await stage.session(knowledge=("workspace", "workspace"))
    await stage.ask(session, "hello")
    await stage.hub.close(session.sid)
    assert library.released == [session.sid]
    loaded = (await stage.hub.load(session.sid)).session
    assert loaded.info.knowledge == ("workspace",)
    assert len(library.opened) == 2
    await stage.hub.delete(session.sid)
    assert library.forgotten == [session.sid]


async def test_indexing_a_large_workspace_emits_notices(make_stage: Any) -> None:
    library = FakeLibrary()
    _, session = await open_session(make_stage, [], library=library, knowledge=("workspace",))
    for done in (32, 64, 5_000):
        library.progress(done, 5_000)
    library.progress(1, 1)
    assert notices(session) == ["Indexing the workspace", "The workspace is indexed"]


async def test_indexing_a_small_workspace_emits_no_notice(make_stage: Any) -> None:
    library = FakeLibrary()
    _, session = await open_session(make_stage, [], library=library, knowledge=("workspace",))
    library.progress(32, 40)
    library.progress(40, 40)
    assert notices(session) == []


# The pure parts.


@pytest.mark.parametrize(
    ("turns", "place"),
    [
        pytest.param([user("a"), AssistantTurn(()), user("b")], 2, id="before the newest prompt"),
        pytest.param([user("a"), AssistantTurn(()), ToolTurn(())], 0, id="before the rounds that follow it"),
        pytest.param(
            [user("[session digest — older turns condensed]\n\nx"), user("a")], 1, id="behind a digest"
        ),
        pytest.param([AssistantTurn(())], 0, id="first where there is no prompt"),
    ],
)
def test_the_results_are_inserted_before_the_newest_prompt(turns: list[Turn], place: int) -> None:
    found = user(KNOWLEDGE_MARK)
    prompt = next((each.turn for each in reversed(history_of(turns)) if each.kind == "user"), None)
    assert with_knowledge(turns, found, prompt) == (*turns[:place], found, *turns[place:])
    assert with_knowledge(turns, None, prompt) == tuple(turns)


def test_the_same_text_has_the_same_event_id_in_every_session() -> None:
    first, second = (
        event_of("s1", entry_of(user("the port is 7341")), 1_000),
        event_of("s2", entry_of(user("the port is 7341")), 2_000),
    )
    assert first is not None
    assert second is not None
    assert first.id == second.id
    assert first.id != getattr(event_of("s1", entry_of(assistant("the port is 7341")), 0), "id", None)
    assert first.created_at.timestamp() == 1
    assert event_of("s1", entry_of(ToolTurn((ToolResultBlock("1", "x"),))), 0) is None
    assert event_of("s1", entry_of(AssistantTurn(())), 0) is None
