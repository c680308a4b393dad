"""One session's tools: every call reported once, every call one outcome."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fake_tools import FakeTool
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities import toolbox as toolbox_module
from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import (
    Location,
    PermissionDecision,
    PermissionQuestion,
    ToolActivity,
    ToolContext,
    ToolReply,
)
from sidecar.capabilities.read import READ
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.runtime.contract import ToolCall, ToolOutcome

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

Act = Callable[[Mapping[str, Any], ToolContext, CancelToken], Awaitable[ToolReply]]


class Bench:
    """A box of one fake tool, and what it reported."""

    def __init__(self, desk: Desk, tool: FakeTool) -> None:
        self.reported: list[ToolActivity] = []
        self.cancel = CancelToken()
        self.box = SessionToolBox([tool, READ, BASH], desk.context, self.reported.append)

    async def run(self, arguments: Any, *, name: str = "fake") -> ToolOutcome:
        return await self.box.runner.run(ToolCall("c9", name, arguments), self.cancel)

    def phases(self) -> list[str]:
        return [activity.phase for activity in self.reported]


async def check(
    desk: Desk, tool: FakeTool, arguments: Any, *, output: str, is_error: bool, name: str = "fake"
) -> Bench:
    """Run a call; it must come to this outcome, and be reported as started and finished once each."""
    bench = Bench(desk, tool)
    assert await bench.run(arguments, name=name) == ToolOutcome("c9", output, is_error)
    started, finished = bench.reported
    assert (started.phase, started.input, started.output) == ("started", arguments, None)
    assert (finished.phase, finished.output, finished.is_error) == ("finished", output, is_error)
    assert not finished.is_cancelled
    return bench


def raising(error: Exception) -> Act:
    async def act(arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        raise error

    return act


async def test_a_call_that_goes_well(desk: Desk) -> None:
    reply = ToolReply("fine", title="Did it", locations=(Location(desk.root),))
    bench = await check(desk, FakeTool(reply=reply), {"x": 1}, output="fine", is_error=False)
    started = ToolActivity(
        phase="started", call_id="c9", name="fake", title="fake", kind="other", input={"x": 1}
    )
    finished = replace(started, phase="finished", title="Did it", output="fine", locations=reply.locations)
    assert bench.reported == [started, finished]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param("read", {"path": "sub/../a.py", "offset": 7}, ("a.py", 7), id="the file that is read"),
        pytest.param("read", {"path": 3}, None, id="no path is no place"),
        pytest.param("bash", {"path": "a.py"}, None, id="a command is nowhere"),
        pytest.param("gone", {"path": "a.py"}, None, id="nor is a tool that is not there"),
    ],
)
def test_a_call_says_from_its_beginning_where_it_is(
    desk: Desk, name: str, arguments: dict[str, Any], expected: tuple[str, int] | None
) -> None:
    started = Bench(desk, FakeTool()).box.describe(ToolCall("c", name, arguments))
    assert started.locations == (
        () if expected is None else (Location(desk.root / expected[0], expected[1]),)
    )


async def test_tools_that_come_later_stand_beside_the_first_ones_until_others_come(desk: Desk) -> None:
    bench = Bench(desk, FakeTool())
    bench.box.offer("servers", [FakeTool("late", ToolReply("late one")), FakeTool("other")])
    assert [tool.name for tool in bench.box.descriptors()] == ["fake", "read", "bash", "late", "other"]
    assert await bench.run({}, name="late") == ToolOutcome("c9", "late one", False)
    bench.box.offer("servers", [FakeTool("other")])
    assert [tool.name for tool in bench.box.descriptors()] == ["fake", "read", "bash", "other"]
    assert (await bench.run({}, name="late")).is_error


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        pytest.param(
            {"__unparsed": '{"a": '},
            "fake: the arguments are not valid JSON, perhaps cut off (line 1, column 7: Expecting value); "
            "send the call again, in smaller parts",
            id="unparsed",
        ),
        pytest.param([1], "fake: the arguments are list, not an object; send an object", id="a list"),
        pytest.param(
            "x",
            "fake: the arguments are not valid JSON, perhaps cut off (line 1, column 1: Expecting value); "
            "send the call again, in smaller parts",
            id="text",
        ),
        pytest.param(None, "fake: the arguments are NoneType, not an object; send an object", id="null"),
    ],
)
async def test_bad_input_never_reaches_the_tool(desk: Desk, arguments: Any, output: str) -> None:
    tool = FakeTool()
    await check(desk, tool, arguments, output=output, is_error=True)
    assert tool.calls == []


async def test_an_unknown_tool(desk: Desk) -> None:
    output = "there is no tool 'magic'; use one of fake, read, bash"
    await check(desk, FakeTool(), {}, output=output, is_error=True, name="magic")


async def test_what_a_tool_raises_is_an_error_without_a_trace(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        tool = FakeTool(act=raising(LookupError("no such key " + "x" * 1000)))
        output = "fake failed: LookupError: no such key " + "x" * 488
        await check(desk, tool, {"secret": "hush"}, output=output, is_error=True)
    assert caplog.messages == ["tool fake raised LookupError"]


async def test_json_passes_as_it_is_and_what_cannot_be_encoded_is_made_to(desk: Desk) -> None:
    outputs = ({"rows": [1]}, "name \udcff")
    shown = [(await Bench(desk, FakeTool(reply=ToolReply(each))).run({})).output for each in outputs]
    assert shown == [{"rows": [1]}, "name ?"]


async def test_progress_is_reported_between(desk: Desk) -> None:
    async def act(arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        context.progress("half")
        return ToolReply("done")

    bench = Bench(desk, FakeTool(act=act))
    await bench.run({})
    assert [(each.phase, each.output) for each in bench.reported] == [
        ("started", None),
        ("progress", "half"),
        ("finished", "done"),
    ]


async def test_a_call_after_the_cancel_is_not_run(desk: Desk) -> None:
    tool = FakeTool()
    bench = Bench(desk, tool)
    bench.cancel.cancel()
    assert await bench.run({}) == ToolOutcome("c9", "fake: cancelled", True)
    assert (tool.calls, bench.phases()) == ([], ["started", "finished"])


class Waiting:
    """A tool's work that waits, and ends as it is made to."""

    def __init__(self, ends: str) -> None:
        self.ends = ends
        self.began = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(
        self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken
    ) -> ToolReply:
        self.began.set()
        if self.ends == "itself":
            is_cancelled = asyncio.Event()
            loop = asyncio.get_running_loop()

            def on_cancel() -> None:
                loop.call_soon_threadsafe(is_cancelled.set)

            cancel.add_callback(on_cancel)
            await is_cancelled.wait()
            return ToolReply("what there was", is_error=True)
        while not self.release.is_set():
            with contextlib.suppress(asyncio.CancelledError if self.ends == "never" else LookupError):
                await self.release.wait()
        return ToolReply("late")


