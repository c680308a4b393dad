"""Many tools of servers: declared within a budget, found and called beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_tools import FakeTool
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import ToolActivity, ToolReply
from sidecar.capabilities.tool_search import MOST_CHARS, MOST_TOOLS, divide_by_budget, size_of
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.runtime.contract import ToolCall

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


def tools_of(server: str, n: int, chars: int = 10) -> list[FakeTool]:
    return [
        FakeTool(f"mcp__{server}__tool_{at}", ToolReply(f"{server} {at}"), description="x" * chars)
        for at in range(n)
    ]


def test_few_tools_are_all_declared() -> None:
    tools = tools_of("a", 20)
    assert divide_by_budget(tools, 20) == (tuple(tools), ())


def test_a_request_has_no_more_tools_than_openai_takes() -> None:
    declared, hidden = divide_by_budget(tools_of("a", 200), 20)
    assert len(declared) + 20 + len(("find_tools", "call_tool")) == MOST_TOOLS
    assert (*declared, *hidden) == tuple(tools_of("a", 200))


def test_the_declarations_of_servers_are_bounded_and_small_servers_come_first() -> None:
    large, small = tools_of("large", 60, 1000), tools_of("small", 5, 1000)
    declared, hidden = divide_by_budget((*large, *small), 20)
    assert MOST_CHARS - 1200 < sum(map(size_of, declared)) <= MOST_CHARS
    assert declared[-5:] == tuple(small)
    assert declared[:-5] + hidden == tuple(large)


class Bench:
    """A box with 150 tools of a server, and the reports on its calls."""

    def __init__(self, desk: Desk) -> None:
        self.reported: list[ToolActivity] = []
        self.box = SessionToolBox([], desk.context, self.reported.append)
        special = FakeTool(
            "mcp__hub__listIssues", ToolReply("three issues"), description="Show what is open in a project."
        )
        self.box.offer("servers", [*tools_of("hub", 150), special])

    async def run(self, name: str, /, **arguments: Any) -> str:
        outcome = await self.box.run(ToolCall("c1", name, arguments), CancelToken())
        return str(outcome.output)


async def test_a_tool_beyond_the_budget_is_found_and_called_as_itself(desk: Desk) -> None:
    bench = Bench(desk)
    declared = {each.name: each for each in bench.box.descriptors()}
    assert "mcp__hub__listIssues" not in declared
    assert f"There are {len(bench.box.hidden)}: hub ({len(bench.box.hidden)})." in (
        declared["find_tools"].description
    )
    found = await bench.run("find_tools", query="issue of a project")
    assert found.startswith("mcp__hub__listIssues: Show what is open in a project.\nparameters: {")
    arguments = {"state": "open"}
    assert await bench.run("call_tool", name="mcp__hub__listIssues", arguments=arguments) == "three issues"
    assert [(each.name, each.input) for each in bench.reported[-2:]] == [
        ("mcp__hub__listIssues", arguments)
    ] * 2


async def test_words_that_fit_no_tool_bring_all_names(desk: Desk) -> None:
    bench = Bench(desk)
    found = await bench.run("find_tools", query="gardening")
    assert found.split("\n")[1:] == list(bench.box.hidden)
    assert found.startswith("no tool fits these words")


async def test_a_name_that_is_not_there_is_refused(desk: Desk) -> None:
    answer = await Bench(desk).run("call_tool", name="mcp__hub__nothing")
    assert answer == "there is no further tool 'mcp__hub__nothing'; find its name with find_tools"


def test_the_search_goes_with_the_tools(desk: Desk) -> None:
    bench = Bench(desk)
    bench.box.offer("servers", tools_of("hub", 3))
    assert [each.name for each in bench.box.descriptors()] == [f"mcp__hub__tool_{at}" for at in range(3)]
