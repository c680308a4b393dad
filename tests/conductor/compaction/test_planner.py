"""A preview is the plan of a compaction: the compaction does what the preview said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from long_talks import open_session
from model_cards import card
from properties import cases
from sidecar import boot
from sidecar.agentcore import compaction
from sidecar.capabilities.read import READ
from sidecar.conductor.contract import Compaction
from sidecar.conductor.engine import CompactionRequest, FreshFile
from sidecar.conductor.events import Rehydrated
from sidecar.conductor.session import Session
from sidecar.conversation import FileRead
from sidecar.llmgateway.contract import TextBlock
from sidecar.llmgateway.scripted import Call, Raise, Say, Script, ScriptedModel
from talks import AUTO, FORCED, TALKS, TINY, Follower, Talk, turns_of

VERBOSE, TERSE, FAILING = Say("All about the parser. " * 1500), Say("x"), Raise(RuntimeError("boom"))
USUAL = Say("The parser keeps a stack of open brackets. " * 8)
SCRIPTS: list[Script] = [[[VERBOSE]], [[TERSE]], [[FAILING]], [[TERSE], [FAILING]], [[USUAL]]]
ENGINES = {name: make for name, make in boot.ENGINES.items() if make().compacts}


class Disk:
    """Files whose present length depends only on their path; every length of 0 is a deleted file."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes

    async def look(self, paths: Sequence[str]) -> dict[str, FreshFile]:
        return {path: self.file(path) for path in paths}

    def file(self, path: str) -> FreshFile:
        size = self.sizes[crc32(path.encode()) % len(self.sizes)]
        if not size:
            return FreshFile(path, problem="notFound")
        line = ("value = 1\n", " " * 40 + "x\n", "解析器\n")[size % 3]
        text = f"# {path}\n" + line * (size // len(line))
        return FreshFile(path, text, FileRead(path=path, uri=path, hash=str(size), source="disk"))


async def compact_at_every_limit(name: str, talk: Talk, script: Script, disk: Disk) -> None:
    """Compact where the gate says so, and twice by hand; the follower compares each with its plan."""
    model = ScriptedModel(script, when_exhausted="repeat")
    follower = Follower(ENGINES[name](), card(talk.window), model, disk.look)
    for turns in turns_of(talk):
        if follower.engine.gate(follower.engine_input, AUTO).over:
            await follower.compact(AUTO)
        follower.say(*turns)
    for _ in range(2):
        await follower.compact(FORCED)


@pytest.mark.parametrize("name", ENGINES)
@cases(80)
@given(
    talk=st.one_of(TALKS, TINY),
    script=st.sampled_from(SCRIPTS),
    sizes=st.lists(st.integers(0, 2_000) | st.integers(0, 20_000), min_size=1, max_size=5),
)
def test_a_compaction_does_what_its_preview_says(
    name: str, talk: Talk, script: Script, sizes: list[int]
) -> None:
    """Also of a tiny conversation, where it promises no savings that do not come."""
    asyncio.run(compact_at_every_limit(name, talk, script, Disk(sizes)))


def test_a_chronicle_beside_a_long_note_leaves_fewer_tokens_than_before() -> None:
    """A note may take nearly all that was saved; once the chronicle took the rest, to the last token."""
    exchanges = [
        (120, [[107, 205], [98], [234, 183, 60], [236, 112, 225]], 49),
        (20, [[193]], 110),
        (104, [[6000, 1, 270], [149, 233, 178], [22, 221, 261], [5796, 150, 4854]], 171),
        (71, [[207, 15, 79], [1, 164, 784], [1, 86, 236], [2382, 55]], 236),
        (1021, [[116, 156, 345], [89, 123, 1075], [82, 3625, 134], [263, 1941]], 24),
        (300, [[142, 112], [1], [282, 89, 236]], 1),
        (1, [], 1),
        (1, [[1]], 1),
    ]
    talk = Talk(exchanges, window=100_000, answers=[True])
    asyncio.run(compact_at_every_limit("runtime", talk, [[VERBOSE]], Disk([0])))


FILES = {"README.md": 400, "a.py": 60, "b.py": 40}


async def read_files(make_stage: Any, summary: str) -> tuple[Any, Session]:
    """Let a model read the files, each of so many lines, in one turn each; then *summary* is its answer."""
    script = [each for name in FILES for each in ([Call("read", {"path": name})], [Say("I see.")])]
    stage = await make_stage([*script, [Say("Good.")], [Say(summary)]], tools=[READ])
    for name, n_lines in FILES.items():
        stage.workspace.put(stage.folder / name, "a line of the file that says a thing\n" * n_lines)
    session: Session = await stage.session()
    for name in FILES:
        await stage.ask(session, f"read {name}")
    await stage.ask(session, "thanks")
    return stage, session


@pytest.mark.parametrize("summary", ["x", "A very long digest, about everything there is. " * 250])
async def test_the_files_of_a_preview_come_back(make_stage: Any, summary: str) -> None:
    """However long the digest is; the largest file, which was read first, once gave way to a long one."""
    _, session = await read_files(make_stage, summary)
    plan = await session.preview(CompactionRequest())
    done: Compaction = await session.compact(CompactionRequest(plan_id=plan.plan_id)).outcome
    assert done.status == "completed"
    events = [event.data for event in session.record.log.after(0, limit=1000)]
    (rehydrated,) = [event for event in events if isinstance(event, Rehydrated)]
    promised = [(file.uri, file.tokens) for file in plan.rehydrate]
    assert [(file.uri, file.tokens) for file in rehydrated.files] == promised
    assert promised[0][0].endswith("README.md")
    assert plan.projected is not None
    assert done.post_tokens is not None
    assert plan.projected.low <= done.post_tokens <= plan.projected.high


async def test_a_preview_shows_files_as_they_are_now(make_stage: Any) -> None:
    """A file that changed is stale as it is in the list of files; one that is gone cannot come back."""
    stage, session = await read_files(make_stage, "x")
    before = {file.uri: file for file in (await session.preview(CompactionRequest())).rehydrate}
    stage.workspace.put(stage.folder / "a.py", "two = 2\n" * 200)
    stage.workspace.put(stage.folder / "b.py", None)
    plan = await session.preview(CompactionRequest())
    stale = {file.uri: file.stale for file in await session.workbench.files.list_in_context()}
    changed = (stage.folder / "a.py").as_uri()
    assert {file.uri: file.stale for file in plan.rehydrate} == {
        uri: is_stale for uri, is_stale in stale.items() if not uri.endswith("b.py")
    }
    assert [file.uri for file in plan.rehydrate if file.stale] == [changed]
    assert next(file.tokens for file in plan.rehydrate if file.stale) != before[changed].tokens
    done: Compaction = await session.compact(CompactionRequest(plan_id=plan.plan_id)).outcome
    assert done.rehydrated == tuple(file.uri for file in plan.rehydrate)


async def test_the_words_of_a_preview_give_the_range_and_the_files(make_stage: Any) -> None:
    stage, session = await read_files(make_stage, "x")
    plan = await session.preview(CompactionRequest())
    words = (await stage.ask(session, "/preview")).text
    assert plan.projected is not None
    low, high = plan.projected.low, plan.projected.high
    assert f"The summary decides: at least {low:,}, at most {high:,} tokens." in words
    for file in plan.rehydrate:
        name = file.uri.rpartition("/")[2]
        assert f"- {name} would be restored: {file.tokens:,} tokens" in words


@pytest.mark.parametrize("engine", ["windowBudget", "summarizing"])
async def test_the_prompt_of_a_preview_is_the_one_that_the_summarizer_gets(
    make_stage: Any, engine: str
) -> None:
    """Also where another model with a smaller window writes the summaries, and reads them in pieces."""
    stage = await make_stage([[Say("An answer that takes its time. " * 300)]] * 4)
    session = await stage.session(engine=engine)
    for number in range(4):
        await stage.ask(session, f"question {number}")
    writer = ScriptedModel([[Say("x")]], when_exhausted="repeat")
    small = replace(stage.models.card("scripted-1"), context_window=8_000)
    stage.models.summarizer = lambda _: (writer, small)
    plan = await session.preview(CompactionRequest())
    await session.compact(CompactionRequest(plan_id=plan.plan_id)).outcome
    assert len(writer.calls) > 1
    first = writer.calls[0].conversation.turns[0].blocks[0]
    assert isinstance(first, TextBlock)
    assert plan.prompt is not None
    assert plan.prompt.endswith(first.text)


async def test_agentcore_plans_and_writes_a_compaction_beside_the_loop(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, session = await open_session(make_stage, [[Say("Done. " * 200)]], repeat=True, engine="agentcore")
    for n in range(4):
        await stage.ask(session, f"and {n}?")
    threads: list[bool] = []

    def record(name: str) -> None:
        work = getattr(compaction, name)

        def recorded(*args: Any, **options: Any) -> Any:
            threads.append(threading.current_thread() is threading.main_thread())
            return work(*args, **options)

        monkeypatch.setattr(compaction, name, recorded)

    for name in ("start_track", "plan_compaction", "make_checkpoint", "estimate_total"):
        record(name)
    started = session.compact(CompactionRequest())
    threads.clear()  # whether it would do nothing was answered at once
    assert (await started.outcome).status == "completed"
    assert set(threads) == {False}
