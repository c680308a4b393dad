"""Commands, skills, hooks and tool servers of a user and of a folder, in sessions of a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from scripted_sessions import wait_for_servers
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import Session, SidecarClient, allow, reject

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="POSIX shells")]

DONE = [{"text": "done"}]
SKILL = "---\nname: pdf\ndescription: Fill in forms.\n---\nUse scripts/fill.py.\n"
REAL_SERVER = Path(__file__).parents[1] / "capabilities" / "mcp" / "real_server.py"


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the answer of a model that calls one tool."""
    return [{"toolCall": {"name": tool, "input": arguments}}]


class Place:
    """A user and a project, and the questions that the user was asked."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.asked: list[str] = []
        self.clients: list[SidecarClient] = []
        self.answer = allow

    def write(self, path: str, text: str) -> Path:
        """Write a file of the project, or of the user below ``~``."""
        full = self.home / path[2:] if path.startswith("~/") else self.project / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def trust(self, more: str = "") -> None:
        self.write("~/config.toml", f"trusted = [{json.dumps(str(self.project))}]\n{more}")

    async def open(self, *steps: Any, models: tuple[str, ...] = ()) -> Session:
        def ask(request: PermissionRequest) -> PermissionAnswer:
            self.asked.append(request.title)
            return self.answer(request)

        scripted = {name: {"scripted": [[{"text": f"by {name}"}]] * 3} for name in models}
        options = {"models": {"fake-1": {"scripted": list(steps)}, **scripted}}
        client = await client_in_memory(self.project, permission=ask, options=options).start()
        self.clients.append(client)
        return await client.start_session(self.project, model="fake-1")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path.resolve())
    monkeypatch.setenv("INDUSAGI_HOME", str(found.home))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return found


@pytest.fixture
async def place(folders: Place) -> AsyncIterator[Place]:
    yield folders
    for client in folders.clients:
        await client.close()


async def prompts_of(session: Session) -> list[str]:
    """Return the prompts as the model is sent them."""
    nodes = (await session.client.session_read(session.sid)).nodes
    return ["\n".join(block["text"] for block in node.blocks) for node in nodes if node.role == "user"]


async def results_of(session: Session, prompt: str) -> list[str]:
    events = [event async for event in session.stream(prompt)]
    return [str(event.data["content"]) for event in events if event.kind == "toolFinished"]


async def test_nothing_of_a_strangers_folder_runs(place: Place) -> None:
    """Commands, skills, hooks, servers, a file of settings: all there, and no process of theirs starts."""
    started = place.project / "started"
    evil = f"touch {started}"
    place.write(".sidecar/commands/deploy.md", f"---\nmodel: evil\n---\n!`{evil}` $(touch {started})\n")
    place.write(".claude/skills/evil/SKILL.md", f"---\nname: evil\nhooks: {evil}\n---\n!`{evil}`\n")
    place.write(".mcp.json", json.dumps({"mcpServers": {"evil": {"command": "sh", "args": ["-c", evil]}}}))
    events = ("beforeTool", "afterTool", "prompt", "compaction", "stop")
    hooks = "".join(f"[[hooks]]\non = '{event}'\ncommand = '{evil}'\n" for event in events)
    place.write(".sidecar.toml", f"{hooks}[mcp_servers.evil]\ncommand = 'sh'\nargs = ['-c', '{evil}']\n")
    place.write(".claude/settings.json", json.dumps({"hooks": {"Stop": [{"command": evil}]}}))
    place.answer = reject
    session = await place.open(call("read", path=".mcp.json"), call("skill", name="evil"), DONE, DONE)
    events_seen = [event async for event in session.stream("look around")]
    refused = await session.run("/deploy now")
    await session.compact()
    listed = await session.client.extension_list(session.sid)
    assert not started.exists()
    assert place.asked == ["Use the command /deploy of this folder"]
    assert "was not used: its file came with the folder" in refused.text
    assert (listed.hooks, listed.servers) == ((), ())
    assert [(each.name, each.trusted) for each in listed.commands] == [("deploy", False)]
    notices = [str(event.data["description"]) for event in events_seen if event.kind == "notice"]
    told = "\n".join(notices)
    assert "[[hooks]], [mcp_servers] not used, because this folder is not trusted" in told
    assert ".mcp.json is not used, because this folder is not trusted" in told


class TestCommands:
    async def test_a_command_of_the_user_becomes_a_prompt(self, place: Place) -> None:
        text = "---\ndescription: Fix it\nargument-hint: FILE\n---\nAlways fix $1, and $ARGUMENTS.\n"
        place.write("~/commands/fix.md", text)
        session = await place.open(DONE, DONE)
        commands = (await session.wait_for("commandsChanged")).data["commands"]
        assert {"name": "fix", "description": "Fix it", "hint": "FILE"} in commands
        await session.run("/fix a.py")
        (prompt,) = await prompts_of(session)
        body = '<command name="fix">\nAlways fix a.py, and a.py.\n</command>'
        assert prompt == f"/fix a.py\n\n{body}"
        assert (await session.client.rule_list(session.sid)).rules == ()
        assert "`/fix FILE`: Fix it" in (await session.run("/help")).text
        assert place.asked == []
        asked = {"text": "/fi", "position": 3, "sid": session.sid}
        completed = await session.client.request("sidecar/complete", asked)
        assert [item["label"] for item in completed["items"]] == ["/files", "/fix"]

    async def test_one_of_a_folder_asks_once_for_each_content(self, place: Place) -> None:
        path = place.write(".sidecar/commands/fix.md", "Fix it.")
        session = await place.open(*[DONE] * 4)
        assert (await session.run("/fix")).text == "done"
        assert (await session.run("/fix")).text == "done"
        again = await place.open(*[DONE] * 4)
        await again.run("/fix")
        assert len(place.asked) == 1
        path.write_text("Fix something else.")
        await again.run("/help")
        await again.run("/fix")
        assert len(place.asked) == 2
        place.trust()
        path.write_text("A third text.")
        await (await place.open(DONE)).run("/fix")
        assert len(place.asked) == 2

    async def test_its_model_answers_this_turn_alone(self, place: Place) -> None:
        place.write("~/commands/ask.md", "---\nmodel: other-1\n---\nWhat?")
        place.write("~/commands/bad.md", "---\nmodel: no-such-model\n---\nWhat?")
        session = await place.open(DONE, DONE, models=("other-1",))
        assert (await session.run("/ask")).text == "by other-1"
        assert (await session.run("and you?")).text == "done"
        events = [event async for event in session.stream("/bad")]
        assert any("no-such-model is not used" in str(event.data.get("title")) for event in events)
        assert events[-1].kind == "settled"

    async def test_files_that_a_command_mentions_come_along_but_none_outside(self, place: Place) -> None:
        place.write("a.txt", "inside the project\n")
        secret = place.write("~/secret.txt", "outside of it\n")
        place.write(".sidecar/commands/look.md", f"Look at @a.txt and @{secret}.")
        place.answer = lambda request: allow(request) if "/look" in request.title else reject(request)
        session = await place.open(DONE)
        await session.run("/look")
        sent = str((await session.client.session_read(session.sid)).nodes)
        assert "inside the project" in sent
        assert "outside of it" not in sent
        assert place.asked[0] == "Use the command /look of this folder"

    async def test_a_new_file_is_listed_and_found_by_help(self, place: Place) -> None:
        session = await place.open(DONE)
        place.write("~/commands/new.md", "Something new.")
        listed = await session.client.extension_list(session.sid)
        assert [each.name for each in listed.commands] == ["new"]
        assert "- `/new`: Something new." in (await session.run("/help")).text
        await session.run("/new")
        assert "Something new." in (await prompts_of(session))[0]


async def test_a_skill_is_listed_loaded_and_its_files_can_be_read(place: Place) -> None:
    folder = place.write("~/skills/pdf/SKILL.md", SKILL).parent
    script = place.write("~/skills/pdf/scripts/fill.py", "print('fill')\n")
    session = await place.open(
        call("skill", name="pdf"), call("read", path=str(script)), call("skill", name="x"), DONE
    )
    loaded, read, unknown = await results_of(session, "fill in the form")
    assert loaded == f"[the skill pdf, in {folder}; its files: scripts/fill.py]\n\nUse scripts/fill.py."
    assert "print('fill')" in read
    assert "there is no skill 'x'; there are: pdf" in unknown
    assert place.asked == []
    (listed,) = (await session.client.extension_list(session.sid)).skills
    assert (listed.name, listed.description, listed.source) == ("pdf", "Fill in forms.", "user")
    assert "- skill pdf: Fill in forms." in (await session.run("/skills")).text


class TestHooks:
    async def test_hooks_of_tools_refuse_and_note(self, place: Place) -> None:
        place.write("a.txt", "one\n")
        place.write(
            "~/config.toml",
            """
            [[hooks]]
            on = "beforeTool"
            tools = ["write"]
            command = "echo frozen until Monday >&2; exit 2"
            [[hooks]]
            on = "afterTool"
            tools = ["read"]
            command = "echo read with care"
            """,
        )
        session = await place.open(call("write", path="b.txt", content="x"), call("read", path="a.txt"), DONE)
        refused, read = await results_of(session, "write it")
        assert refused == "write: a hook of the user refused this call: frozen until Monday"
        assert read.endswith("[a hook of the user: read with care]")
        assert not (place.project / "b.txt").exists()
        assert place.asked == []

    async def test_a_hook_refuses_a_prompt_or_adds_to_it(self, place: Place) -> None:
        command = "if grep -q secret; then echo no secrets >&2; exit 2; fi; echo branch: main"
        place.write("~/config.toml", f'[[hooks]]\non = "prompt"\ncommand = "{command}"\n')
        session = await place.open(DONE)
        assert (await session.run("the secret is 1")).text == "A hook refused this prompt: no secrets"
        assert (await session.run("hello")).text == "done"
        assert await prompts_of(session) == ["hello\n<hook>\nbranch: main\n</hook>"]

    async def test_a_hook_does_not_let_the_model_stop(self, place: Place) -> None:
        command = "test -e fixed || { touch fixed; echo run the tests >&2; exit 2; }"
        place.write("~/config.toml", f'[[hooks]]\non = "stop"\ncommand = "{command}"\n')
        session = await place.open(DONE, [{"text": "now they pass"}])
        assert (await session.run("hello")).text == "now they pass"
        assert "run the tests" in (await prompts_of(session))[1]

    async def test_one_that_never_lets_it_stop_is_asked_three_times(self, place: Place) -> None:
        place.write("~/config.toml", '[[hooks]]\non = "stop"\ncommand = "exit 2"\n')
        session = await place.open(*[DONE] * 10)
        await session.run("hello")
        assert len(await prompts_of(session)) == 4

    async def test_a_hook_refuses_a_compaction(self, place: Place) -> None:
        place.write("~/config.toml", '[[hooks]]\non = "compaction"\ncommand = "echo not now >&2; exit 2"\n')
        session = await place.open(*[[{"text": "long " * 4000}]] * 3)
        for prompt in ("one", "two", "three"):
            await session.run(prompt)
        done = await session.compact()
        assert (done.status, done.reason) == ("cancelled", "a hook refused it: not now")

    async def test_hooks_hear_of_a_question_and_of_the_end_of_the_turn(self, place: Place) -> None:
        """The one of the question answers it; the ones of the turn run though the daemon ends with it."""
        heard = place.home / "heard"
        hooks = {"question": "echo not on Fridays >&2; exit 2", "settled": "exit 0"}
        tables = (
            f"[[hooks]]\non = '{on}'\ncommand = 'cat >> {heard}; echo >> {heard}; {end}'\n"
            for on, end in hooks.items()
        )
        place.write("~/config.toml", "".join(tables))
        never: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()
        place.answer = lambda request: never  # type: ignore[assignment,return-value]  # handlers may be async
        session = await place.open(call("bash", command="touch b.txt"), DONE)
        (refused,) = await results_of(session, "touch it\nplease")
        await session.run("/help")
        await session.client.close()
        assert "not on Fridays" in refused
        question, settled = map(json.loads, heard.read_text().splitlines())
        told = ("event", "sessionId", "waitingFor", "text", "tool")
        assert [question[name] for name in told] == [
            "question",
            session.sid,
            "permission",
            "Run touch b.txt",
            "bash",
        ]
        assert [settled[name] for name in ("event", "text", "stopReason")] == ["settled", "done", "end_turn"]
        assert "error" not in settled

    async def test_hooks_count_for_sub_agents_too(self, place: Place) -> None:
        hook = '[[hooks]]\non = "beforeTool"\ntools = ["write"]\ncommand = "exit 2"\n'
        place.write("~/config.toml", hook)
        task = call("task", title="x", prompt="write b.txt")
        session = await place.open(task, call("write", path="b.txt", content="x"), DONE, DONE)
        await results_of(session, "delegate it")
        assert not (place.project / "b.txt").exists()


async def test_servers_of_the_settings_start_with_a_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    monkeypatch.setenv("MY_SERVER_SECRET", "very-secret-value")
    server = {
        "command": sys.executable,
        "args": [str(REAL_SERVER), "stdio"],
        "env": {"KEY": "${MY_SERVER_SECRET}"},
    }
    place.write(".mcp.json", json.dumps({"mcpServers": {"theirs": server}}))
    place.trust(f'[mcp_servers.mine]\ncommand = "{sys.executable}"\nargs = ["{REAL_SERVER}", "stdio"]\n')
    task = call("task", title="Add", prompt="Add 2 and 3.")
    steps = (call("mcp__theirs__add", a=1, b=2), task, call("mcp__mine__add", a=2, b=3), DONE, DONE)
    session = await place.open(*steps)
    await wait_for_servers(session.client, session.sid)
    added, delegated = await results_of(session, "add")
    assert added == "3"
    assert delegated.startswith("done")
    assert place.asked[-1].endswith("(sub-agent)")
    servers = (await session.client.extension_list(session.sid)).servers
    found = {each.name: (each.source, each.state, each.tools > 0) for each in servers}
    assert found == {"mine": ("user", "running", True), "theirs": ("folder", "running", True)}
    assert "- tool server mine: running" in (await session.run("/mcp")).text
    await session.client.request("sidecar/session/close", {"sid": session.sid})
    for path in place.home.rglob("*"):
        if path.is_file():
            assert b"very-secret-value" not in path.read_bytes()
