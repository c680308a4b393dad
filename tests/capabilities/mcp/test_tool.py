"""A server's tool: asked for before it is called, bounded, and never believed."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import PermissionQuestion, ToolReply
from sidecar.capabilities.mcp.contract import CallResult, ListedTool, OnProgress, ServerFailed
from sidecar.capabilities.mcp.tool import McpTool, server_slugs, tool_names
from sidecar.llmgateway.contract import ImageBlock, ToolDescriptor
from sidecar.permissions.access import ServerToolAccess
from sidecar.text.calls import ToolKind

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
LOOK = ListedTool("look.up", "Look up", "Look something up.", SCHEMA)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TAKEN_BY_ALL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Server:
    """Answers *result*, after telling its progress, and remembers what it was asked."""

    def __init__(
        self, result: CallResult | ServerFailed, *progress: tuple[float, float | None, str | None]
    ) -> None:
        self.result = result
        self.progress = progress
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress, cancel: CancelToken
    ) -> CallResult:
        self.calls.append((name, arguments))
        for progress in self.progress:
            await on_progress(*progress)
        if isinstance(self.result, ServerFailed):
            raise self.result
        return self.result


def tool(server: Server, listed: ListedTool = LOOK) -> McpTool:
    return McpTool(
        name="mcp__lib__look_up", slug="lib", server="The Library", listed=listed, call=server.call
    )


async def test_permission_is_asked_before_each_call(desk: Desk) -> None:
    server = Server(CallResult("found"))
    assert await desk.run(tool(server), q="é") == ToolReply("found")
    assert desk.asked == [
        PermissionQuestion(
            call_id="c1",
            tool="mcp__lib__look_up",
            title="The Library: Look up",
            subject="toolCall",
            detail='{"q": "é"}',
            access=ServerToolAccess("lib", "look.up", is_read_only=False),
        )
    ]
    desk.answer = False
    assert "not allowed by the user: The Library: Look up" in await desk.failure(tool(server), q="x")
    assert server.calls == [("look.up", {"q": "é"})]


async def test_one_always_for_a_tool_that_claims_to_read_covers_its_server(desk: Desk) -> None:
    reader = ListedTool("look.up", "", "", SCHEMA, is_read_only=True)
    await desk.output(tool(Server(CallResult("found")), reader), q="x")
    assert [ask.access for ask in desk.asked] == [ServerToolAccess("lib", "look.up", is_read_only=True)]


@pytest.mark.parametrize(
    ("is_read_only", "is_open_world", "kind"),
    [
        pytest.param(True, False, "read", id="one that reads"),
        pytest.param(True, True, "fetch", id="one that reads what is out there"),
        pytest.param(False, True, "other", id="one that may do anything"),
    ],
)
def test_kind(is_read_only: bool, is_open_world: bool, kind: ToolKind) -> None:
    listed = ListedTool("t", "", "", SCHEMA, is_read_only, is_open_world)
    assert tool(Server(CallResult("")), listed).kind == kind


def test_what_the_model_is_shown() -> None:
    server = Server(CallResult(""))
    assert tool(server).descriptor == ToolDescriptor("mcp__lib__look_up", "Look something up.", SCHEMA)
    assert tool(server, ListedTool("t", "", "", SCHEMA)).descriptor.description == "t"
    assert len(tool(server, ListedTool("t", "", "x" * 9999, SCHEMA)).descriptor.description) == 4000


def test_a_title_is_one_short_line_whatever_the_server_sends() -> None:
    shouting = ListedTool("t", "\x1b[31mRed\n\n\u202eAlert " + "!" * 200, "", SCHEMA)
    title = tool(Server(CallResult("")), shouting).title({})
    assert title.startswith("The Library: [31mRed Alert !")
    assert len(title) == 80


@pytest.mark.parametrize("length", [0, 1000, 5_000_000])
async def test_the_result_is_bounded(desk: Desk, length: int) -> None:
    desk.max_output_chars = 1000
    output = await desk.output(tool(Server(CallResult("x" * length))), q="x")
    assert len(output) <= 1100
    assert ("not shown here" in output) == (length > 1000)


async def test_images_are_shown_to_models_that_see(desk: Desk) -> None:
    result = CallResult("[image, 70 bytes]", images=(PIXEL, "????", base64.b64encode(b"text").decode()))
    blind = await desk.run(tool(Server(result)))
    assert (blind.output, blind.images) == (
        "[image, 70 bytes]\n[the images are not shown: this model sees no images]",
        (),
    )
    desk.sees_images = True
    seeing = await desk.run(tool(Server(result)))
    assert seeing.images == (ImageBlock("image/png", PIXEL),)
    assert seeing.output == (
        "[image, 70 bytes]\n[image 2 is not shown: it is not base64]"
        "\n[image 3 is not shown: its format is not known]"
    )


async def test_what_a_tool_says_went_wrong_is_an_error(desk: Desk) -> None:
    assert await desk.run(tool(Server(CallResult("no", is_error=True)))) == ToolReply("no", is_error=True)
    failed = await desk.failure(tool(Server(ServerFailed("the server 'lib' has ended"))))
    assert failed == "mcp__lib__look_up: the server 'lib' has ended"


async def test_progress_is_told_and_not_too_often(desk: Desk) -> None:
    server = Server(CallResult("done"), (1, 3, "first\nword"), *[(2, 3, "more")] * 100)
    await desk.output(tool(server))
    assert desk.progress == ["1 of 3 first word\n"]
    desk.progress.clear()
    await desk.output(tool(Server(CallResult("done"), (7, None, None))))
    assert desk.progress == ["7\n"]


@pytest.mark.parametrize(
    ("names", "slugs"),
    [
        pytest.param(["git"], ("git",), id="a plain name stays"),
        pytest.param(["a__b", "_c_"], ("a_b", "c"), id="no two underscores, none at the ends"),
        pytest.param(["x" * 99], ("x" * 24,), id="a long one is cut"),
        pytest.param(["a", "a", "a"], ("a", "a_2", "a_3"), id="clashing ones are counted"),
        pytest.param(["", "文"], ("server", "server_2"), id="one that has no letter we know is a server"),
    ],
)
def test_server_slugs(names: list[str], slugs: tuple[str, ...]) -> None:
    assert server_slugs(names) == slugs


def test_a_long_tool_name_is_cut_and_marked() -> None:
    (name,) = tool_names("fs", ["n" * 99])
    assert (len(name), name[:20]) == (64, "mcp__fs__nnnnnnnnnnn")


@given(
    st.dictionaries(st.text(max_size=30), st.lists(st.text(max_size=80), unique=True, max_size=6), max_size=5)
)
def test_every_name_is_taken_by_every_provider_and_unique(servers: dict[str, list[str]]) -> None:
    slugs = server_slugs(servers)
    names = [
        name for slug, tools in zip(slugs, servers.values(), strict=True) for name in tool_names(slug, tools)
    ]
    assert len(names) == sum(map(len, servers.values()))
    assert len(set(names)) == len(names)
    assert all(TAKEN_BY_ALL.fullmatch(name) for name in names)
