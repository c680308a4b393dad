"""The recall tool: it finds entries behind summaries by their words and shows them as they were said.

It is on offer once something was folded away. It touches nothing.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.conversation import Entry
from sidecar.conversation.search import entry_text, search_entries
from sidecar.text.calls import SEARCHES

PLACE = re.compile(r"#(\d{1,9})")
"""The place of an entry in the chronicle."""

_EXCERPT_CHARS = 1_500
_BEFORE_CHARS = 300
"""How much of an excerpt stands before the word that was found."""


class RecallArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the recall tool."""

    query: str = ""
    entry: Annotated[
        str, msgspec.Meta(description="The id of an entry, or its place such as #12, to show from offset on.")
    ] = ""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5


async def recall(arguments: RecallArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Search the folded entries, or show one of them."""
    folded = context.list_folded()
    place = PLACE.fullmatch((arguments.entry or arguments.query).strip())
    if arguments.entry or place:
        entry = next((each for each in folded if each.node_id == arguments.entry), None)
        if place:
            entries = context.list_by_place()
            entry = entries[int(place[1]) - 1] if 0 < int(place[1]) <= len(entries) else None
        if entry is None:
            raise InvalidInput(
                f"there is no entry {arguments.entry or arguments.query!r}", hint="take an id from a search"
            )
        room = context.max_output_chars - 200
        return ToolReply(show_part(entry, entry_text(entry), arguments.offset, room))
    if not arguments.query.strip():
        raise InvalidInput("no query was given", hint="name some words to look for")
    found = await asyncio.to_thread(search_entries, folded, arguments.query, arguments.limit)
    if not found:
        return ToolReply(f"none of {len(folded)} entries holds any of these words; try other ones")
    room = max(200, min(_EXCERPT_CHARS, context.max_output_chars // len(found) - 100))
    return ToolReply(
        "\n\n".join(
            show_part(folded[each.index], each.text, max(0, each.at - _BEFORE_CHARS), room) for each in found
        )
    )


def show_part(entry: Entry, text: str, start: int, n_chars: int) -> str:
    """Return *n_chars* characters of the *text* of *entry* from *start* on, and how to see the rest."""
    part = text[start : start + n_chars]
    end = start + len(part)
    cut = "" if len(part) == len(text) else f", characters {start} to {end} of {len(text)}"
    more = f"\n[go on with entry={entry.node_id!r}, offset={end}]" if end < len(text) else ""
    return f"[{entry.node_id}: {entry.kind}{cut}]\n{part}{more}"


RECALL = TypedTool(
    name="recall",
    description=(
        "Search the summarised part of this conversation for words and show it verbatim, outputs included. "
        "Use it before you repeat work or ask again."
    ),
    kind="search",
    effects=SEARCHES,
    arguments=RecallArguments,
    describe=lambda arguments: f"Recall {arguments.query or arguments.entry}",
    perform=recall,
)
