"""Prompts through a whole daemon: the updates before the answer, the answer, and cancelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sidecar.conductor.events import Message, TextDelta

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

HANG: list[dict[str, Any]] = [{"text": "working"}, {"hang": True}]
DONE = [{"text": "done"}]


async def at_work(stage: Stage, *calls: list[dict[str, Any]]) -> str:
    """Return a session in which prompt 1 is being answered and does not end."""
    sid = await stage.session(HANG, *calls)
    stage.prompt(1, sid)
    await stage.panel.update("agent_message_chunk")
    return sid


def stop_reason(answer: dict[str, Any]) -> str:
    assert "result" in answer, answer
    reason: str = answer["result"]["stopReason"]
    return reason


async def test_everything_of_a_turn_comes_before_its_answer(stage: Stage) -> None:
    sid = await stage.session([{"thinking": "hm"}, {"text": "Hello there", "deltas": 4}])
    assert stop_reason(await stage.run(1, sid)) == "end_turn"
    await stage.panel.request("mark", "_sidecar/status")
    behind = [message.get("id") for message in stage.panel.messages]
    assert behind[behind.index(1) :] == [1, "mark"]
    text = "".join(each["content"]["text"] for each in stage.panel.updates("agent_message_chunk"))
    assert (text, len(stage.panel.updates("agent_thought_chunk"))) == ("Hello there", 1)


async def test_no_event_of_a_session_comes_before_the_answer_that_names_it(stage: Stage) -> None:
    sid = await stage.session()
    await stage.panel.request("mark", "_sidecar/status")
    named = [message.get("result", {}).get("sessionId") for message in stage.panel.messages]
    about = [message.get("params", {}).get("sessionId") for message in stage.panel.messages]
    assert sid not in about[: named.index(sid)]


async def test_the_answer_has_the_head_of_the_conversation(stage: Stage) -> None:
    sid = await stage.session(DONE)
    result = (await stage.run(1, sid))["result"]["_meta"]["sidecar"]
    session = stage.daemon.service.hub.session(sid)
    assert (result["head"], result["usage"]["used"]) == (
        session.record.history.head,
        session.window.request.usage().used,
    )


async def test_a_client_far_behind_gets_every_answer_whole(stage: Stage) -> None:
    """The log has forgotten the middle of both by then; the whole message brings what is missing."""
    sid = await stage.session()
    log, stream = stage.log(sid), stage.panel.stream
    answers = ["".join(f"{n} " for n in range(first, first + 20_000)) for first in (0, 20_000)]
    log.append(TextDelta("m0", "0 "), "t")
    await stage.panel.update("agent_message_chunk")
    stream.stall()
    for number, answer in enumerate(answers):
        pieces = answer.split(" ")[number == 0 : -1]
        for piece in pieces:
            log.append(TextDelta(f"m{number}", f"{piece} "), "t")
        log.append(Message(f"m{number}", ({"type": "text", "text": answer},)), "t")
    assert len(log.after(0, 40_000)) < 30_000, "nothing was forgotten"
    stream.read_on()
    await stage.panel.request("mark", "_sidecar/status")
    chunks = stage.panel.updates("agent_message_chunk")
    for number, answer in enumerate(answers):
        assert "".join(e["content"]["text"] for e in chunks if e["messageId"] == f"m{number}") == answer
    gaps = [each for each in stage.panel.updates("session_info_update") if "gap" in each["_meta"]["sidecar"]]
    assert gaps[0]["_meta"]["sidecar"]["gap"]["reason"] == "slowClient"


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("complete", "end_turn"), ("max_output", "max_tokens"), ("refusal", "refusal")],
)
async def test_the_stop_reason_of_a_turn(stage: Stage, stop: str, reason: str) -> None:
    """An answer that is cut goes on, three times at most."""
    sid = await stage.session(*[[{"text": "x"}, {"stop": stop}]] * 4)
    assert stop_reason(await stage.run(1, sid)) == reason


async def test_a_turn_that_fails_is_an_error_with_its_kind(stage: Stage) -> None:
    sid = await stage.session([{"error": {"kind": "unsupported", "message": "not this one"}}], DONE)
    error = (await stage.run(1, sid))["error"]
    assert (error["code"], error["data"]["kind"], error["data"]["sid"]) == (-32603, "modelFailed", sid)
    assert stop_reason(await stage.run(2, sid)) == "end_turn"


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param([], id="no block"),
        pytest.param("hello", id="a string"),
        pytest.param([{"type": "audio", "mimeType": "audio/wav", "data": "AA=="}], id="audio, not declared"),
        pytest.param([7], id="no block at all"),
    ],
)
async def test_a_prompt_that_cannot_be_read_is_refused(stage: Stage, prompt: Any) -> None:
    sid = await stage.session()
    answer = await stage.panel.request(1, "session/prompt", {"sessionId": sid, "prompt": prompt})
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32602, "invalidParams")


async def test_a_session_that_was_not_opened_here_takes_no_prompt(stage: Stage) -> None:
    sid = await stage.session(DONE)
    await stage.open()
    answer = await stage.run(1, sid)
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32002, "sessionNotFound")


class TestTheSecondPrompt:
    """A prompt that comes while another is answered waits for it."""

    async def test_it_is_answered_after_the_first(self, stage: Stage) -> None:
        sid = await stage.session()
        model = stage.script([{"text": "one"}, {"waitFor": "gate"}], [{"text": "two"}])
        stage.prompt(1, sid)
        await stage.panel.update("agent_message_chunk")
        stage.prompt(2, sid)
        await stage.panel.request("mark", "_sidecar/status")
        assert stage.panel.answers(1) + stage.panel.answers(2) == []
        model.gate("gate").set()
        assert stop_reason(await stage.panel.answer(2)) == "end_turn"
        ids = [message["id"] for message in stage.panel.messages if "id" in message]
        assert ids[-2:] == [1, 2]

    async def test_waiting_prompts_are_in_the_meta_of_an_update(self, stage: Stage) -> None:
        sid = await at_work(stage)
        stage.prompt(2, sid, "and then?")
        update = await stage.panel.update("session_info_update", 2)  # the first one: it works
        items = update["_meta"]["sidecar"]["queue"]["items"]
        assert [item["input"][0]["text"] for item in items] == ["and then?"]
        stage.panel.notify("session/cancel", {"sessionId": sid})
        await stage.panel.answer(2)

    async def test_a_waiting_prompt_may_be_withdrawn_alone(self, stage: Stage) -> None:
        sid = await at_work(stage)
        stage.prompt(2, sid)
        await stage.panel.update("session_info_update", 2)
        stage.panel.notify("$/cancel_request", {"requestId": 2})
        assert stop_reason(await stage.panel.answer(2)) == "cancelled"
        assert stage.panel.answers(1) == []
        stage.panel.notify("$/cancel_request", {"requestId": 1})
        assert stop_reason(await stage.panel.answer(1)) == "cancelled"


class TestCancel:
    """A cancelled prompt ends as cancelled, in any state, and does not affect the prompts after it."""

    @pytest.mark.parametrize("how", ["session/cancel", "session/close", "the end of the daemon"])
    async def test_while_the_model_answers(self, stage: Stage, how: str) -> None:
        sid = await at_work(stage, DONE)
        match how:
            case "session/cancel":
                stage.panel.notify(how, {"sessionId": sid})
            case "session/close":
                assert (await stage.call(how, {"sessionId": sid}))["result"] == {}
            case _:
                await stage.panel.connection.settle()
        assert stop_reason(await stage.panel.answer(1)) == "cancelled"
        if how == "session/cancel":
            assert stop_reason(await stage.run(2, sid)) == "end_turn"

    async def test_with_prompts_waiting_ends_them_all(self, stage: Stage) -> None:
        sid = await at_work(stage, DONE)
        stage.prompt(2, sid)
        stage.prompt(3, sid)
        stage.panel.notify("session/cancel", {"sessionId": sid})
        for request_id in (1, 2, 3):
            assert stop_reason(await stage.panel.answer(request_id)) == "cancelled"

    async def test_while_idle_does_not_stop_the_next_prompt(self, stage: Stage) -> None:
        sid = await stage.session(DONE)
        stage.panel.notify("session/cancel", {"sessionId": sid})
        assert stop_reason(await stage.run(1, sid)) == "end_turn"

    async def test_while_the_user_is_asked_takes_the_question_back(self, stage: Stage) -> None:
        call = {"toolCall": {"name": "bash", "input": {"command": "env true"}, "id": "c1"}}
        sid = await stage.session([call])
        stage.prompt(1, sid)
        asked = await stage.panel.call("session/request_permission")
        stage.panel.notify("session/cancel", {"sessionId": sid})
        assert stop_reason(await stage.panel.answer(1)) == "cancelled"
        assert stage.panel.calls("$/cancel_request")[0]["params"] == {"requestId": asked["id"]}
        assert stage.panel.updates("tool_call_update")[-1]["status"] == "failed"

    async def test_of_any_other_request_is_an_error(self, stage: Stage) -> None:
        await stage.session()
        stage.panel.ask(1, "session/list", {})
        stage.panel.notify("$/cancel_request", {"requestId": 1})
        assert (await stage.panel.answer(1))["error"]["code"] == -32800


class TestSteering:
    """A message into the turn that runs, by the extension that other agents have too."""

    async def steer(self, stage: Stage, sid: str, text: str = "left") -> dict[str, Any]:
        params = {"sessionId": sid, "prompt": [{"type": "text", "text": text}]}
        return await stage.panel.request("steer", "_session/steering", params)

    async def test_it_joins_the_turn(self, stage: Stage) -> None:
        sid = await stage.session()
        model = stage.script(
            [{"text": "x"}, {"waitFor": "gate"}, {"toolCall": {"name": "ls", "input": {}}}], DONE
        )
        stage.prompt(1, sid)
        await stage.panel.update("agent_message_chunk")
        assert (await self.steer(stage, sid))["result"] == {"outcome": "injected"}
        model.gate("gate").set()
        assert stop_reason(await stage.panel.answer(1)) == "end_turn"
        assert "left" in str(model.calls[-1].conversation)

    async def test_it_joins_a_turn_that_another_client_has_begun(self, stage: Stage) -> None:
        sid = await stage.session()
        model = stage.script([{"text": "x"}, {"waitFor": "gate"}], DONE)
        first = stage.panel
        stage.prompt(1, sid)
        await first.update("agent_message_chunk")
        await stage.open()
        where = {"sessionId": sid, "cwd": str(stage.folder), "mcpServers": []}
        await stage.call("session/resume", where)
        assert (await self.steer(stage, sid))["result"] == {"outcome": "injected"}
        model.gate("gate").set()
        assert stop_reason(await first.answer(1)) == "end_turn"
        assert "left" in str(model.calls[-1].conversation)

    async def test_without_a_turn_the_message_stays_with_the_client(self, stage: Stage) -> None:
        sid = await stage.session(DONE)
        await stage.run(1, sid)
        expected = {"outcome": "promptRequired", "reason": "noRunningTurn"}
        assert (await self.steer(stage, sid))["result"] == expected

    async def test_an_unknown_session_has_no_turn(self, stage: Stage) -> None:
        assert (await self.steer(stage, "none"))["error"]["code"] == -32002
