"""A trace records every message without its content; the log ring keeps the newest lines."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.errors import SidecarError
from sidecar.llmgateway.scripted import Call, Say
from sidecar.protocol.methods import METHODS
from sidecar.service.stats import LogRing
from sidecar.service.tracing import Tracer, redact

SECRET = "the secret plan"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def a_traced_turn(make_desk: Any, path: Path, level: str) -> list[dict[str, Any]]:
    desk = make_desk([[Call("write", {"path": "a.txt", "content": SECRET})], [Say(SECRET)]])
    client = desk.client()
    assert await client.call("trace/set", level=level, toFile=str(path)) == {"path": str(path)}
    sid = await desk.talk(client, SECRET)
    with pytest.raises(SidecarError):
        await client.call("session/load", sid="nobody")
    await client.call("session/close", sid=sid)
    assert await client.call("trace/set", level="off") == {}
    return lines(path)


async def test_a_trace_has_every_message_in_order_without_its_content(make_desk: Any, tmp_path: Path) -> None:
    found = await a_traced_turn(make_desk, tmp_path / "trace.jsonl", "verbose")
    assert SECRET not in json.dumps(found)
    assert [(line["dir"], line["method"]) for line in found][:4] == [
        ("in", "sidecar/session/new"),
        ("out", "sidecar/sessions/changed"),
        ("out", "sidecar/session/new"),
        ("out", "sidecar/event"),
    ]
    asked = {line["id"]: line["method"] for line in found if line["dir"] == "in" and "answer" not in line}
    answered = {line["id"] for line in found if line.get("answer") and line["dir"] == "out"}
    failed = {line["id"]: line["error"] for line in found if "error" in line}
    assert {asked[number] for number in failed} == {"sidecar/session/load"}
    assert set(failed.values()) == {"sessionNotFound"}
    assert set(asked) == answered | set(failed) | {max(asked)}, "the last one ends the trace"
    assert [line["kind"] for line in found if line["method"] == "sidecar/event"].count("settled") == 1
    questions = [line for line in found if line["method"] == "sidecar/permission/request"]
    assert [(line["dir"], line.get("answer")) for line in questions] == [("out", None), ("in", True)]


async def test_a_trace_can_be_played_again(make_desk: Any, tmp_path: Path) -> None:
    found = await a_traced_turn(make_desk, tmp_path / "trace.jsonl", "verbose")
    (ran,) = [line for line in found if line["method"] == "sidecar/turn/run" and line["dir"] == "in"]
    assert METHODS["sidecar/turn/run"].params.__name__ == "TurnParams"
    assert ran["content"]["input"] == [{"type": "text", "text": f"<{len(SECRET)} chars>"}]
    (new,) = [line for line in found if line["method"] == "sidecar/session/new" and line["dir"] == "in"]
    assert new["content"]["cwd"] == str(tmp_path / "project")


async def test_a_trace_without_content_has_only_names(make_desk: Any, tmp_path: Path) -> None:
    found = await a_traced_turn(make_desk, tmp_path / "trace.jsonl", "messages")
    assert all("content" not in line for line in found)
    assert len(found) > 10


async def test_a_trace_has_a_file_of_its_own_below_the_state_directory(make_desk: Any) -> None:
    desk = make_desk()
    client = desk.client()
    first = await client.call("trace/set", level="messages")
    path = Path(first["path"])
    assert (path.parent, mode(path)) == (desk.home / "traces", 0o600)
    await client.call("status")
    await desk.daemon.service.tracer.aclose()
    assert [line["method"] for line in lines(path)] == ["sidecar/status", "sidecar/status"]


@pytest.mark.parametrize(
    "to_file", ["relative.jsonl", "/dev/null/x.jsonl", "/tmp\0/x.jsonl", "/tmp/\ud83d.jsonl"]
)
async def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_traced(
    make_desk: Any, to_file: str
) -> None:
    desk = make_desk()
    client = desk.client()
    with pytest.raises(SidecarError) as raised:
        await client.call("trace/set", level="verbose", toFile=to_file)
    assert raised.value.kind == "invalidParams"
    assert not desk.daemon.service.tracer.is_on


async def test_a_trace_never_goes_to_a_file_of_somebody_else(make_desk: Any, tmp_path: Path) -> None:
    """Neither an existing file nor a link; and a refused call leaves the running trace as it is."""
    theirs, link = tmp_path / "theirs.txt", tmp_path / "link"
    theirs.write_text("text")
    link.symlink_to(tmp_path / "made-by-link")
    desk = make_desk()
    client = desk.client()
    running = (await client.call("trace/set", level="messages"))["path"]
    for to_file in (str(theirs), str(link), "relative"):
        with pytest.raises(SidecarError) as raised:
            await client.call("trace/set", level="verbose", toFile=to_file)
        assert raised.value.kind == "invalidParams"
    assert (theirs.read_text(), link.exists()) == ("text", False)
    await client.call("status")
    await client.call("trace/set", level="off")
    assert [line["method"] for line in lines(Path(running))].count("sidecar/status") == 2


async def test_a_trace_may_go_on_in_its_own_file(make_desk: Any, tmp_path: Path) -> None:
    client = make_desk().client()
    path = tmp_path / "trace.jsonl"
    for level in ("messages", "verbose", "off", "messages"):
        await client.call("trace/set", level=level, **({} if level == "off" else {"toFile": str(path)}))
    await client.call("trace/set", level="off")
    assert {line["method"] for line in lines(path)} == {"sidecar/trace/set"}
    path.unlink()
    path.write_text("another file")
    with pytest.raises(SidecarError):
        await client.call("trace/set", level="messages", toFile=str(path))
    assert path.read_text() == "another file"


async def test_a_trace_that_cannot_go_on_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracer = Tracer(tmp_path, lambda: 1)
    path = await tracer.start("messages", str(tmp_path / "sub" / "trace.jsonl"))
    assert path is not None
    path.unlink()
    path.mkdir()
    tracer.record("c1", "in", {"method": "sidecar/status"})
    await tracer.drain()
    assert not tracer.is_on
    assert "the trace ends" in caplog.text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("text", "a", "b")), inner),
)


@given(json_values)
def test_no_content_survives_redaction(value: Any) -> None:
    for message in ({"input": value}, {"data": {"content": value}}, {"result": value}, {"error": value}):
        assert SECRET not in json.dumps(redact(message))


def test_redaction_keeps_the_shape() -> None:
    message = {"sid": "s1", "turnId": "t1", "data": {"kind": "text", "delta": "abc", "n": 3, "head": None}}
    assert redact(message) == {
        "sid": "s1",
        "turnId": "t1",
        "data": {"kind": "text", "delta": "<3 chars>", "n": 3, "head": None},
    }


# The log.


def book(*entries: tuple[int, str]) -> LogRing:
    log = LogRing()
    for level, message in entries:
        log.handle(logging.LogRecord("sidecar.test", level, "", 0, message, None, None))
    return log


INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


def test_the_log_is_read_from_a_line_on_and_by_level() -> None:
    log = book((INFO, "a"), (WARNING, "b"), (ERROR, "c"), (INFO, "d"))
    shown, after = log.tail(None, "info")
    assert ([(line.line, line.text) for line in shown], after) == (
        [(1, "a"), (2, "b"), (3, "c"), (4, "d")],
        5,
    )
    shown, after = log.tail(2, "warning")
    assert ([line.text for line in shown], after) == (["b", "c"], 5)
    assert log.tail(5, "info") == ([], 5)
    assert [line.text for line in log.tail(None, "info", "c")[0]] == ["c"]
    assert log.errors == ("sidecar.test: c",)


def test_a_long_log_is_read_in_pages() -> None:
    log = book(*((INFO, str(n)) for n in range(1, 1201)))
    newest, _ = log.tail(None, "info")
    assert (newest[0].text, newest[-1].text) == ("701", "1200")
    page, after = log.tail(1, "info")
    assert (page[-1].text, after) == ("500", 501)


def test_the_log_keeps_the_class_of_an_exception_and_masks_secrets() -> None:
    log = LogRing()
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    key = "sk-" + "a1B2c3D4" * 4
    log.handle(logging.LogRecord("sidecar.test", ERROR, "", 0, "failed with %s", (key,), info))
    ((line,), _) = log.tail(None, "info")
    assert line.text.endswith("(ValueError)")
    assert key not in line.text
    assert SECRET not in line.text


async def test_the_daemon_keeps_its_log(make_desk: Any) -> None:
    client = make_desk().client()
    logging.getLogger("sidecar.test").warning("something odd")
    tail = await client.call("log/tail", level="warning")
    assert tail["lines"][-1]["text"] == "something odd"
    assert (await client.call("log/tail", fromLine=tail["next"]))["lines"] == []
    assert (await client.call("log/tail", session="no such session"))["lines"] == []
