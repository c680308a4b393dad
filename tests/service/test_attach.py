"""Several clients of one session: their events, their questions, and the past for a late one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from reference_page import golden
from sidecar._internal.errors import SidecarError
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.events import Notice
from sidecar.llmgateway.scripted import Call, Say
from sidecar.protocol.methods import METHODS

YES = PermissionAnswer("selected", "allow_once")


def kinds(client: Any) -> list[str]:
    return [event.kind for event in client.sink.events]


async def test_an_attached_client_receives_the_events_from_then_on(make_desk: Any) -> None:
    desk = make_desk([[Say("one")], [Say("two")]])
    first, second = desk.client("first"), desk.client("second")
    sid = await desk.talk(first, "1")
    attached = await second.call("attach", sid=sid)
    assert (attached["snapshot"]["messages"], attached["controllers"]) == (2, ["first", "second"])
    assert "gap" not in attached
    own = [(each["kind"], each["seq"]) for each in second.sink.notifications("sidecar/event")]
    assert (own, kinds(second)) == ([("commandsChanged", 0), ("usage", 0)], [])
    await desk.ask(first, sid, "2")
    assert second.events("settled") == first.events("settled")[1:]


async def test_a_late_client_gets_what_it_missed(make_desk: Any) -> None:
    desk = make_desk([[Say("one")]])
    first, second = desk.client("first"), desk.client("second")
    sid = await desk.talk(first, "1")
    attached = await second.call("attach", sid=sid, fromSeq=0)
    assert [event.seq for event in second.sink.events] == list(range(1, attached["seq"] + 1))
    assert second.sink.events == first.sink.events, "nothing is added for the first client"


async def test_a_client_may_request_lost_events_again(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    seen = list(client.sink.events)
    client.sink.events.clear()
    await client.call("attach", sid=sid, fromSeq=0)
    assert client.sink.events[: len(seen)] == seen


async def test_events_that_are_not_kept_are_a_gap(start_talk: Any) -> None:
    """A session loaded by another process begins its log where the last one ended."""
    _, client, sid = await start_talk([[Say("one")]], "1")
    await client.call("session/close", sid=sid)
    loaded = await client.call("session/load", sid=sid)
    attached = await client.call("attach", sid=sid, fromSeq=3)
    assert attached["gap"] == {"from": 4, "to": loaded["seq"]}


async def test_a_number_that_the_log_has_not_reached_is_a_gap(start_talk: Any) -> None:
    """The client knows another log, and begins again with the snapshot."""
    _, client, sid = await start_talk([[Say("one")]], "1")
    ahead = await client.call("attach", sid=sid, fromSeq=10_000)
    assert ahead["gap"] == {"from": ahead["seq"] + 1, "to": 10_000}
    await client.call("session/close", sid=sid)
    client.sink.notices.clear()
    loaded = await client.call("session/load", sid=sid, replay={"fromSeq": 10_000})
    gap = {"sid": sid, "from": loaded["seq"] + 1, "to": 10_000, "reason": "notKept"}
    assert ("sidecar/gap", gap) in client.sink.notices


async def test_an_observer_receives_every_event_and_no_question(make_desk: Any) -> None:
    desk = make_desk([[Call("write", {"path": "a.txt", "content": "x"})], [Say("done")]])
    owner, observer = desk.client("owner"), desk.client("observer")
    owner.sink.answer = observer.sink.answer = YES
    sid = await desk.talk(owner)
    attached = await observer.call("attach", sid=sid, mode="observe")
    assert attached["controllers"] == ["owner"]
    await desk.ask(owner, sid, "write it")
    assert (len(owner.sink.asked), observer.sink.asked) == (1, [])
    assert (desk.folder / "a.txt").exists()
    (resolved,) = observer.sink.notifications("sidecar/permission/resolved")
    assert (resolved["outcome"], resolved["by"]) == ("allow_once", "owner")
    assert observer.events("settled") == owner.events("settled")


async def test_a_client_that_attaches_later_answers_the_open_question(make_desk: Any) -> None:
    desk = make_desk([[Call("write", {"path": "a.txt", "content": "x"})], [Say("done")]])
    owner, late, is_asked = desk.client("owner"), desk.client("late"), asyncio.Event()

    async def is_away(request: PermissionRequest) -> PermissionAnswer:
        is_asked.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never set

    owner.sink.request_permission, late.sink.answer = is_away, YES
    sid = await desk.talk(owner)
    asking = asyncio.ensure_future(desk.ask(owner, sid, "write it"))
    await is_asked.wait()
    await late.call("attach", sid=sid, mode="observe")
    assert late.sink.asked == []
    await late.call("attach", sid=sid)
    await asking
    assert len(late.sink.asked) == 1
    assert (desk.folder / "a.txt").exists()


async def test_each_prompt_names_the_client_it_came_from(make_desk: Any) -> None:
    desk = make_desk([[Say("one")], [Say("two")]])
    first, second = desk.client("Zed"), desk.client("Neovim")
    sid = await desk.talk(first, "1")
    await second.call("attach", sid=sid)
    await desk.ask(second, sid, "2")
    assert [(prompt.source.client_id, prompt.source.name) for prompt in first.events("userMessage")] == [
        (first.connection.client_id, "Zed"),
        (second.connection.client_id, "Neovim"),
    ]


async def test_notes_on_prompts_of_several_clients_name_the_client(make_desk: Any) -> None:
    desk = make_desk([[Say("words " * 60)]] * 5)
    first, second = desk.client("Zed"), desk.client("Neovim")
    sid = await desk.talk(first, "blue, please", engine="summarizing")
    await second.call("attach", sid=sid)
    await desk.ask(second, sid, "no, green")
    await desk.ask(first, sid, "so which?")
    await first.call("compact/start", sid=sid)
    await first.until("compaction", 2)
    asked = str(desk.model.calls[-1].conversation.turns)
    assert "(Zed) blue, please" in asked
    assert "(Neovim) no, green" in asked


async def test_a_detached_client_receives_no_events_and_no_questions(make_desk: Any) -> None:
    desk = make_desk([[Call("write", {"path": "a.txt", "content": "x"})], [Say("done")]])
    client, other = desk.client(), desk.client("other")
    client.sink.answer = YES
    sid = await desk.talk(client)
    await other.call("attach", sid=sid)
    await client.call("detach", sid=sid)
    n_seen = len(client.sink.events)
    await desk.ask(other, sid, "write it")
    assert (len(client.sink.events), client.sink.asked) == (n_seen, [])
    assert not (desk.folder / "a.txt").exists(), "the other one rejected it"


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="POSIX shells")
async def test_plan_mode_changes_nothing_and_says_why(make_desk: Any) -> None:
    calls = [Call("write", {"path": "a.txt", "content": "x"}), Call("bash", {"command": "touch b.txt"})]
    desk = make_desk([calls, [Call("bash", {"command": "ls"})], [Say("done")]])
    client = desk.client()
    client.sink.answer = YES
    sid = await desk.talk(client)
    await client.call("session/setConfigOption", sid=sid, configId="permissions", value="plan")
    await desk.ask(client, sid, "go on")
    assert client.sink.asked == []
    assert list(desk.folder.glob("*.txt")) == []
    told = str(desk.model.calls[1].conversation.turns)
    assert "write is off: the mode is plan" in told
    assert "the mode is plan, which allows only reading" in told


async def test_only_a_loaded_session_can_be_attached_to(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    await client.call("session/close", sid=sid)
    with pytest.raises(SidecarError) as raised:
        await client.call("attach", sid=sid)
    assert raised.value.kind == "sessionNotFound"


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_session_that_one_client_closes_is_closed_for_all(make_desk: Any, method: str) -> None:
    desk = make_desk([[Say("one")]], repeat=True)
    first, second = desk.client("first"), desk.client("second")
    sid = await desk.talk(first, "1")
    await second.call("attach", sid=sid)
    log = desk.daemon.service.hub.session(sid).record.log
    await first.call(method, sid=sid, **({"force": True} if method == "session/delete" else {}))
    received = len(first.sink.events), len(second.sink.events)
    log.append(Notice("info", "no client follows"))
    assert (len(first.sink.events), len(second.sink.events)) == received


PINS = {"text": "blue"}
RULE = {"set": {"effect": "allow", "rule": "git push"}}
ACTS = [
    *((row.name, {}) for row in METHODS.values() if row.access == "control"),
    ("sidecar/context/pin", PINS),
    ("sidecar/permission/rules", RULE),
]
"""Every request that acts on a session."""

OPENS = ("sidecar/session/delete", "sidecar/session/load", "sidecar/session/fork", "sidecar/attach")
READS = [
    row.name
    for row in METHODS.values()
    if row.access == "free" and row.scope != "daemon" and row.name not in OPENS
]


def to_session(method: str, sid: str, **given: Any) -> dict[str, Any]:
    return {**(given or golden("methods", method)["params"]), "sid": sid}


async def refusal(client: Any, method: str, params: dict[str, Any]) -> str | None:
    """Return the kind of the error with which a request is answered, None for a result."""
    try:
        await client.call(method.removeprefix("sidecar/"), **params)
    except SidecarError as error:
        return error.kind
    return None


@pytest.mark.parametrize(("method", "given"), ACTS)
async def test_only_a_client_that_controls_a_session_acts_on_it(
    make_desk: Any, method: str, given: dict[str, Any]
) -> None:
    desk = make_desk([[Say("one")]])
    owner, observer, stranger = desk.client("owner"), desk.client("observer"), desk.client("stranger")
    sid = await desk.talk(owner, "1")
    await observer.call("attach", sid=sid, mode="observe")
    before = await owner.call("session/tree", sid=sid)
    for client in (observer, stranger):
        assert await refusal(client, method, to_session(method, sid, **given)) == "controlRequired"
    assert await owner.call("session/tree", sid=sid) == before
    await stranger.call("attach", sid=sid, mode="control")
    assert await refusal(stranger, method, to_session(method, sid, **given)) != "controlRequired"


async def test_every_client_reads(make_desk: Any) -> None:
    desk = make_desk([[Say("one")]])
    owner, stranger = desk.client("owner"), desk.client("stranger")
    sid = await desk.talk(owner, "1")
    for method in READS:
        params = {"sid": sid} if method == "sidecar/context/pin" else to_session(method, sid)
        params.pop("set", None)
        assert await refusal(stranger, method, params) != "controlRequired", method


async def test_deleting_what_another_client_has_open_needs_force(make_desk: Any) -> None:
    desk = make_desk([[Say("one")]], repeat=True)
    owner, second, stranger = desk.client("owner"), desk.client("second"), desk.client("stranger")
    sid = await desk.talk(owner, "1")
    await second.call("attach", sid=sid, mode="observe")
    for client, names in ((owner, "second"), (second, "owner"), (stranger, "owner, second")):
        with pytest.raises(SidecarError, match=f"is open in {names}") as raised:
            await client.call("session/delete", sid=sid)
        assert raised.value.kind == "controlRequired"
    await stranger.call("session/delete", sid=sid, force=True)
    assert (await owner.call("session/list"))["sessions"] == []


async def test_a_session_that_nobody_else_has_open_is_deleted_at_once(make_desk: Any) -> None:
    desk = make_desk([[Say("one")]], repeat=True)
    client, other = desk.client(), desk.client("other")
    one, two, three = [await desk.talk(client, "1") for _ in range(3)]
    await client.call("session/delete", sid=one)
    await client.call("session/close", sid=two)
    await other.call("session/rename", sid=two, title="anew")
    await other.call("session/delete", sid=two)
    client.connection.close()
    await other.call("session/delete", sid=three)
    assert (await other.call("session/list"))["sessions"] == []


async def test_a_client_controls_what_it_has_loaded_from_the_next_request_on(make_desk: Any) -> None:
    """An editor sends its prompt without waiting for the answer to the load."""
    desk = make_desk([[Say("one")], [Say("two")]])
    first, second = desk.client("first"), desk.client("second")
    sid = await desk.talk(first, "1")
    await first.call("session/close", sid=sid)
    loading = second.begin("session/load", sid=sid)
    asking = second.begin("turn/run", sid=sid, input=[{"type": "text", "text": "2"}])
    await loading
    assert (await asking)["text"] == "two"
