"""The tools of the daemon, called by a scripted model in a session of a real client."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from scripted_sessions import DONE, call
from sidecar.conductor.contract import HunkAnswer, PermissionAnswer, PermissionRequest
from sidecar_client import Session, allow

pytestmark = pytest.mark.e2e

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def run_tools(session: Session, prompt: str) -> list[str]:
    """Send *prompt*, and return the outputs of the tools that the model calls."""
    events = [event async for event in session.stream(prompt)]
    return [str(event.data["content"]) for event in events if event.kind == "toolFinished"]


async def test_several_edits_land_in_one_call(project: Path, open_session: Any) -> None:
    (project / "a.py").write_text("def f():\n\treturn 'one'\n")
    edits = [
        {"old_text": "    return ‘one’\n", "new_text": "    return ‘two’\n"},
        {"old_text": "def f():", "new_text": "def g():"},
    ]
    session = await open_session(call("read", path="a.py"), call("edit", path="a.py", edits=edits), DONE)
    _, edited = await run_tools(session, "edit a.py")
    assert "edited a.py by 2 edits (old_text was found but for indentation" in edited
    assert (project / "a.py").read_text() == "def g():\n\treturn 'two'\n"


async def test_an_edit_with_pasted_line_numbers_keeps_the_numbers_of_its_text(
    project: Path, open_session: Any
) -> None:
    (project / "a.yaml").write_text("services:\n  web: {}\n")
    new = "  svc1: {1: 'a'}\n  at: 12:30"
    edit = call("edit", path="a.yaml", old_text="2: " + "  web: {}", new_text=new)
    session = await open_session(call("read", path="a.yaml"), edit, DONE)
    _, edited = await run_tools(session, "edit a.yaml")
    assert "edited a.yaml" in edited
    assert (project / "a.yaml").read_text() == f"services:\n{new}\n"


async def test_an_image_is_shown_and_stays_behind_the_result_of_its_call(
    project: Path, open_session: Any
) -> None:
    (project / "a.png").write_bytes(PIXEL)
    (project / "b.txt").write_text("text\n")
    calls = [*call("read", path="a.png"), *call("read", path="b.txt")]
    long = [{"text": "a long answer " * 1500}]
    session = await open_session(calls, DONE, long, long, [{"text": "# Goal\nnothing"}], DONE)
    outputs = await run_tools(session, "look at a.png")
    assert set(outputs) == {
        f"[a.png is an image (png) of {len(PIXEL)} bytes, not text, shown below]",
        "     1\ttext",
    }
    nodes = (await session.client.session_read(session.sid)).nodes
    (results,) = [node for node in nodes if node.role == "tool"]
    assert [block["kind"] for block in results.blocks] == ["tool_result", "tool_result", "image"]
    for prompt in ("go on", "and on"):
        await session.run(prompt)
    assert (await session.compact()).status == "completed"
    assert (await session.run("and now?")).text == "done"


async def test_hostile_pages_keep_nobody_else_waiting(project: Path, open_session: Any) -> None:
    """Parsers of HTML are quadratic; six such pages are read at once, and then the turn is stopped."""
    (project.parent / "home").mkdir()
    (project.parent / "home" / "config.toml").write_text("fetch_private = true\n")

    asked = Semaphore(0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<" * 4_900_000)
            asked.release()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = Thread(target=site.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{site.server_port}/"
            fetches = [part for n in range(6) for part in call("fetch", url=f"{url}{n}", timeout_s=100)]
            session = await open_session(fetches, DONE, in_process=True)
            running = asyncio.ensure_future(session.run("read them"))
            async with asyncio.timeout(30):
                await asyncio.gather(*(asyncio.to_thread(asked.acquire) for _ in range(6)))
                for _ in range(20):
                    await session.client.start_session(project, model="fake-1")
                await session.interrupt()
                assert (await running).stop_reason == "cancelled"
        finally:
            site.shutdown()
            thread.join()


async def test_a_gpt_patches_and_another_model_has_no_such_tool(project: Path, open_session: Any) -> None:
    (project / "a.py").write_text("one\n")
    patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n-one\n+two\n*** End Patch"
    calls = (call("read", path="a.py"), call("apply_patch", input=patch), DONE)
    _, refused = await run_tools(await open_session(*calls, model="claude-sonnet-5"), "patch a.py")
    assert "there is no tool 'apply_patch'" in refused
    _, applied = await run_tools(await open_session(*calls, model="gpt-5.3-codex"), "patch a.py")
    assert "created b.py\ndeleted a.py" in applied
    assert (project / "b.py").read_text() == "two\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_a_background_command_is_told_of_once_and_ends_with_its_session(
    project: Path, open_session: Any
) -> None:
    os.mkfifo(project / "life")
    session = await open_session(
        [
            *call("bash", command="exec 9>life; sleep 1000", background=True),
            *call("bash", command="true", background=True),
        ],
        DONE,
        call("bash", command="sleep 0.3"),
        DONE,
        call("bash_output", id="bg1"),
        DONE,
    )
    reader = os.open(project / "life", os.O_RDONLY | os.O_NONBLOCK)
    await run_tools(session, "start it")
    await run_tools(session, "wait")
    (output,) = await run_tools(session, "look")
    assert output.startswith("[bg1: running for ")
    nodes = (await session.client.session_read(session.sid)).nodes
    told = json.dumps([node.blocks for node in nodes]).count(
        "the background command bg2 (true) has ended: exit 0"
    )
    assert told == 1
    await session.client.request("sidecar/session/close", {"sid": session.sid})
    os.set_blocking(reader, True)
    assert await asyncio.to_thread(os.read, reader, 1) == b""
    os.close(reader)


@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_long_output_is_kept_for_the_model_and_goes_with_the_session(
    project: Path, tmp_path: Path, open_session: Any
) -> None:
    session = await open_session(call("bash", command="seq 20000"), DONE)
    (output,) = await run_tools(session, "count")
    (file,) = (tmp_path / "home" / "output" / session.sid).iterdir()
    assert f"all of it is in {file}" in output
    assert file.read_text().endswith("\n20000\n")
    await session.client.request("sidecar/session/delete", {"sid": session.sid})
    assert list((tmp_path / "home" / "output").iterdir()) == []


async def test_hunks_of_a_change_are_kept_refused_and_edited(project: Path) -> None:
    (project / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    asked: list[Any] = []

    def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.extend(request.subject.diffs)
        hunks = (HunkAnswer(0, 1, accepted=False), HunkAnswer(0, 2, accepted=True, text="5th\n"))
        return PermissionAnswer("selected", "allow_once", hunks)

    edits = [{"old_text": text, "new_text": text.upper()} for text in ("one", "three", "five")]
    steps = [call("read", path="a.txt"), call("edit", path="a.txt", edits=edits), DONE]
    options = {"models": {"fake-1": {"scripted": steps}}}
    async with client_in_memory(project, permission=answer, options=options) as client:
        session = await client.start_session(project, model="fake-1")
        events = [event async for event in session.stream("shout")]
        finished = [event.data for event in events if event.kind == "toolFinished"][-1]
    assert [each["oldStart"] for each in asked[0]["hunks"]] == [0, 2, 4]
    assert (project / "a.txt").read_text() == "ONE\ntwo\nthree\nfour\n5th\n"
    assert finished["diffs"][0]["newText"] == "ONE\ntwo\nthree\nfour\n5th\n"
    assert "the user kept 1 of 3 hunks as proposed, refused 1, edited 1 in a.txt" in finished["content"]
    assert "-THREE\n+three" in finished["content"]


class TestSubagents:
    """A call of ``task`` is a session of its own, within the session that asks."""

    TASK = call("task", title="Look", prompt="Look into a.txt and change it.")

    async def test_its_answer_is_the_result_and_its_questions_are_the_parents(
        self, project: Path, tmp_path: Path
    ) -> None:
        (project / "a.txt").write_text("one\n")
        asked: list[tuple[str, str]] = []

        def answer(request: PermissionRequest) -> PermissionAnswer:
            asked.append((request.sid, request.title))
            return allow(request)

        steps = [
            self.TASK,
            call("read", path="a.txt"),
            call("edit", path="a.txt", old_text="one", new_text="two"),
            call("task", title="Deeper", prompt="x"),
            [{"text": "It said one, now it says two."}],
            DONE,
            [{"text": "and on"}],
        ]
        options = {"models": {"fake-1": {"scripted": steps}}}
        client = await client_in_memory(project, permission=answer, options=options).start()
        session = await client.start_session(project, model="fake-1")
        events = [event async for event in session.stream("delegate it")]
        (finished,) = [event.data for event in events if event.kind == "toolFinished"]
        assert finished["content"].startswith("It said one, now it says two.\n[the sub-agent made 3 calls of")
        progress = "".join(str(event.data) for event in events if event.kind == "toolProgress")
        assert all(title in progress for title in ("Read a.txt", "Edit a.txt", "task"))
        assert (project / "a.txt").read_text() == "two\n"
        assert asked == [(session.sid, "Edit a.txt (sub-agent)")]
        nodes = (await client.session_read(session.sid)).nodes
        assert "Your task" not in json.dumps([node.blocks for node in nodes])
        assert [each.sid for each in (await client.session_list()).sessions] == [session.sid]
        (child,) = (await client.session_list(parent=session.sid)).sessions
        assert (child.kind, child.title, child.task) == ("subagent", "Look", "completed")
        assert "Your task" in json.dumps(
            [node.blocks for node in (await client.session_read(child.sid)).nodes]
        )
        await client.load_session(child.sid)
        for sid in (session.sid, child.sid):  # either one can take the change back
            (kept,) = (await client.checkpoint_list(sid)).checkpoints
            assert [file.uri for file in kept.files] == [(project / "a.txt").as_uri()]
        await client.session_delete(session.sid)
        assert [*(tmp_path / "home" / "sessions").glob(f"{child.sid}*")] == []
        await client.close()

    @pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
    async def test_it_is_cancelled_with_its_parent(self, project: Path, open_session: Any) -> None:
        os.mkfifo(project / "life")
        steps = (self.TASK, call("bash", command="exec 9>life; echo up >&9; sleep 1000"))
        session = await open_session(*steps)
        running = asyncio.ensure_future(run_tools(session, "delegate it"))
        with await asyncio.to_thread((project / "life").open, "rb") as life:
            assert await asyncio.to_thread(life.readline) == b"up\n"
            await session.interrupt()
            assert await asyncio.to_thread(life.read) == b""
        (output,) = await running
        assert "cancelled" in output

    async def test_a_bound_ends_it(self, project: Path, open_session: Any) -> None:
        (project / "a.txt").write_text("one\n")
        session = await open_session(
            call("task", title="Look", prompt="x", max_calls=1),
            [*call("read", path="a.txt"), *call("read", path="a.txt")],
            *([call("read", path="a.txt")] * 3),
            DONE,
        )
        output, *_ = await run_tools(session, "delegate it")
        assert output.startswith("[it did not finish: it made its 1 calls of tools]")

    async def test_a_bound_of_tokens_ends_it(self, project: Path, open_session: Any) -> None:
        (project / "a.txt").write_text("one\n" * 2_000)
        session = await open_session(
            call("task", title="Look", prompt="x", max_tokens=10_000),
            *([[*call("read", path="a.txt"), {"usage": {"input": 6_000, "output": 10}}]] * 3),
            DONE,
        )
        output, *_ = await run_tools(session, "delegate it")
        assert output.startswith("[it did not finish: its next call would break a budget]")
        assert "made 1 calls of tools and used 6010 tokens" in output

    async def test_another_model_answers_it_and_its_tokens_are_the_parents(self, project: Path) -> None:
        usage = {"usage": {"input": 700, "output": 70}}
        models = {
            "fake-1": {
                "scripted": [
                    call("task", title="Look", prompt="x", model="no-such-1"),
                    call("task", title="Look", prompt="x", model="other-1"),
                    DONE,
                ]
            },
            "other-1": {"scripted": [[{"text": "by the other"}, usage]]},
        }
        async with client_in_memory(project, permission=allow, options={"models": models}) as client:
            session = await client.start_session(project, model="fake-1")
            before = (await session.usage()).session_total
            unknown, answered = await run_tools(session, "delegate it")
            after = (await session.usage()).session_total
        assert "no-such-1" in unknown
        assert answered.startswith("by the other")
        assert after is not None
        assert after.input - (before.input if before is not None else 0) >= 700
