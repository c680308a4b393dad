"""Questions of the agent: the first answer of a controller counts, and no crash loses or repeats one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fake_sink import FakeSink
from sidecar.boot import Daemon, build
from sidecar.capabilities.contract import Form, FormAnswer
from sidecar.conductor.contract import ElicitationAnswer
from sidecar.conductor.events import Message
from sidecar.conductor.hub import NewSession
from sidecar.conductor.session import Session
from sidecar.llmgateway.scripted import Call, Say, ScriptedModel
from sidecar.runtime.store.lines import seal
from sidecar.service.service import Connection
from turns import text

WHICH = {"questions": [{"question": "Which database?", "choices": ["Postgres", "SQLite"]}]}
SCRIPT = [[Call("ask", WHICH, "a1")], [Say("done")]]
ACCEPT = ElicitationAnswer("accept", {"q1": "postgres"})


class Stage:
    """A daemon in *tmp_path* whose model plays *script*; a second one continues where the first has died."""

    def __init__(self, tmp_path: Path, script: Any, settings: str = "") -> None:
        self.home, self.folder = tmp_path / "home", tmp_path / "project"
        self.folder.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(settings, "utf-8")
        self.model = ScriptedModel(script)
        self.daemon: Daemon = build(self.home)
        models = self.daemon.models
        models.add_scripted({"scripted-1": {"scripted": [[{"text": "unused"}]]}})
        models.providers = {**models.providers, "scripted:scripted-1": self.model}
        self.hub = self.daemon.service.hub

    def client(self, name: str, answer: Any = "away") -> tuple[Connection, FakeSink]:
        sink = FakeSink(name)
        sink.form_answer = answer
        return self.daemon.service.connect(sink), sink

    async def session(self) -> Session:
        return await self.hub.new(NewSession(str(self.folder), model="scripted-1"))

    @property
    def told(self) -> str:
        """The conversation as the model was told it last."""
        return str(self.model.calls[-1].conversation.turns)

    def file(self, sid: str) -> Path:
        return next((self.home / "sessions").rglob(f"{sid}.jsonl"))

    def records(self, sid: str) -> list[Any]:
        """Return the items of the newest record of questions."""
        found: list[Any] = []
        for line in self.file(sid).read_text("utf-8").splitlines():
            record = json.loads(line)
            for each in record.get("records", [record]):
                found = each["items"] if each["type"] == "questions" else found
        return found


async def ask(session: Session, *clients: tuple[Connection, FakeSink]) -> Any:
    for connection, _ in clients:
        connection.follow(session, 0)
    return await session.submit(text("go"))


async def test_the_first_answer_counts_and_the_others_are_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    away, quick = stage.client("away"), stage.client("quick", ACCEPT)
    observer, seen = stage.client("observer")
    observer.follow(session, 0, controls=False)
    await (await ask(session, away, quick)).outcome
    assert "Which database? Postgres" in stage.told
    (form,) = away[1].forms
    assert (form, seen.forms) == (quick[1].forms[0], [])
    end = {"sid": session.sid, "elicitationId": form.elicitation_id, "action": "accept", "by": "quick"}
    for sink in (away[1], quick[1], seen):
        assert sink.notifications("sidecar/elicitResolved") == [end]
    kinds = [event.kind for event in seen.events]
    assert kinds.index("toolStarted") < kinds.index("question") < kinds.index("questionResolved")
    assert stage.records(session.sid) == [], "nothing is asked again"
    await stage.daemon.service.aclose()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(ElicitationAnswer("decline"), "The user declined to answer", id="declined"),
        pytest.param(ElicitationAnswer("cancel"), "The user dismissed the question", id="dismissed"),
        pytest.param(None, "No client here can show a form", id="a client without forms"),
        pytest.param(
            ElicitationAnswer("accept", {"q1": "MySQL"}),
            "No client here can show a form",
            id="an answer that is no choice counts as none",
        ),
        pytest.param(ElicitationAnswer("shrug"), "No client here can show a form", id="an unknown action"),
    ],
)
async def test_every_other_end_is_a_result(tmp_path: Path, answer: Any, told: str) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    await (await ask(session, stage.client("one", answer))).outcome
    assert told in stage.told
    assert session.snapshot().open_questions == ()
    await stage.daemon.service.aclose()


async def test_what_nobody_can_show_stands_in_the_conversation(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    client = stage.client("one", None)
    await (await ask(session, client)).outcome
    said = [event.data for event in client[1].events if isinstance(event.data, Message)]
    texts = [message.content[0]["text"] for message in said]
    assert texts == ["Which database?\n- Postgres\n- SQLite", "done"]
    await stage.daemon.service.aclose()


async def test_a_question_expires_after_the_time_of_the_settings(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT, "question_timeout_s = 0.01")
    session = await stage.session()
    client = stage.client("one")
    await (await ask(session, client)).outcome
    assert "The user did not answer in time" in stage.told
    (end,) = client[1].notifications("sidecar/elicitResolved")
    assert (end["action"], end["by"]) == ("expired", "timeout")
    await stage.daemon.service.aclose()


async def test_a_client_that_comes_later_sees_the_question_and_may_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    receipt = await ask(session)
    late, sink = stage.client("late", ACCEPT)
    watcher, seen = stage.client("watcher")
    watcher.follow(session, 0, controls=False)
    await seen.until("question")
    assert [form.message for form in session.snapshot().open_questions] == ["Which database?"]
    late.follow(session, 0)
    await receipt.outcome
    assert len(sink.forms) == 1
    assert "Which database? Postgres" in stage.told
    await stage.daemon.service.aclose()


async def test_an_interrupt_takes_the_question_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    client = stage.client("one")
    receipt = await ask(session, client)
    await client[1].until("question")
    session.turns.prompts.interrupt(None, "keep")
    assert (await receipt.outcome).stop_reason == "cancelled"
    (end,) = client[1].notifications("sidecar/elicitResolved")
    assert (end["action"], end["by"]) == ("cancel", "the tool call")
    assert stage.records(session.sid) == []
    await stage.daemon.service.aclose()


async def test_a_question_that_waited_is_asked_again_by_the_next_daemon(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    client = stage.client("one")
    await ask(session, client)
    await client[1].until("question")
    await stage.daemon.service.aclose()
    after = Stage(tmp_path, [[Say("thanks")]])
    again = (await after.hub.load(session.sid)).session
    await asyncio.sleep(0)
    assert [form.message for form in again.snapshot().open_questions] == ["Which database?"]
    one, two = after.client("one", ACCEPT), after.client("two")
    for connection, _ in (one, two):
        connection.follow(again, 0)
    await two[1].until("settled")
    assert after.told.count("Which database? Postgres") == 1
    assert after.records(session.sid) == []
    (end,) = two[1].notifications("sidecar/elicitResolved")
    assert (end["action"], end["by"]) == ("accept", "one")
    await after.daemon.service.aclose()


async def test_an_answer_that_was_stored_is_neither_asked_for_again_nor_lost(tmp_path: Path) -> None:
    """The daemon died between the answer and the result of the call."""
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    client = stage.client("one")
    await ask(session, client)
    await client[1].until("question")
    await stage.daemon.service.aclose()
    (item,) = stage.records(session.sid)
    with stage.file(session.sid).open("ab") as file:
        record = {"type": "questions", "items": [item | {"answer": {"q1": "SQLite"}}]}
        file.write(seal(json.dumps(record).encode()))
    after = Stage(tmp_path, [[Say("thanks")]])
    again = (await after.hub.load(session.sid)).session
    assert again.snapshot().open_questions == ()
    (waiting,) = again.snapshot().queue
    assert "Which database? SQLite" in waiting.input[0]["text"]
    assert after.records(session.sid) == []
    await after.daemon.service.aclose()


async def test_a_call_with_its_result_is_over_whatever_the_record_says(tmp_path: Path) -> None:
    """The daemon died between the result of the call and the end of its turn."""
    stage = Stage(tmp_path, SCRIPT)
    session = await stage.session()
    client = stage.client("one", ACCEPT)
    await (await ask(session, client)).outcome
    lines = stage.file(session.sid).read_bytes().splitlines(keepends=True)
    records = [line for line in lines if b'"questions"' in line and b"Postgres" in line]
    await stage.daemon.service.aclose()
    with stage.file(session.sid).open("ab") as file:
        file.write(records[-1])
    after = Stage(tmp_path, [])
    again = (await after.hub.load(session.sid)).session
    assert (again.snapshot().open_questions, again.snapshot().queue) == ((), ())
    await after.daemon.service.aclose()


async def test_the_form_of_a_server_is_not_kept(tmp_path: Path) -> None:
    """Its server ends with the daemon, and asks again itself."""
    stage = Stage(tmp_path, [])
    session = await stage.session()
    client, sink = stage.client("one", ElicitationAnswer("accept", {"port": "7013"}))
    client.follow(session, 0)
    form = Form(message="Port?", schema={"properties": {"port": {"type": "integer"}}}, asker="db")
    assert await session.workbench.questions.ask(form) == FormAnswer("accept", {"port": 7013})
    assert sink.forms[0].asker == "db"
    await stage.daemon.service.aclose()
    assert b'"questions"' not in stage.file(session.sid).read_bytes()
