"""What happens to a conversation between two turns: rewind, drop, files put back; and its undoing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fake_tools import FakeTool
from long_talks import emitted, open_session
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.edit import EDIT
from sidecar.capabilities.read import READ
from sidecar.conductor.contract import RestoredFile
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import HeadMovedError, NodeNotFound, SessionBusyError
from sidecar.conductor.events import HeadChanged, Rehydrated
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conversation import Entry, History, Index
from sidecar.llmgateway.contract import TextBlock, UserTurn, join_texts
from sidecar.llmgateway.scripted import Call, Hang, Say
from sidecar.window_budget import RESTORED_FILE_PREFIX
from sidecar.workspace.files import text_hash
from turns import assistant, text, user


def roles(session: Session) -> list[str]:
    return [turn.role for turn in session.record.history.turns]


async def a_talk(make_stage: Any, n_prompts: int = 3) -> tuple[Any, Session]:
    stage = await make_stage([[Say(f"answer {n}")] for n in range(n_prompts)], repeat=True)
    session = await stage.session()
    for n in range(n_prompts):
        await stage.ask(session, f"prompt {n}")
    return stage, session


async def test_a_rewind_moves_the_head_and_removes_nothing(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    ids = tuple(session.record.history.current.node_ids)
    left = session.record.history.current[2:]
    moved = await session.rewind(ids[1], expect_head=ids[-1])
    assert (moved.head, moved.removed) == (ids[1], ids[2:])
    assert moved.tokens == sum(map(entry_tokens, left))
    assert emitted(session, HeadChanged) == [HeadChanged(ids[1], ids[2:], "rewind")]
    assert session.record.history.graph.entries.keys() == set(ids)
    assert (await stage.shelf.graph(session.sid)).leaf == ids[1]


async def test_the_conversation_goes_on_from_where_a_rewind_ended(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    await stage.ask(session, "another way")
    asked = stage.model.calls[-1].conversation.turns
    assert [join_texts(turn.blocks) for turn in asked] == ["prompt 0", "answer 0", "another way"]
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert roles(loaded) == ["user", "assistant"] * 2


async def test_a_rewind_can_be_taken_back(make_stage: Any) -> None:
    _, session = await a_talk(make_stage)
    turns, head = list(session.record.history.turns), session.record.history.head
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    back = await session.rewind(head, expect_head=None)
    assert (list(session.record.history.turns), back.removed) == (turns, ())


async def test_a_rewind_before_everything_leaves_an_empty_conversation(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, 1)
    moved = await session.rewind(None, expect_head=None)
    assert (moved.head, list(session.record.history.turns), session.window.request.usage().source) == (
        None,
        [],
        "estimate",
    )
    assert (await stage.ask(session, "again")).stop_reason == "end_turn"
    assert roles(session) == ["user", "assistant"]


async def test_a_call_without_its_result_is_mended_where_a_rewind_ends_at_it(make_stage: Any) -> None:
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("done")]], tools=[READ])
    session = await stage.session()
    await stage.ask(session, "read it")
    call = session.record.history.current.node_ids[1]
    moved = await session.rewind(call, expect_head=None)
    assert moved.head != call
    assert roles(session) == ["user", "assistant", "tool"]


async def test_what_was_read_after_the_rewind_counts_as_never_read(make_stage: Any) -> None:
    stage = await make_stage([[Say("hi")], [Call("read", {"path": "a.py"})], [Say("done")]], tools=[READ])
    session = await stage.session()
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    await stage.ask(session, "hello")
    await stage.ask(session, "read it")
    assert len(await session.workbench.files.list_in_context()) == 1
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    assert await session.workbench.files.list_in_context() == ()


async def test_a_rewind_names_the_files_that_commands_changed(make_stage: Any) -> None:
    command = "sed -i 's/x/y/' a.py && git mv b.py c.py && cat d.py"
    stage = await make_stage(
        [[Say("hi")], [Call("shell", {"command": command})], [Say("done")]],
        tools=[FakeTool("shell", kind="execute")],
    )
    session = await stage.session()
    await stage.ask(session, "hello")
    await stage.ask(session, "change them")
    moved = await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    assert moved.edited_files == tuple((stage.folder / f"{name}.py").as_uri() for name in "abc")


async def test_a_rewind_names_the_files_that_it_leaves_edited(make_stage: Any) -> None:
    script = [
        [Say("hi")],
        [
            Call("write", {"path": "a.py", "content": "x = 1\n"}),
            Call("write", {"path": "b.py", "content": ""}),
        ],
        [Call("edit", {"path": "a.py", "old_text": "no such", "new_text": "y"})],
        [Say("done")],
    ]
    stage, session = await open_session(
        make_stage, script, "hello", "write them", tools=[FakeTool("write", kind="edit"), EDIT]
    )
    moved = await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    assert moved.edited_files == tuple((stage.folder / name).as_uri() for name in ("a.py", "b.py"))
    assert emitted(session, HeadChanged)[-1].edited_files == moved.edited_files
    assert (await session.rewind(None, expect_head=None)).edited_files == ()


async def test_the_command_rewind_says_which_files_stay_edited(make_stage: Any) -> None:
    script = [[Call("write", {"path": "a.py", "content": "x = 1\n"})], [Say("done")]]
    stage = await make_stage(script, tools=[FakeTool("write", kind="edit")])
    session = await stage.session()
    await stage.ask(session, "write it")
    answer = (await stage.ask(session, "/rewind")).text
    assert answer.endswith("stay as they are:\n- a.py")


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.rewind(None, expect_head="elsewhere"),
        lambda session: session.drop(["x"], expect_head="elsewhere"),
        lambda session: session.submit(text("2"), expect_head="elsewhere"),
    ],
    ids=["rewind", "drop", "submit"],
)
async def test_a_stale_head_is_refused(make_stage: Any, change: Any) -> None:
    _, session = await a_talk(make_stage, 1)
    with pytest.raises(HeadMovedError):
        await change(session)
    assert roles(session) == ["user", "assistant"]


async def test_the_head_counts_when_the_change_is_made_not_when_it_is_asked_for(make_stage: Any) -> None:
    _, session = await a_talk(make_stage)
    head, first = session.record.history.head, session.record.history.current.node_ids[1]
    done = await asyncio.gather(
        session.rewind(first, expect_head=head),
        session.rewind(None, expect_head=head),
        return_exceptions=True,
    )
    assert isinstance(done[1], HeadMovedError)
    assert session.record.history.head == first


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.rewind("nowhere", expect_head=None),
        lambda session: session.drop(["nowhere"], expect_head=None),
    ],
    ids=["rewind", "drop"],
)
async def test_an_unknown_node_is_named(make_stage: Any, change: Any) -> None:
    _, session = await a_talk(make_stage, 1)
    with pytest.raises(NodeNotFound, match="nowhere"):
        await change(session)


async def test_nothing_changes_beside_a_turn(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Hang()]])
    await session.submit(text("1"))
    with pytest.raises(SessionBusyError):
        await session.rewind(None, expect_head=None)
    with pytest.raises(SessionBusyError):
        await session.drop([], expect_head=None)
    with pytest.raises(SessionBusyError):
        await session.rehydrate(None, None)
    with pytest.raises(SessionBusyError):
        await session.undo(None, force=False, expect_head=None)


async def test_a_drop_takes_turns_out_on_a_branch_of_its_own(make_stage: Any) -> None:
    _, session = await a_talk(make_stage)
    ids, head = tuple(session.record.history.current.node_ids), session.record.history.head
    moved = await session.drop(ids[2:4], expect_head=head)
    assert moved.removed == ids[2:4]
    assert [join_texts(turn.blocks) for turn in session.record.history.turns] == [
        "prompt 0",
        "answer 0",
        "prompt 2",
        "answer 2",
    ]
    assert tuple(session.record.history.current.node_ids)[:2] == ids[:2], (
        "what stays in place keeps its nodes"
    )
    assert emitted(session, HeadChanged) == [HeadChanged(moved.head, ids[2:4], "drop")]
    await session.rewind(head, expect_head=None)
    assert tuple(session.record.history.current.node_ids) == ids


async def test_a_drop_takes_a_call_with_its_result(make_stage: Any) -> None:
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("done")]], tools=[READ])
    session = await stage.session()
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    await stage.ask(session, "read it")
    ids = tuple(session.record.history.current.node_ids)
    moved = await session.drop([ids[2]], expect_head=None)
    assert (moved.removed, roles(session)) == (ids[1:3], ["user", "assistant"])
    assert await session.workbench.files.list_in_context() == ()


async def a_session_that_read(make_stage: Any, body: str) -> tuple[Any, Session, str]:
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("done")]], tools=[READ], repeat=True)
    session = await stage.session()
    stage.workspace.put(stage.folder / "a.py", body)
    await stage.ask(session, "read it")
    return stage, session, (stage.folder / "a.py").as_uri()


async def test_a_changed_file_comes_back_as_it_is_now(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage, "old = 1\n")
    stage.workspace.put(stage.folder / "a.py", "new = 2\n")
    previewed = await session.turns.changes.restoration(None, None)
    with pytest.raises(InvalidInput, match="budget is -1"):
        await session.rehydrate(None, -1)
    restored = await session.rehydrate(None, None)
    assert restored == previewed
    (file,) = restored.files
    assert file == RestoredFile(uri, text_hash("new = 2\n"), "disk", restored.tokens)
    last = session.record.history.turns[-1]
    assert isinstance(last, UserTurn)
    assert last.blocks == (TextBlock(f"{RESTORED_FILE_PREFIX} a.py\nnew = 2"),)
    assert emitted(session, Rehydrated) == [Rehydrated((file,), ())]
    (seen,) = await session.workbench.files.list_in_context()
    assert (seen.stale, seen.in_window, seen.hash) == (False, True, file.hash)


async def test_a_change_that_nobody_has_told_of_yet_counts(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage, "old = 1\n")
    stage.workspace.files[stage.folder / "a.py"] = "new = 2\n"
    assert [file.stale for file in await session.workbench.files.list_in_context()] == [False]
    (file,) = (await session.rehydrate(None, None)).files
    assert file == RestoredFile(uri, text_hash("new = 2\n"), "disk", file.tokens)


async def test_what_the_model_still_sees_as_it_is_need_not_come_back(make_stage: Any) -> None:
    _, session, uri = await a_session_that_read(make_stage, "x = 1\n")
    n_turns = len(session.record.history.current)
    assert (await session.rehydrate(None, None)).files == ()
    assert len(session.record.history.current) == n_turns
    assert [file.uri for file in (await session.rehydrate([uri, uri], None)).files] == [uri]


async def test_changed_files_come_back_by_use(make_stage: Any) -> None:
    """The most used one stands last, nearest to the work; where the budget is short it comes alone."""
    reads = [[Call("read", {"path": name})] for name in ("a.py", "a.py", "b.py")]
    stage, session = await open_session(make_stage, [*reads, [Say("done")]], tools=[READ])
    for name in ("a.py", "b.py"):
        stage.workspace.put(stage.folder / name, "old = 1\n")
    await stage.ask(session, "read them")
    for name in ("a.py", "b.py"):
        stage.workspace.put(stage.folder / name, "new = 2\n")
    both = await session.turns.changes.restoration(None, None)
    assert [file.uri[-4:] for file in both.files] == ["b.py", "a.py"]
    one = await session.turns.changes.restoration(None, 130)
    assert [file.uri[-4:] for file in one.files] == ["a.py"]


async def test_a_file_that_is_gone_is_told_and_not_restored(make_stage: Any) -> None:
    stage, session, _ = await a_session_that_read(make_stage, "x = 1\n")
    stage.workspace.put(stage.folder / "a.py", None)
    restored = await session.rehydrate(None, None)
    assert (restored.files, restored.missing) == ((), ("a.py: deleted",))
    assert emitted(session, Rehydrated) == [Rehydrated((), ("a.py: deleted",))]


async def test_a_file_that_was_never_read_is_refused(make_stage: Any) -> None:
    _, session, _ = await a_session_that_read(make_stage, "x = 1\n")
    with pytest.raises(InvalidInput, match="was not read in this session"):
        await session.rehydrate(["file:///other.py"], None)


async def test_the_budget_bounds_what_comes_back(make_stage: Any) -> None:
    stage, session, uri = await a_session_that_read(make_stage, "x = 1\n")
    stage.workspace.put(stage.folder / "a.py", "y = 2  # a longer line than before\n" * 200)
    assert (await session.turns.changes.restoration([uri], 50)).files == ()
    cut = await session.turns.changes.restoration([uri], 400)
    assert 0 < cut.tokens <= 400
    stage.smaller_window(session.window.request.usage().used)
    assert (await session.turns.changes.restoration([uri], 400)).files == (), (
        "nothing is put beyond the limit"
    )


async def test_a_session_that_closes_makes_the_change_at_hand_and_no_other(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, 1)
    head = session.record.history.head
    at_hand, waiting = session.rewind(None, expect_head=None), session.rewind(head, expect_head=None)
    await stage.settle()
    await stage.hub.close(session.sid)
    assert (await at_hand).head is None
    with pytest.raises(SessionBusyError, match="closing"):
        await waiting


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "runtime", "summarizing", "slidingWindow"])
async def test_a_long_conversation_is_folded_beside_the_loop_before_it_moves(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    stage, session = await a_talk(make_stage)
    await session.choose("engine", engine)
    for n in range(100):
        await session.record.history.append(
            Entry(user(f"more {n}"), "user"), Entry(assistant(f"{n}"), "assistant")
        )
    session.window.request.usage()
    folded = {"on the loop": 0, "beside it": 0}
    fold, unfold = Index._fold, History.unfold

    def count(n_entries: int) -> None:
        is_loop = threading.current_thread() is threading.main_thread()
        folded["on the loop" if is_loop else "beside it"] += n_entries

    def fold_counted(index: Any, state: Any, history: History, added: Sequence[Entry]) -> Any:
        count(len(added))
        return fold(index, state, history, added)

    def unfold_counted(history: History, entry: Entry, *others: Any) -> Iterator[Entry]:
        for each in unfold(history, entry, *others):
            count(1)
            yield each

    monkeypatch.setattr(Index, "_fold", fold_counted)
    monkeypatch.setattr(History, "unfold", unfold_counted)
    assert (await session.preview(CompactionRequest())).noop is None
    assert (await session.compact(CompactionRequest()).outcome).status == "completed"
    assert len(session.record.history.current) < 100
    await session.expand(ExpandRequest(), expect_head=None)
    assert len(session.record.history.current) > 200
    await session.undo(None, force=True, expect_head=None)
    await session.undo(None, force=True, expect_head=None)
    ids = session.record.history.current.node_ids
    assert len(ids) > 200
    await session.drop(ids[80:82], expect_head=None)
    for node in (ids[80], ids[-1], ids[3], ids[-1]):
        await session.rewind(node, expect_head=None)
    assert folded["on the loop"] == 0
    assert folded["beside it"] > 200
    await stage.ask(session, "go on")
    assert folded["on the loop"] < 60
