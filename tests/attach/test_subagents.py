"""Sub-agents are sessions: two clients of one daemon follow, steer, stop and read the child of a call."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scripted_sessions import DONE, call
from shared_daemon import Stage, User, running, stage
from sidecar.conductor.contract import (
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
    SessionSummary,
)
from sidecar_client import ClientEvent, Session, SidecarClient, allow, reject

__all__ = ["running", "stage"]

pytestmark = pytest.mark.e2e

TASK = call("task", title="Look", prompt="Look around.", model="child-1")
ASKS = call("bash", command="env echo hi")
HANGS = [{"text": "half"}, {"hang": True}]


def choose_sqlite(_form: Any) -> ElicitationAnswer:
    return ElicitationAnswer("accept", {"q1": "SQLite"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@asynccontextmanager
async def two_clients(
    stage: Stage, folder: Path, *child: Any, question: str = "permission", answer: Any = allow
) -> AsyncIterator[tuple[Session, SidecarClient, User, User]]:
    """Give a session with a sub-agent that plays *child*, a second client, and the user of each.

    The users get the questions of one kind: ``permission`` or ``elicit``.
    """
    models = {"fake-1": {"scripted": [TASK, DONE, DONE]}, "child-1": {"scripted": list(child)}}
    one, two = User(answer), User(answer)
    first = stage.shim(options={"models": models}, **{question: one})
    async with first, stage.shim(**{question: two}) as second:
        yield await first.start_session(folder, model="fake-1"), second, one, two


async def wait_for(client: SidecarClient, sid: str, kind: str, **members: Any) -> ClientEvent:
    """Return the first event of a session with these members of its data."""
    async for event in client.events(sid, 0):
        if event.kind == kind and members.items() <= event.data.items():
            return event
    raise AssertionError(f"no {kind}")


async def children(client: SidecarClient, parent: str) -> list[SessionSummary]:
    return list((await client.session_list(parent=parent)).sessions)


async def test_a_question_of_a_child_reaches_the_clients_of_both_once_and_one_of_them_steers_it(
    running: Stage, folder: Path
) -> None:
    script = (ASKS, [{"text": "said hi"}, {"usage": {"input": 700, "output": 70}}], [{"text": "and on"}])
    async with two_clients(running, folder, *script) as (session, second, one, two):
        turn = asyncio.ensure_future(session.run("delegate it"))
        begun = await wait_for(session.client, session.sid, "subagent", state="running")
        child = begun.data["child"]
        question = await one.asked.get()
        assert (question.sid, question.child) == (session.sid, child)
        assert question.subject.tool_call_id == begun.data["toolCallId"]
        assert question.title.endswith("(sub-agent)")
        (line,) = (await second.session_list(cwd=str(folder))).sessions
        assert (line.sid, line.state, line.waiting_for) == (session.sid, "waiting", "permission")
        attached = await second.attach(child, "control", from_seq=0)
        assert (attached.snapshot.parent, attached.snapshot.kind) == (session.sid, "subagent")
        same = await two.asked.get()
        assert (same.sid, same.child, same.permission_id) == (child, None, question.permission_id)
        steered = await second.turn_steer(child, ({"type": "text", "text": "say it in Dutch"},))
        assert steered.outcome == "injected"
        two.may_answer.set()
        assert (await turn).text == "done"
        prompts = [event async for event in _past(second, child) if event.kind == "userMessage"]
        assert [event.data["content"][0]["text"] for event in prompts] == [
            "Your task:\n\nLook around.",
            "say it in Dutch",
        ]
        ended = await wait_for(session.client, session.sid, "subagent", state="completed")
        assert ended.data["usage"]["sessionTotal"]["input"] == 700
        total = (await session.usage()).session_total
        assert total is not None
        assert total.input >= 700
        assert one.asked.empty()
        assert two.asked.empty()
        # It is the second client's session now, as any other.
        assert (await second.turn_run(child, ({"type": "text", "text": "go on"},))).text == "and on"
        assert [each.sid for each in (await second.session_list(cwd=str(folder))).sessions] == [session.sid]
        (listed,) = await children(second, session.sid)
        assert (listed.sid, listed.title, listed.task) == (child, "Look", "completed")
        both = (await second.session_list(cwd=str(folder), children=True)).sessions
        assert {each.sid for each in both} == {session.sid, child}
        await session.client.session_delete(session.sid, force=True)
        assert (await second.session_list(cwd=str(folder), children=True)).sessions == ()


async def _past(client: SidecarClient, sid: str) -> AsyncIterator[ClientEvent]:
    async for event in client.events(sid, 0):
        yield event
        if event.kind == "settled":
            return


async def test_a_form_of_a_child_reaches_the_clients_of_both_once(running: Stage, folder: Path) -> None:
    asks = call("ask", questions=[{"question": "Which database?", "choices": ["Postgres", "SQLite"]}])
    script, answer = (asks, [{"text": "took it"}]), choose_sqlite
    async with two_clients(running, folder, *script, question="elicit", answer=answer) as clients:
        session, second, one, two = clients
        turn = asyncio.ensure_future(session.run("delegate it"))
        form = await one.asked.get()
        assert (form.sid, form.message) == (session.sid, "Which database? (sub-agent)")
        begun = await wait_for(session.client, session.sid, "subagent", state="running")
        assert (form.child, form.tool_call_id) == (begun.data["child"], begun.data["toolCallId"])
        (line,) = (await second.session_list(cwd=str(folder))).sessions
        assert (line.sid, line.state, line.waiting_for) == (session.sid, "waiting", "question")
        assert form.child is not None
        attached = await second.attach(form.child, "control", from_seq=0)
        assert [each.message for each in attached.snapshot.open_questions] == ["Which database?"]
        same = await two.asked.get()
        assert (same.sid, same.child, same.elicitation_id) == (form.child, None, form.elicitation_id)
        two.may_answer.set()
        assert (await turn).text == "done"
        await one.was_taken_back.wait()
        assert "Which database? SQLite" in str((await second.session_read(form.child)).nodes)
        assert (one.asked.qsize(), two.asked.qsize()) == (0, 0)


async def test_a_child_that_is_stopped_ends_the_call_and_one_without_a_client_is_closed_and_read(
    running: Stage, folder: Path
) -> None:
    async with two_clients(running, folder, HANGS) as (session, second, _one, _two):
        n_loaded = (await second.status()).sessions.loaded
        turn = asyncio.ensure_future(session.run("delegate it"))
        begun = await wait_for(session.client, session.sid, "subagent", state="running")
        child = begun.data["child"]
        await second.attach(child, "observe", from_seq=0)
        await wait_for(second, child, "textDelta")
        # Who controls the parent controls the child.
        assert (await session.client.turn_interrupt(child)).accepted
        assert (await turn).stop_reason == "end_turn"
        finished = await wait_for(session.client, session.sid, "toolFinished")
        assert "[it did not finish: its user stopped it]" in finished.data["content"]
        (listed,) = await children(second, session.sid)
        assert (listed.task, listed.tool_call_id) == ("interrupted", begun.data["toolCallId"])
        assert (await second.status()).sessions.loaded == n_loaded
        nodes = (await second.session_read(child)).nodes
        assert [node.role for node in nodes] == ["user", "assistant"]
        ended = await wait_for(session.client, session.sid, "subagent", state="interrupted")
        assert ended.data["child"] == child
        assert (await second.session_load(child)).snapshot.kind == "subagent"


async def test_a_killed_daemon_leaves_an_interrupted_child_and_a_call_with_one_result(
    stage: Stage, folder: Path
) -> None:
    async with two_clients(stage, folder, HANGS) as (session, second, _one, _two):
        running = asyncio.ensure_future(session.run("delegate it"))
        begun = await wait_for(session.client, session.sid, "subagent", state="running")
        await second.attach(begun.data["child"], "observe", from_seq=0)
        await wait_for(second, begun.data["child"], "textDelta")
        (listed,) = await children(session.client, session.sid)
        assert listed.task == "running"
        await stage.end(signal.SIGKILL)
        await asyncio.wait((running,))
        running.exception()
    models = {"fake-1": {"scripted": [DONE]}}
    async with stage.shim(options={"models": models}) as client:
        (listed,) = await children(client, session.sid)
        assert (listed.sid, listed.task) == (begun.data["child"], "interrupted")
        again = await client.load_session(session.sid)
        await again.run("and now?")
        nodes = (await client.session_read(session.sid)).nodes
        kinds = [block["kind"] for node in nodes for block in node.blocks]
        assert kinds.count("tool_result") == kinds.count("tool_call")


async def test_children_that_only_read_work_at_the_same_time_and_have_no_tool_that_writes(
    running: Stage, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("one\n")
    reads = call("read", path=str(tmp_path / "outside.txt"))
    write = call("write", path="a.txt", content="x")
    models: dict[str, Any] = {
        f"child-{n}": {"scripted": [reads, write, [{"text": f"answer {n}"}]]} for n in (1, 2)
    }
    tasks = [
        part
        for n in (1, 2)
        for part in call("task", title=f"T{n}", prompt="x", model=f"child-{n}", read_only=True)
    ]
    models["fake-1"] = {"scripted": [tasks, DONE]}
    user = User()
    async with running.shim(options={"models": models}, permission=user) as client:
        session = await client.start_session(folder, model="fake-1")
        turn = asyncio.ensure_future(session.run("delegate them"))
        asked = [await user.asked.get(), await user.asked.get()]  # both wait, so both are at work
        assert {request.sid for request in asked} == {session.sid}
        user.may_answer.set()
        await turn
        listed = await children(client, session.sid)
        assert [each.task for each in listed] == ["completed", "completed"]
        nodes = (await client.session_read(listed[0].sid)).nodes
        outputs = [
            block["output"] for node in nodes for block in node.blocks if block["kind"] == "tool_result"
        ]
        assert outputs[1].startswith("there is no tool 'write'")
        assert not (folder / "a.txt").exists()


async def test_children_in_worktrees_work_at_the_same_time_and_merge_what_the_user_allows(
    running: Stage, folder: Path, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text(f"{name} one\n")
    await asyncio.to_thread(subprocess.run, ["git", "init", "--quiet"], cwd=folder, check=True)
    (tmp_path / "outside.txt").write_text("one\n")

    def child(name: str) -> dict[str, Any]:
        edit = call("edit", path=name, old_text="one", new_text="two")
        asks = call("read", path=str(tmp_path / "outside.txt"))
        return {"scripted": [asks, call("read", path=name), edit, [{"text": f"changed {name}"}]]}

    tasks = [
        part
        for n in (1, 2)
        for part in call("task", title=f"T{n}", prompt="x", model=f"child-{n}", worktree=True)
    ]
    alone = call("task", title="T3", prompt="x", model="child-3", worktree=True)
    models = {
        "fake-1": {"scripted": [tasks, DONE, alone, DONE]},
        "child-1": child("a.txt"),
        "child-2": child("b.txt"),
        "child-3": child("c.txt"),
    }
    asked: list[PermissionRequest] = []
    both = asyncio.Event()

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        if len([each for each in asked if "outside" in each.title]) == 2:
            both.set()
        await both.wait()  # both are at work
        refused = request.title == "Merge c.txt"
        return reject(request) if refused else allow(request)

    async with running.shim(options={"models": models}, permission=answer) as client:
        session = await client.start_session(folder, model="fake-1")
        events = [event async for event in session.stream("delegate both")]
        finished = [event.data for event in events if event.kind == "toolFinished"]
        assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["a.txt two\n", "b.txt two\n"]
        merged = sorted(each["content"].splitlines()[1] for each in finished)
        assert merged == ["[merged a.txt]", "[merged b.txt]"]
        assert {each["diffs"][0]["newText"] for each in finished} == {"a.txt two\n", "b.txt two\n"}
        merges = [each for each in asked if each.title.startswith("Merge")]
        assert {each.subject.diffs[0]["oldText"] for each in merges} == {"a.txt one\n", "b.txt one\n"}
        # The question of an edit in a worktree is asked, too, in the name of the parent.
        assert len([each for each in asked if each.title.startswith("Edit")]) == 2
        listed = await children(client, session.sid)
        assert {each.task for each in listed} == {"completed"}
        assert (await client.session_load(listed[0].sid)).snapshot.kind == "subagent"
        assert list((folder / ".git" / "sidecar").iterdir()) == []
        await client.checkpoint_restore(session.sid, "c1")
        assert (folder / "a.txt").read_text() == "a.txt one\n"
        events = [event async for event in session.stream("and alone")]
        (ended,) = [event.data["content"] for event in events if event.kind == "toolFinished"]
        assert "[nothing was merged: " in ended
        assert (folder / "c.txt").read_text() == "c.txt one\n"
        (kept,) = (folder / ".git" / "sidecar").iterdir()
        assert f"its work is in {kept}, on the branch sidecar/{kept.name}" in ended
        assert (kept / "c.txt").read_text() == "c.txt two\n"


@pytest.mark.slow
@pytest.mark.parametrize("is_merged", [True, False])
async def test_the_worktree_that_a_killed_daemon_leaves_is_named_and_goes_with_its_session(
    stage: Stage, folder: Path, *, is_merged: bool
) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "--quiet"], cwd=folder, check=True)
    task = call("task", title="Look", prompt="x", model="child-1", worktree=True)
    writes = call("write", path="c.txt", content="done\n")
    models = {"fake-1": {"scripted": [task, DONE]}, "child-1": {"scripted": [writes, HANGS]}}
    async with stage.shim(options={"models": models}, permission=allow) as client:
        session = await client.start_session(folder, model="fake-1")
        await session.prompt("delegate it")
        begun = await wait_for(client, session.sid, "subagent", state="running")
        child = begun.data["child"]
        await client.attach(child, "observe", from_seq=0)
        await wait_for(client, child, "textDelta")
        await stage.end(signal.SIGKILL)
    (tree,) = (folder / ".git" / "sidecar").iterdir()
    place = f"Look: its work is in {tree}, on the branch sidecar/{tree.name}"
    async with stage.shim() as client:
        await client.load_session(session.sid)
        await wait_for(client, session.sid, "notice", description=place)
        if is_merged:
            (folder / "c.txt").write_text("done\n")
            await client.session_delete(session.sid)
            assert not tree.exists()
        else:
            await client.load_session(child)
            await wait_for(client, child, "notice", description=place)
            await client.session_delete(child)
            assert (tree / "c.txt").read_text() == "done\n"
            events = client.events(session.sid, 0)
            notices = [event async for event in _until(events, "notice", 2) if event.kind == "notice"]
            assert {event.data["description"] for event in notices} == {place}


async def _until(events: AsyncIterator[ClientEvent], kind: str, n: int) -> AsyncIterator[ClientEvent]:
    """Yield *events* up to the *n*-th one of *kind*."""
    async for event in events:
        yield event
        n -= event.kind == kind
        if not n:
            return
