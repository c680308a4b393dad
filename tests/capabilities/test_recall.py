"""The recall tool: searching what was folded away, and showing it word for word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from histories import entry_of
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.recall import RECALL, show_part
from turns import assistant, user

PROMPT, ANSWER = (
    entry_of(user("Port 7013 is taken. " + "x" * 5_000)),
    entry_of(assistant("I chose the ring buffer.")),
)


async def ask(desk: Any, **arguments: Any) -> str:
    context = replace(desk.context(), list_folded=lambda: (PROMPT, ANSWER))
    reply = await RECALL.run(arguments, context, CancelToken())
    assert isinstance(reply.output, str)
    return reply.output


async def test_a_search_shows_entries_with_their_ids(desk: Any) -> None:
    assert await ask(desk, query="ring buffer") == f"[{ANSWER.node_id}: assistant]\nI chose the ring buffer."
    shown = await ask(desk, query="port 7013")
    assert shown.startswith(
        f"[{PROMPT.node_id}: user, characters 0 to 1500 of 5020]\nPort 7013 is taken. xxx"
    )
    assert shown.endswith(f"[go on with entry={PROMPT.node_id!r}, offset=1500]")


async def test_one_entry_is_shown_from_where_it_was_cut(desk: Any) -> None:
    shown = await ask(desk, entry=PROMPT.node_id, offset=4_990)
    assert shown == f"[{PROMPT.node_id}: user, characters 4990 to 5020 of 5020]\n{'x' * 30}"


async def test_what_cannot_be_found_is_told(desk: Any) -> None:
    assert await ask(desk, query="zebra") == "none of 2 entries holds any of these words; try other ones"
    assert "there is no entry 'nope'" in await ask(desk, entry="nope")
    assert "no query was given" in await ask(desk)


def test_a_part_tells_what_is_left() -> None:
    assert show_part(ANSWER, "abcdef", 2, 2).endswith(
        f"\ncd\n[go on with entry={ANSWER.node_id!r}, offset=4]"
    )
