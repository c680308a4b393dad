"""Tools of servers within a budget: a request declares some of them, and a search finds the others.

Servers may bring hundreds of tools. Their descriptions would stand in every request, and services with
OpenAI's formats take 128 tools. So the tools of the smallest servers are declared first, as many as the
budget holds. The others are found with ``find_tools`` and called with ``call_tool``, so that a search changes
nothing in front of the conversation. Such a call is a call of the tool that it names: for permissions, hooks
and clients too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Tool, ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.runtime.contract import ToolCall
from sidecar.text.calls import ANYTHING, NO_EFFECTS, words_of

MOST_TOOLS: Final = 128
"""Tools that services with OpenAI's formats take in a request."""

MOST_CHARS: Final = 40_000
"""Characters of the declarations of servers' tools in a request, about 10,000 tokens."""

CALL_TOOL: Final = "call_tool"
_MOST_FOUND: Final = 10


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of find_tools."""

    query: Annotated[str, msgspec.Meta(description="Words for what the tool does; empty for all names.")] = ""


class NamedCallArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of call_tool."""

    name: Annotated[str, msgspec.Meta(description="The name of the tool, as find_tools gives it.")]
    arguments: Annotated[
        dict[str, Any], msgspec.Meta(description="Its arguments, by the parameters that find_tools gives.")
    ] = {}


def divide_by_budget(tools: Sequence[Tool], n_others: int) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Return the *tools* of servers that a request declares, and the others, each in their order.

    Args:
        tools: the tools of all servers, named ``mcp__SERVER__TOOL``.
        n_others: the number of tools that a request declares besides.
    """
    sizes = {tool.descriptor.name: size_of(tool) for tool in tools}
    if sum(sizes.values()) <= MOST_CHARS and len(tools) + n_others <= MOST_TOOLS:
        return tuple(tools), ()
    of_servers: dict[str, int] = {}
    for name, size in sizes.items():
        of_servers[server_of(name)] = of_servers.get(server_of(name), 0) + size
    declared: set[str] = set()
    left, n_left = MOST_CHARS, MOST_TOOLS - n_others - len(("find_tools", CALL_TOOL))
    for name in sorted(sizes, key=lambda name: of_servers[server_of(name)]):
        if sizes[name] > left or len(declared) >= n_left:
            break
        declared.add(name)
        left -= sizes[name]
    return (
        tuple(tool for tool in tools if tool.descriptor.name in declared),
        tuple(tool for tool in tools if tool.descriptor.name not in declared),
    )


def search_tools(hidden: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools that find and call the *hidden* ones; none where none are hidden."""
    if not hidden:
        return ()
    counts: dict[str, int] = {}
    for tool in hidden:
        server = server_of(tool.descriptor.name)
        counts[server] = counts.get(server, 0) + 1
    servers = ", ".join(f"{server} ({n})" for server, n in counts.items())
    find = TypedTool(
        name="find_tools",
        description=(
            f"Find further tools of servers by words, with their parameters; {CALL_TOOL} calls them. There "
            f"are {len(hidden)}: {servers}."
        ),
        kind="search",
        effects=NO_EFFECTS,
        arguments=SearchArguments,
        describe=lambda arguments: f"Find tools: {arguments.query}".rstrip(": "),
        perform=partial(find_tools, hidden),
    )
    return (find, _CALL)


async def find_tools(
    hidden: Sequence[Tool], arguments: SearchArguments, context: ToolContext, cancel: CancelToken
) -> ToolReply:
    """Answer with the tools that fit best, or with the names of all."""
    wanted = stems_of(arguments.query)
    scores = {tool.descriptor.name: score(tool, wanted) for tool in hidden}
    found = sorted(
        (tool for tool in hidden if scores[tool.descriptor.name]),
        key=lambda tool: -scores[tool.descriptor.name],
    )[:_MOST_FOUND]
    if not found:
        heading = "no tool fits these words; " if wanted else ""
        text = f"{heading}all names:\n" + "\n".join(scores)
        return ToolReply(text[: context.max_output_chars])
    parts: list[str] = []
    left = context.max_output_chars
    for tool in found:
        each = tool.descriptor
        part = f"{each.name}: {each.description}\nparameters: {json.dumps(each.parameters)}"
        left -= len(part) + 2
        if left < 0 and parts:
            break
        parts.append(part[: context.max_output_chars])
    return ToolReply("\n\n".join(parts))


def score(tool: Tool, wanted: frozenset[str]) -> int:
    """Return how well *tool* fits the words *wanted*, 0 for not at all; its name counts most."""
    name, description = stems_of(tool.descriptor.name), stems_of(tool.descriptor.description)
    return sum(3 * (word in name) + (word in description) for word in wanted)


def stems_of(text: str) -> frozenset[str]:
    """Return the words of *text*, or of a name in any style, without the s of plurals.

    >>> sorted(stems_of("mcp__hub__listIssues"))
    ['hub', 'issue', 'list', 'mcp']
    """
    return frozenset(word.removesuffix("s") for word in words_of(text))


def size_of(tool: Tool) -> int:
    """Return the characters of the declaration of *tool*."""
    each = tool.descriptor
    return len(each.name) + len(each.description) + len(json.dumps(each.parameters))


def server_of(name: str) -> str:
    """Return the server in the *name* of a tool.

    >>> server_of("mcp__hub__list")
    'hub'
    """
    return name.split("__")[1] if name.startswith("mcp__") else name


def named_call(call: ToolCall, hidden: Collection[str]) -> ToolCall:
    """Return the call of a *hidden* tool that *call* makes by ``call_tool``; else *call* as it is."""
    given = call.input if call.name == CALL_TOOL and isinstance(call.input, Mapping) else {}
    if (name := given.get("name")) not in hidden:
        return call
    arguments = given.get("arguments")
    return ToolCall(call.id, str(name), {} if arguments is None else arguments)


async def refuse_call(arguments: NamedCallArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Refuse the call of a tool that is not there."""
    return error_reply(f"there is no further tool {arguments.name!r}", "find its name with find_tools")


_CALL: Final = TypedTool(
    name=CALL_TOOL,
    description="Call a tool that find_tools has found.",
    kind="other",
    effects=ANYTHING,
    arguments=NamedCallArguments,
    describe=lambda arguments: f"Call {arguments.name}",
    perform=refuse_call,
)
