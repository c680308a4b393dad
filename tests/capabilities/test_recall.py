"""The recall tool: searching what was folded away, and showing it word for word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from histories import entry_of
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.recall import RECALL, entry_text, search_entries, words_of
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn
from turns import assistant, calling, user

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


ENTRIES = [
    entry_of(user("Fix the importer.")),
    entry_of(calling(ToolCallBlock("1", "bash", {"command": "make check"}))),
    entry_of(ToolTurn((ToolResultBlock("1", "ValueError: retry_limit is 0"),))),
    entry_of(assistant("The importer reads retry_limit twice; the importer is fixed.")),
    entry_of(user("解析器太慢了")),
]


def found(query: str, limit: int = 5) -> list[int]:
    return [match.index for match in search_entries(ENTRIES, query, limit)]


def test_the_rarest_words_count_most_and_the_newest_of_equals_comes_first() -> None:
    assert found("retry limit") == [3, 2]
    assert found("importer ValueError")[0] == 2
    assert found("fix", 1) == [3]


def test_a_whole_match_comes_before_its_parts_and_what_says_it_before_a_listing() -> None:
    listing = "\n".join(f"src/part{number}/main.py" for number in range(200))
    entries = [
        entry_of(user("The limit in src/part7/main.py is 30.")),
        entry_of(ToolTurn((ToolResultBlock("1", listing),))),
        entry_of(user("main.py, src and part7 are words of it; main.py of src is not part7.")),
    ]
    matches = search_entries(entries, "`src/part7/main.py`?", 5)
    assert matches[0].index == 0
    assert matches[0].text[matches[0].at :].startswith("src/part7/main.py")


def test_calls_results_and_scripts_without_blanks_are_found() -> None:
    assert found("make check") == [1]
    assert found("解析器") == [4]
    assert found("zebra") == []


def test_a_match_tells_where_its_rarest_word_stands() -> None:
    (match,) = search_entries(ENTRIES, "ValueError", 5)
    assert match.text[match.at :].startswith("ValueError")


def test_the_words_of_a_query_are_bounded() -> None:
    assert len(words_of(" ".join(f"w{n}" for n in range(1_000)))) == 32
    assert entry_text(ENTRIES[1]) == 'bash {"command":"make check"}'


def test_a_result_that_no_json_can_hold_hides_no_other() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    entries = [entry_of(ToolTurn((ToolResultBlock("1", nested),))), *ENTRIES]
    assert [match.index for match in search_entries(entries, "ValueError", 5)] == [3]


def test_calls_that_only_name_a_path_take_no_place_of_what_is_said_of_it() -> None:
    read = ToolCallBlock("1", "read", {"path": "src/part7/main.py"})
    entries = [entry_of(assistant("src/part7/main.py:12 leaks a handle")), *[entry_of(calling(read))] * 9]
    assert {match.index for match in search_entries(entries, "src/part7/main.py", 2)} == {0, 9}
