"""Every method of the table has a handler that does its work, from JSON to JSON."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from long_talks import DIGEST, LONG
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.contract import CostSheet, GatewayError, TextBlock
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, WaitFor
from sidecar.protocol.handshake import SCHEMA_HASH
from sidecar.protocol.messages import ListedModel, ModelPrice
from sidecar.protocol.methods import METHODS
from sidecar.service.handlers import HANDLERS
from sidecar.service.handlers import session as session_handlers
from sidecar.service.handlers.daemon import as_listed


def in_file(path: Path) -> Any:
    return json.loads(path.read_bytes())


def text(prompt: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": prompt}]


async def refused(asking: Any) -> SidecarError:
    with pytest.raises(SidecarError) as raised:
        await asking
    return raised.value


def test_the_handlers_are_exactly_the_methods() -> None:
    assert sorted(HANDLERS) == sorted(METHODS)


# Sessions.


async def test_the_events_of_a_new_session_come_after_its_result(make_desk: Any) -> None:
    desk = make_desk()
    client = desk.client()
    new = await client.call("session/new", cwd=str(desk.folder), model="scripted-1")
    assert (new["snapshot"]["sid"], new["snapshot"]["plan"]) == (new["sid"], [])
    assert [event.kind for event in client.sink.events] == ["commandsChanged", "usage"]
    assert client.sink.events[0].seq == new["seq"] + 1


@pytest.mark.parametrize(
    ("method", "maker"),
    [("session/tree", "tree_node"), ("session/read", "node_view"), ("session/export", "node_view")],
)
async def test_a_long_answer_is_made_beside_the_loop(
    make_desk: Any, monkeypatch: pytest.MonkeyPatch, method: str, maker: str
) -> None:
    desk, threads = make_desk([[Say("one")]]), set[int]()
    client = desk.client()
    sid = await desk.talk(client, "hello")
    make = getattr(session_handlers, maker)

    def watched(*given: Any) -> Any:
        threads.add(threading.get_ident())
        return make(*given)

    monkeypatch.setattr(session_handlers, maker, watched)
    await client.call(method, sid=sid)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_text_that_is_too_long_for_a_message_goes_to_a_file(
    start_talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, client, sid = await start_talk([[Say("one")]], "hello")
    monkeypatch.setattr(session_handlers, "MAX_BODY_BYTES", 10)
    error = await refused(client.call("session/export", sid=sid))
    assert (error.kind, error.hint) == ("invalidParams", "name a path, and it is written to a file")
    path = desk.folder / "exported.md"
    await client.call("session/export", sid=sid, path=str(path))
    assert path.read_text("utf-8").endswith("one\n")


async def test_half_a_character_in_a_prompt_survives_a_reload(make_desk: Any) -> None:
    desk = make_desk([[Say("one")], [Say("two")]])
    sid = await desk.talk(desk.client(), "half \ud83d here", title="half \ud83d title")
    await desk.daemon.service.aclose()
    desk = make_desk()
    client = desk.client()
    loaded = await client.call("session/load", sid=sid)
    assert loaded["integrity"]["ok"]
    assert loaded["snapshot"]["title"] == "half \ud83d title"
    assert desk.daemon.service.hub.session(sid).record.history.turns[0].blocks == (
        TextBlock("half \ud83d here"),
    )
    read = await client.call("session/read", sid=sid, view="active")
    assert read["nodes"][0]["blocks"] == [{"kind": "text", "text": "half \ufffd here"}]  # for it is encoded


async def test_a_loaded_session_is_introduced_again(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    await client.call("session/close", sid=sid)
    client.sink.events.clear()
    loaded = await client.call("session/load", sid=sid, replay="full")
    assert loaded["integrity"]["ok"]
    assert [params["kind"] for params in client.sink.notifications("sidecar/event")] == [
        "userMessage",
        "message",
    ]
    assert [event.kind for event in client.sink.events] == ["commandsChanged", "usage"]


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["in memory", "from the disk"])
async def test_every_turn_that_failed_or_was_stopped_keeps_its_mark(
    make_desk: Any, is_reloaded: bool
) -> None:
    desk = make_desk(
        [[Raise(GatewayError("auth", "no key"))], [Say("two")], [Say("half"), Hang()], [Say("four")]]
    )
    client = desk.client()
    sid = await desk.talk(client)
    for prompt in ("1", "2"):
        with suppress(SidecarError):
            await desk.ask(client, sid, prompt)
    running = asyncio.ensure_future(desk.ask(client, sid, "3"))
    await client.until("textDelta", 2)
    await client.call("turn/interrupt", sid=sid)
    await running
    if is_reloaded:
        await desk.ask(client, sid, "4")
        await client.call("session/close", sid=sid)
    other = desk.client()
    loaded = await other.call("session/load", sid=sid, replay="full")
    replayed = [each for each in other.sink.notifications("sidecar/event") if each["seq"] == 0]
    told = [each["kind"] for each in replayed if each["kind"] not in ("commandsChanged", "usage")]
    newest = ["userMessage", "message"] if is_reloaded else []
    assert told == [
        "userMessage",
        "faulted",
        "userMessage",
        "message",
        "userMessage",
        "message",
        "settled",
        *newest,
    ]
    ends = [each["data"] for each in replayed if each["kind"] in ("settled", "faulted")]
    assert [each.get("stopReason") for each in ends] == [None, "cancelled"]
    assert {each["head"] for each in ends} == {loaded["snapshot"]["head"]}


@pytest.mark.parametrize(
    ("replay", "kinds"),
    [
        pytest.param({"lastTurns": 0}, [], id="no turn, and no end of one"),
        pytest.param({"lastTurns": 1}, ["userMessage", "message", "settled"], id="the newest turn"),
    ],
)
async def test_the_end_of_a_turn_comes_behind_its_prompt(
    make_desk: Any, replay: dict[str, int], kinds: list[str]
) -> None:
    desk = make_desk([[Say("half"), Hang()]])
    client, other = desk.client(), desk.client()
    sid = await desk.talk(client)
    running = asyncio.ensure_future(desk.ask(client, sid, "1"))
    await client.until("textDelta", 1)
    await client.call("turn/interrupt", sid=sid)
    await running
    await other.call("session/load", sid=sid, replay=replay)
    replayed = [each["kind"] for each in other.sink.notifications("sidecar/event") if each["seq"] == 0]
    assert [kind for kind in replayed if kind not in ("commandsChanged", "usage")] == kinds


@pytest.mark.parametrize("method", ["attach", "session/load"])
async def test_one_more_client_is_introduced_without_an_event_for_the_others(
    make_desk: Any, method: str
) -> None:
    desk = make_desk([[Say("one")]])
    first, second = desk.client(), desk.client()
    sid = await desk.talk(first, "1")
    seq = desk.daemon.service.hub.session(sid).record.log.seq
    assert (await second.call(method, sid=sid))["seq"] == seq
    assert desk.daemon.service.hub.session(sid).record.log.seq == seq
    own = [(each["kind"], each["seq"]) for each in second.sink.notifications("sidecar/event")]
    assert own == [("commandsChanged", 0), ("usage", 0)]


async def test_a_fork_is_a_session_of_its_own(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("one")], [Say("two")]], "1")
    forked = await client.call("session/fork", sid=sid, title="Other way")
    assert forked["sid"] != sid
    snapshot = forked["snapshot"]
    assert (snapshot["parent"], snapshot["title"], snapshot["messages"]) == (sid, "Other way", 2)
    assert (await desk.ask(client, forked["sid"], "2"))["text"] == "two"
    assert (await client.call("session/load", sid=sid))["snapshot"]["messages"] == 2


async def test_rewind_and_tree(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("one")], [Say("two")], [Say("three")]], "1", "2")
    tree = await client.call("session/tree", sid=sid)
    ids = [node["id"] for node in tree["nodes"]]
    assert [node["kind"] for node in tree["nodes"]] == ["user", "assistant"] * 2
    assert (tree["head"], tree["leaves"]) == (ids[3], [ids[3]])
    rewound = await client.call("session/rewind", sid=sid, toNode=ids[1], expectHead=ids[3])
    assert (rewound["head"], rewound["undone"]) == (ids[1], ids[2:])
    await desk.ask(client, sid, "3")
    tree = await client.call("session/tree", sid=sid)
    assert sorted(tree["leaves"]) == sorted([ids[3], tree["head"]])
    assert (await refused(client.call("session/rewind", sid=sid, toNode="x", expectHead=None))).kind == (
        "nodeNotFound"
    )


async def test_a_session_is_renamed_archived_and_deleted(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    await client.call("session/rename", sid=sid, title="Parser")
    await client.call("session/close", sid=sid)
    assert [each["title"] for each in (await client.call("session/list", query="parser"))["sessions"]] == [
        "Parser"
    ]
    await client.call("session/archive", sid=sid)
    assert (await client.call("session/list"))["sessions"] == []
    assert len((await client.call("session/list", archived=True))["sessions"]) == 1
    await client.call("session/unarchive", sid=sid)
    assert len((await client.call("session/list"))["sessions"]) == 1
    await client.call("session/delete", sid=sid)
    assert (await client.call("session/list", archived=True))["sessions"] == []
    assert (await refused(client.call("session/load", sid=sid))).kind == "sessionNotFound"


async def test_the_result_of_a_change_has_the_number_of_its_event(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("one")]], "1")
    renamed = await client.call("session/rename", sid=sid, title="Parser")
    assert renamed == {"seq": desk.daemon.service.hub.session(sid).record.log.seq}
    assert [each.title for each in client.events("infoChanged")][-1] == "Parser"
    log = desk.daemon.service.hub.session(sid).record.log
    closed = await client.call("session/close", sid=sid)
    assert closed == {"seq": log.seq}
    assert await client.call("session/archive", sid=sid) == closed, "a stored session has no new event"
    assert await client.call("session/unarchive", sid=sid) == closed
    assert (await client.call("session/load", sid=sid))["seq"] >= closed["seq"]


async def test_a_session_that_works_can_be_deleted(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Hang()]])
    await client.call("turn/start", sid=sid, input=text("1"))
    await client.call("session/delete", sid=sid)
    assert client.events("settled")[0].stop_reason == "cancelled"
    assert (await client.call("session/list"))["sessions"] == []


async def test_export_as_text_and_into_a_file(start_talk: Any, tmp_path: Path) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    shown = await client.call("session/export", sid=sid)
    assert shown == {"text": "# 1\n\n## You\n\n1\n\n## Assistant\n\none\n"}
    await client.call("session/close", sid=sid)
    file = tmp_path / "talk.json"
    path = str(file)
    assert await client.call("session/export", sid=sid, format="json", path=path) == {"path": path}
    written = in_file(file)
    assert (written["sid"], [node["role"] for node in written["nodes"]]) == (sid, ["user", "assistant"])
    again = await refused(client.call("session/export", sid=sid, format="json", path=path))
    assert (again.kind, again.message) == ("invalidParams", f"cannot write {path!r}: File exists")
    for odd in ("talk.md", f"{tmp_path}/a\0b", f"{tmp_path}/\ud83d"):
        assert (await refused(client.call("session/export", sid=sid, path=odd))).kind == "invalidParams"


async def test_an_option_is_set_and_reported(start_talk: Any) -> None:
    _, client, sid = await start_talk()
    done = await client.call("session/setConfigOption", sid=sid, configId="permissions", value="allowEdits")
    assert {option["id"]: option["currentValue"] for option in done["configOptions"]} == {
        "model": "scripted-1",
        "engine": "windowBudget",
        "knowledge": "none",
        "thinking": "default",
        "permissions": "allowEdits",
        "budget": "default",
    }
    (changed,) = client.events("configChanged")
    assert [option.current_value for option in changed.config_options][4] == "allowEdits"
    refusal = await refused(client.call("session/setConfigOption", sid=sid, configId="x", value="y"))
    assert refusal.kind == "invalidParams"


# Turns and the queue.


async def test_steer_and_the_queue(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("on"), WaitFor("go"), Say("e")], [Say("two")], [Say("three")]])
    started = await client.call("turn/start", sid=sid, input=text("1"))
    await client.until("textDelta")
    queued = await client.call("turn/start", sid=sid, input=text("3"))
    assert (queued["disposition"], queued["position"]) == ("queued", 1)
    steered = await client.call("turn/steer", sid=sid, expectTurnId=started["turnId"], input=text("2"))
    assert (steered["outcome"], steered["turnId"]) == ("injected", started["turnId"])
    (item,) = (await client.call("queue/list", sid=sid))["items"]
    assert (item["turnId"], item["input"]) == (queued["turnId"], text("3"))
    edited = await client.call("queue/edit", sid=sid, itemId=item["itemId"], input=text("/engine"))
    assert edited["items"][0]["input"] == text("/engine")
    assert (await client.call("queue/remove", sid=sid, itemId=item["itemId"]))["items"] == []
    gone = await refused(client.call("queue/remove", sid=sid, itemId=item["itemId"]))
    assert gone.kind == "itemNotFound"
    desk.model.gate("go").set()
    assert (await client.until("settled", 2)).turn_id == started["turnId"]


async def test_what_follows_a_prompt_comes_behind_the_number_in_its_receipt(start_talk: Any) -> None:
    """The turn of a waiting prompt may begin, and end, before the queue is stored and the receipt is sent."""
    desk, client, sid = await start_talk([[Say("on"), WaitFor("go"), Say("e")], [Say("two")]])
    first = await client.call("turn/start", sid=sid, input=text("1"))
    await client.until("textDelta")
    record = desk.daemon.service.hub.session(sid).record
    store_queue = record.store_queue

    async def store_late() -> None:
        record.store_queue = store_queue
        desk.model.gate("go").set()
        await client.until("settled", 2)
        await store_queue()

    record.store_queue = store_late
    second = await client.call("turn/start", sid=sid, input=text("2"))
    for started in (first, second):
        own = [event for event in record.log.after(0) if event.turn_id == started["turnId"]]
        entry = next(event.seq for event in own if event.kind == "userMessage")
        assert started["seq"] <= entry
        assert own[-1].kind == "settled"


# The context.


async def test_nodes_are_dropped_and_brought_back(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")], [Say("two")]], "1", "2")
    read = await client.call("session/read", sid=sid)
    ids = [node["id"] for node in read["nodes"]]
    dropped = await client.call("context/drop", sid=sid, nodeIds=ids[:2], expectHead=ids[3])
    assert (dropped["dropped"], dropped["tokensFreed"] > 0) == (ids[:2], True)
    assert len((await client.call("session/read", sid=sid))["nodes"]) == 2
    await client.call("session/rewind", sid=sid, toNode=ids[3], expectHead=dropped["head"])
    assert await client.call("session/read", sid=sid) == read


async def test_a_text_and_a_node_are_pinned_listed_and_taken_away(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    first = (await client.call("session/read", sid=sid))["nodes"][0]
    text = (await client.call("context/pin", sid=sid, text="the port is 7341"))["pin"]
    node = (await client.call("context/pin", sid=sid, nodeId=first["id"]))["pin"]
    assert (await client.call("context/pin", sid=sid))["pins"] == [text, node]
    assert (await client.call("context/pin", sid=sid, unpin=text["pinId"]))["pins"] == [node]
    for params in ({"factId": "f0"}, {"text": "a", "unpin": "b"}):
        assert (await refused(client.call("context/pin", sid=sid, **params))).kind == "invalidParams"


async def test_files_come_back_as_they_are_now(make_desk: Any) -> None:
    desk = make_desk([[Call("read", {"path": "a.py"})], [Say("read")]])
    file = desk.folder / "a.py"
    file.write_text("old = 1\n")
    client = desk.client()
    sid = await desk.talk(client, "read it")
    uri = file.as_uri()
    assert (await client.call("rehydrate/preview", sid=sid))["files"] == [], "the model sees it as it is"
    file.write_text("new = 2\n")
    desk.daemon.workspace.disk_changed((file,))
    await client.until("fileStale")
    previewed = await client.call("rehydrate/preview", sid=sid)
    restored = await client.call("rehydrate/run", sid=sid, uris=[uri], budget=500)
    assert previewed["files"] == restored["files"]
    assert [file["uri"] for file in restored["files"]] == [uri]
    last = (await client.call("session/read", sid=sid))["nodes"][-1]
    assert last["id"] == restored["head"]
    assert "new = 2" in last["blocks"][0]["text"]


def watched(client: Any, desk: Any) -> list[Any]:
    """Return the reports of files to *client*; that of the folder comes whenever its watch begins."""
    reports = client.sink.notifications("sidecar/fs/changed")
    return [each for each in reports if each["uris"] != [desk.folder.as_uri()]]


async def test_a_watch_reports_matching_files_until_it_ends(start_talk: Any) -> None:
    desk, client, sid = await start_talk()
    watch = await client.call("fs/watch", sid=sid, globs=["*.py"])
    changed = [desk.folder / name for name in ("a.py", "b.txt", "sub/c.py")]
    desk.daemon.workspace.disk_changed([*changed, desk.folder.parent / "outside.py"])
    await asyncio.sleep(0)
    assert watched(client, desk) == [
        {"sid": sid, "watchId": watch["watchId"], "uris": [changed[0].as_uri(), changed[2].as_uri()]}
    ]
    await client.call("fs/unwatch", watchId=watch["watchId"])
    desk.daemon.workspace.disk_changed(changed)
    await asyncio.sleep(0)
    assert len(watched(client, desk)) == 1
    assert (await refused(client.call("fs/unwatch", watchId=watch["watchId"]))).kind == "invalidParams"
    assert (await refused(client.call("fs/watch", sid=sid, globs=[]))).kind == "invalidParams"


async def test_a_watch_ends_with_its_client_and_with_its_session(make_desk: Any) -> None:
    desk = make_desk()
    leaving, staying = desk.client("leaving"), desk.client("staying")
    sid = await desk.talk(leaving)
    await leaving.call("fs/watch", sid=sid, globs=["**"])
    await staying.call("fs/watch", sid=sid, globs=["**"])
    leaving.connection.close()
    file = desk.folder / "a.py"
    desk.daemon.workspace.disk_changed((file,))
    await asyncio.sleep(0)
    assert (watched(leaving, desk), len(watched(staying, desk))) == ([], 1)
    await staying.call("attach", sid=sid)
    await staying.call("session/close", sid=sid)
    desk.daemon.workspace.disk_changed((file,))
    await asyncio.sleep(0)
    assert len(watched(staying, desk)) == 1


# Compactions.


async def test_engines_side_by_side(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say(LONG)]] * 3, "one", "two", "three")
    before = await client.call("session/read", sid=sid)
    n_calls = len(desk.model.calls)
    compared = await client.call("compact/compare", sid=sid)
    engines = [plan["engine"] for plan in compared["plans"]]
    assert engines[0] == "windowBudget"
    assert "none" not in engines
    assert all("prompt" not in plan and plan["dropped"]["nodes"] == [] for plan in compared["plans"])
    detailed = await client.call("compact/compare", sid=sid, detail=True)
    for short, whole in zip(compared["plans"], detailed["plans"], strict=True):
        assert len(whole["dropped"]["nodes"]) == short["dropped"]["count"] > 0
        assert whole | {"planId": "", "dropped": {}} == short | {
            "planId": "",
            "dropped": {},
            **({"prompt": whole["prompt"]} if "prompt" in whole else {}),
        }
    assert "prompt" in detailed["plans"][0]
    asked = await client.call("compact/compare", sid=sid, engines=["none", "windowBudget"], mode="auto")
    assert [plan["engine"] for plan in asked["plans"]] == ["none", "windowBudget"]
    assert all("noop" in plan for plan in asked["plans"])
    assert (await client.call("session/read", sid=sid), len(desk.model.calls)) == (before, n_calls)
    unknown = await refused(client.call("compact/compare", sid=sid, engines=["steam"]))
    assert unknown.kind == "invalidParams"


async def test_a_summary_is_seen_while_it_is_written(start_talk: Any) -> None:
    summary = DIGEST + "\n" + "- a step that was taken\n" * 40
    script = [*[[Say(LONG)]] * 3, [Say(summary)]]
    _, client, sid = await start_talk(script, "one", "two", "three")
    started = await client.call("compact/start", sid=sid)
    await client.until("compaction", 2)
    passages = client.events("compactionSummaryDelta")
    assert {each.compaction_id for each in passages} == {started["compactionId"]}
    assert "".join(each.delta for each in passages).startswith(DIGEST)


async def test_a_compaction_that_waits_is_seen_and_stopped_by_who_attaches(make_desk: Any) -> None:
    desk = make_desk([[Say("one")], [Hang()]])
    owner, other = desk.client("owner"), desk.client("other")
    sid = await desk.talk(owner, "1")
    await owner.call("turn/start", sid=sid, input=text("2"))
    started = await owner.call("compact/start", sid=sid)
    waiting = [started["compactionId"]]
    assert started["disposition"] == "queued"
    assert owner.events("queue")[-1].queued_compactions == tuple(waiting)
    attached = await other.call("attach", sid=sid)
    assert attached["snapshot"]["queuedCompactions"] == waiting
    assert (await other.call("queue/list", sid=sid))["queuedCompactions"] == waiting
    assert (await other.call("compact/list", sid=sid))["queuedCompactions"] == waiting
    assert (await other.call("compact/cancel", sid=sid, compactionId=waiting[0]))["accepted"]
    assert owner.events("compaction")[-1].status == "cancelled"
    assert owner.events("queue")[-1].queued_compactions == ()
    assert not (await other.call("compact/cancel", sid=sid, compactionId=waiting[0]))["accepted"]
    unknown = await refused(other.call("compact/cancel", sid=sid, compactionId="c0"))
    assert unknown.kind == "compactionNotFound"
    await owner.call("turn/interrupt", sid=sid)


async def test_a_compaction_that_waited_and_begins_has_left_the_queue(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("one")], [WaitFor("gate"), Say("two")], [Say(DIGEST)]], "1")
    running = client.begin("turn/run", sid=sid, input=text("2"))
    await client.call("compact/start", sid=sid)
    desk.model.gate("gate").set()
    await running
    await client.until("compaction", 2)
    assert [each.queued_compactions != () for each in client.events("queue")] == [True, False]


async def test_there_is_nothing_to_stop_behind_the_last_event_of_a_turn(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Say("one")]])
    answers = list[bool]()
    take = client.sink._take

    def interrupt(log: Any) -> None:
        take(log)
        if client.sink.events[-1].kind == "settled":
            answers.append(
                desk.daemon.service.hub.session(sid).turns.prompts.interrupt(None, "keep").accepted
            )

    desk.daemon.service.hub.session(sid).record.log.follow(interrupt)
    await desk.ask(client, sid, "1")
    assert answers == [False]


async def test_a_session_that_does_not_exist_cannot_be_left(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    assert (await refused(client.call("detach", sid="nobody"))).kind == "sessionNotFound"
    for _ in range(2):
        assert await client.call("detach", sid=sid) == {}


async def test_files_for_which_the_budget_is_too_small_are_missing(make_desk: Any) -> None:
    desk = make_desk([[Call("read", {"path": "a.py"})], [Say("read")]])
    file = desk.folder / "a.py"
    file.write_text("old = 1\n")
    client = desk.client()
    sid = await desk.talk(client, "read it")
    for method in ("preview", "run"):
        done = await client.call(f"rehydrate/{method}", sid=sid, uris=[file.as_uri()], budget=1)
        assert (done["files"], done["missing"]) == ([], ["a.py: none of it fits into 1 tokens"])


async def test_a_plan_is_carried_out_undone_and_stale(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say(LONG)]] * 3 + [[Say(DIGEST)]], "one", "two", "three")
    plan = await client.call("compact/preview", sid=sid, mode="force")
    started = await client.call("compact/start", sid=sid, planId=plan["planId"])
    done = await client.until("compaction", 2)
    assert (done.compaction_id, done.status) == (started["compactionId"], "completed")
    again = await refused(client.call("compact/start", sid=sid, planId=plan["planId"]))
    assert again.kind == "headMoved"
    summary = await client.call("compact/read", sid=sid, compactionId=done.compaction_id, part="summary")
    assert "Fix the parser." in summary["content"]
    prompt = await client.call("compact/read", sid=sid, compactionId=done.compaction_id, part="prompt")
    assert prompt["content"] == plan["prompt"]
    folded = await client.call("compact/read", sid=sid, compactionId=done.compaction_id, part="dropped")
    assert len(folded["nodes"]) == done.cut
    assert (folded["content"], "nextCursor" in folded) == (f"{done.cut} messages", False)
    paged, cursor = list[Any](), "0"
    while cursor:
        asked = {"sid": sid, "compactionId": done.compaction_id, "part": "dropped", "limit": 2}
        page = await client.call("compact/read", **asked, cursor=cursor)
        assert (page["content"], len(page["nodes"]) <= 2) == (folded["content"], True)
        paged, cursor = [*paged, *page["nodes"]], page.get("nextCursor")
    assert paged == folded["nodes"]
    view = {"compactionId": done.compaction_id}
    assert len((await client.call("session/read", sid=sid, view=view))["nodes"]) == 6
    undone = await client.call("compact/undo", sid=sid)
    assert undone["restoredTokens"] > 0
    listed = await client.call("compact/list", sid=sid)
    assert [each["status"] for each in listed["compactions"]] == ["undone"]


@pytest.mark.parametrize("method", ["session/list", "session/read"])
@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_of_nothing_is_refused(start_talk: Any, method: str, limit: int) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    params = {"sid": sid} if method == "session/read" else {}
    assert (await refused(client.call(method, limit=limit, **params))).kind == "invalidParams"


async def test_a_list_goes_on_behind_the_last_session_of_a_page(make_desk: Any, tmp_path: Path) -> None:
    desk = make_desk()
    client = desk.client()
    sids = {(await client.call("session/new", cwd=str(desk.folder)))["sid"] for _ in range(5)}
    first = await client.call("session/list", limit=2)
    await client.call("session/delete", sid=first["sessions"][0]["sid"])
    await client.call("session/new", cwd=str(tmp_path))
    second = await client.call("session/list", limit=2, cursor=first["nextCursor"])
    third = await client.call("session/list", limit=2, cursor=second["nextCursor"])
    shown = [each["sid"] for page in (first, second, third) for each in page["sessions"]]
    assert sorted(shown) == sorted(sids)
    assert "nextCursor" not in third


@pytest.mark.parametrize("cursor", ["", "50", "5:", ":s", "-5:s", "1" * 30 + ":s", "²:s"])
async def test_a_cursor_that_no_page_had_is_refused(make_desk: Any, cursor: str) -> None:
    assert (await refused(make_desk().client().call("session/list", cursor=cursor))).kind == "invalidParams"


@pytest.mark.parametrize(
    "replay",
    [{"lastTurns": -1}, {"lastTurns": True}, {"fromSeq": -1}, {"lastTurns": 2**63}, {"fromSeq": 2**53}],
)
async def test_a_replay_from_no_place_of_a_session_is_refused(start_talk: Any, replay: Any) -> None:
    _, client, sid = await start_talk([[Say("one")]], "1")
    assert (await refused(client.call("session/load", sid=sid, replay=replay))).kind == "invalidParams"


# The daemon.


async def test_status_counts_sessions_and_clients(make_desk: Any) -> None:
    desk = make_desk([[Hang()]])
    one = desk.client("one")
    two = desk.client("two")
    sid = await desk.talk(one)
    await one.call("turn/start", sid=sid, input=text("1"))
    status = await two.call("status")
    assert status["sessions"] == {"loaded": 1, "running": 1}
    assert [client["name"] for client in status["clients"]] == ["one", "two"]


@pytest.mark.parametrize("form", ["jsonschema", "ts", "markdown"])
async def test_the_daemon_describes_its_protocol(make_desk: Any, form: str) -> None:
    schema = await make_desk().client().call("schema", format=form)
    assert schema["hash"] == SCHEMA_HASH
    assert "sidecar/turn/start" in schema["text"]


async def test_a_request_without_its_session_or_of_no_method_is_refused(make_desk: Any) -> None:
    connection = make_desk().client().connection
    methods = [row.name for row in METHODS.values() if row.scope != "daemon"]
    kinds = {"sidecar/nope": "methodNotFound", **dict.fromkeys(methods, "invalidParams")}
    for method, kind in kinds.items():
        with pytest.raises(SidecarError) as raised:
            connection.call(method, {"sid": 5})
        assert raised.value.kind == kind, method


async def test_lists_in_requests_and_watches_are_bounded(make_desk: Any) -> None:
    desk = make_desk()
    client = desk.client()
    sid = (await client.call("session/new", cwd=str(desk.folder)))["sid"]
    for _ in range(256):
        await client.call("fs/watch", sid=sid, globs=["**"])
    with pytest.raises(InvalidInput, match="256 watches already"):
        await client.call("fs/watch", sid=sid, globs=["**"])
    servers = [{"name": str(number), "command": "true"} for number in range(65)]
    with pytest.raises(InvalidInput, match="65 tool servers, the limit is 64"):
        await client.call("session/new", cwd=str(desk.folder), mcpServers=servers)
    with pytest.raises(InvalidInput, match="101 further folders, the limit is 100"):
        await client.call("session/new", cwd=str(desk.folder), roots=[str(desk.folder)] * 101)
    with pytest.raises(InvalidInput, match="101 patterns in one watch, the limit is 100"):
        await client.call("fs/watch", sid=sid, globs=["**"] * 101)
    with pytest.raises(InvalidInput, match="1001 content blocks, the limit is 1000"):
        await client.call("turn/start", sid=sid, input=[{"type": "text", "text": "a"}] * 1_001)


# Models.


async def test_the_models_on_offer_are_listed_with_their_facts(start_talk: Any) -> None:
    _, client, sid = await start_talk()
    listed = await client.call("model/list", sid=sid)
    assert listed["current"] == "scripted-1"
    by_name = {each["model"]: each for each in listed["models"]}
    assert by_name["offline-1"] == {
        "model": "offline-1",
        "name": "Offline 1 (built in, no network)",
        "source": "builtIn",
        "provider": "offline",
        "contextWindow": 32_000,
        "maxOutputTokens": 4_096,
        "reasoning": False,
        "images": False,
    }
    assert "mock-1" not in by_name


def test_a_model_is_listed_with_its_price_and_why_it_cannot_be_called() -> None:
    cost = CostSheet(3.0, 15.0, 0.3)
    card = replace(OFFLINE_CARD, id="big", display_name="Big", modalities=("text", "image"), cost=cost)
    listed = as_listed("work:big", "configured", card, "it needs the extra [openai]")
    assert (listed.model, listed.name, listed.images) == ("work:big", "Big", True)
    assert listed.price == ModelPrice(input=3.0, output=15.0, cache_read=0.3)
    assert listed.why_not == "it needs the extra [openai]"
    assert as_listed("new", "published", None, None) == ListedModel(
        model="new", name="new", source="published"
    )