@pytest.mark.parametrize(
    ("ends", "output"),
    [
        pytest.param("itself", "what there was", id="a tool that ends itself has its reply"),
        pytest.param("when ended", "fake: cancelled", id="a tool that does not is ended"),
        pytest.param("never", "fake: cancelled", id="a tool that refuses is left behind"),
    ],
)
async def test_a_cancel_ends_the_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, ends: str, output: str
) -> None:
    monkeypatch.setattr(toolbox_module, "_CANCEL_GRACE_S", 0.05)
    work = Waiting(ends)
    bench = Bench(desk, FakeTool(act=work))
    running = asyncio.ensure_future(bench.run({}))
    await work.began.wait()
    bench.cancel.cancel()
    assert await running == ToolOutcome("c9", output, True)
    assert bench.phases() == ["started", "finished"]
    assert [activity.is_cancelled for activity in bench.reported] == [False, True]
    work.release.set()
    await asyncio.gather(*bench.box._stubborn)


async def test_a_question_is_given_up_when_the_call_is_cancelled(desk: Desk) -> None:
    asked = asyncio.Event()

    async def never(ask: PermissionQuestion) -> PermissionDecision:
        asked.set()
        answer: asyncio.Future[PermissionDecision] = asyncio.get_running_loop().create_future()
        return await answer

    reported: list[ToolActivity] = []
    context = replace(desk.context(), ask=never)
    box = SessionToolBox([BASH], lambda call_id: context, reported.append)
    cancel = CancelToken()
    running = asyncio.ensure_future(box.run(ToolCall("c1", "bash", {"command": "true"}), cancel))
    await asked.wait()
    cancel.cancel()
    outcome = await running
    assert (outcome.is_error, "not allowed" in outcome.output) == (True, True)


async def test_a_cancelled_task_still_reports_its_end(desk: Desk) -> None:
    work = Waiting("when ended")
    bench = Bench(desk, FakeTool(act=work))
    running = asyncio.ensure_future(bench.run({}))
    await work.began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.phases() == ["started", "finished"]
    assert bench.reported[1].is_error


async def test_a_tool_of_an_earlier_version_answers_and_is_not_offered(desk: Desk) -> None:
    desk.put("src/a.py")
    bench = Bench(desk, FakeTool())
    outcome = await bench.run({"pattern": "**/*.py"}, name="glob")
    assert (outcome.output, outcome.is_error) == ("src/a.py", False)
    assert "glob" not in [each.name for each in bench.box.descriptors()]
    assert not bench.box.effects()["glob"].may_change


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param("functions.read", {"path": "a.py"}, id="a prefix"),
        pytest.param("Read", {"file_path": "a.py"}, id="an upper case letter"),
        pytest.param("read_file", {"path": "@a.py"}, id="another name, and a path as mentions have it"),
        pytest.param("read", {"__unparsed": "{'path': 'a.py',}"}, id="quotes of Python"),
        pytest.param("read", '{"path": "a.py"}', id="an object in a text"),
        pytest.param(" read ", {"path": "a.py"}, id="blanks around a name"),
        pytest.param("read<|channel|>commentary", {"path": "a.py"}, id="marks of a template"),
        pytest.param("view_file", {"path": "a.py"}, id="a name that says what it does"),
        pytest.param("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, id="a verb"),
    ],
)
async def test_a_call_in_the_habits_of_other_agents(desk: Desk, name: str, given: Any) -> None:
    (desk.root / "a.py").write_text("one\n")
    bench = Bench(desk, FakeTool())
    outcome = await bench.run(given, name=name)
    assert (outcome.output, outcome.is_error) == ("     1\tone", False)
    assert [(each.name, each.title) for each in bench.reported] == [
        ("read", f"Read {'@' * ('@' in str(given))}a.py")
    ] * 2


@pytest.mark.parametrize(
    ("path", "near"),
    [
        pytest.param("src/modle.py", "did you mean src/model.py?", id="a slip in the name"),
        pytest.param("lib/model.py", "did you mean src/model.py?", id="another folder"),
        pytest.param("src/other.txt", "check the spelling", id="nothing near"),
        pytest.param("/etc/passwdx", "check the spelling", id="outside nothing is looked for"),
    ],
)
async def test_a_wrong_path_is_answered_with_the_nearest(desk: Desk, path: str, near: str) -> None:
    (desk.root / "src").mkdir()
    (desk.root / "src/model.py").write_text("one\n")
    failed = await Bench(desk, FakeTool()).run({"path": path}, name="read")
    assert failed.is_error
    assert near in failed.output
    assert ("did you mean" in failed.output) == near.startswith("did")
