"""The chronicle: what it shows of a conversation, and what holds for every conversation and every room."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.chronicle import HEADER, Chronicle, Written
from sidecar.conversation import Entry, EntryKind
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock, ToolTurn
from turns import assistant, user


def typed(text: str) -> Entry:
    return Entry(user(text), "user")


def said(text: str) -> Entry:
    return Entry(assistant(text), "assistant")


def called(name: str, **given: object) -> Entry:
    return Entry(assistant(ToolCallBlock("c", name, given)), "assistant")


def shown(text: str) -> Entry:
    return Entry(ToolTurn((ToolResultBlock("c", text),)), "tool")


def write(entries: Sequence[Entry], room: int, n_entries: int | None = None) -> Written:
    chronicle = Chronicle()
    for entry in entries:
        chronicle.add(entry)
    return chronicle.write(room, meter=len, n_entries=n_entries)


def body(written: Written) -> str:
    return written.text.removeprefix(HEADER)


def test_a_conversation_that_fits_stands_whole_and_in_order() -> None:
    written = write(
        [typed("Fix it."), called("run", command="make"), shown("2 failed"), said("Done.")], 10_000
    )
    assert body(written) == "#1 > Fix it.\n#2 → run make\n#3 ← 2 failed\n#4 Done.\n"
    assert [written.resolution(place) for place in (1, 2, 3, 4)] == ["whole"] * 4


def test_the_older_the_thinner() -> None:
    output = "\n".join(f"line {n} of some output that goes on" for n in range(60))
    texts = [f"{number} {output.replace('line', f'line_{number}')}" for number in range(8)]
    shares = write([shown(text) for text in texts], len(HEADER) + 8_000).shares
    assert list(shares.values()) == sorted(shares.values())
    assert shares[8] > 2 * shares[1] > 0


def test_what_the_user_typed_stands_after_everything_else_is_gone() -> None:
    talk = [
        typed("Never rename the public names."),
        *(shown(f"{n} rows\n" * 300) for n in range(40)),
        typed("Go on."),
    ]
    written = write(talk, len(HEADER) + 160)
    assert "#1 > Never rename the public names.\n" in written.text
    assert "> Go on.\n" in written.text


def test_an_entry_without_a_line_is_named_in_the_place_of_the_next() -> None:
    talk = [typed("Begin."), *(shown(f"{n} rows to see here " * 90) for n in range(5)), typed("End.")]
    tail = [shown("word " * 9_000)]
    assert body(write([*talk, *tail], len(HEADER) + 40, n_entries=7)) == "#1 > Begin.\n#2-7 > End.\n"


def test_the_last_entries_without_a_line_have_a_place_too() -> None:
    talk = [typed("Begin."), *(shown(f"{n} rows to see here " * 90) for n in range(5))]
    tail = [shown("word " * 9_000)]
    assert body(write([*talk, *tail], len(HEADER) + 20, n_entries=6)) == "#1 > Begin.\n#2-6\n"


def test_a_line_that_comes_again_is_shown_where_it_came_last() -> None:
    first = shown("1→def parse(text):\n2→    return text.split()\n3→def old(): pass")
    again = shown("10→def parse(text):\n11→    return text.split()\n12→def new(): pass")
    written = write([first, again], 10_000)
    newest = "10→def parse(text):\n11→    return text.split()\n12→def new(): pass"
    assert body(written) == f"#1 ← 3→def old(): pass\n#2 ← {newest}\n"
    assert written.resolution(1) == "whole"


def test_a_prompt_and_a_call_that_come_again_stay() -> None:
    talk = [
        typed("continue"),
        called("run", command="make"),
        typed("continue"),
        called("run", command="make"),
    ]
    assert body(write(talk, 10_000)) == "#1 > continue\n#2 → run make\n#3 > continue\n#4 → run make\n"


def test_what_was_touched_again_lives_longer() -> None:
    chronicle = Chronicle()
    levels = []
    for number in range(4):
        chronicle.add(shown(f"value {number}\nbeta_limit = 4"))
        levels.append(chronicle.ranked[-1].levels[1])
    assert levels == sorted(levels)
    assert levels[0] < levels[1] < levels[2]
    assert [ranked.levels[1] for ranked in chronicle.ranked[:-1]] == [0, 0, 0]


def test_entries_behind_the_chronicle_count_for_age_and_for_what_comes_again() -> None:
    talk = [shown("alpha = 1\nbeta = 2"), typed("Go."), shown("alpha = 1")]
    written = write(talk, 10_000, n_entries=2)
    assert body(written) == "#1 ← beta = 2\n#2 > Go.\n"
    assert written.n_entries == 2


def test_secrets_are_masked() -> None:
    written = write([shown("export DEPLOY=q7Zt0Lm4XbV9sK2dPw8R")], 10_000)
    assert body(written) == "#1 ← export DEPLOY=[secret]\n"


def test_a_room_too_small_for_the_places_gives_no_chronicle() -> None:
    assert write([typed("Hello.")], 10) == Written(text="", tokens=0, n_entries=1, shares={})


@pytest.mark.parametrize("room", [0, 100, 700])
def test_a_room_for_little_is_not_tried_factor_by_factor(room: int) -> None:
    metered: list[str] = []

    def meter(text: str) -> int:
        metered.append(text)
        return len(text)

    chronicle = Chronicle()
    for number in range(12):
        chronicle.add(shown("retries() failed at src/a.py:7\n" * 30 + str(number)))
    chronicle.write(room, meter=meter)
    assert len(metered) <= 30


def test_an_empty_conversation_has_no_chronicle() -> None:
    assert write([], 1_000).text == ""


@pytest.mark.parametrize("kind", ["summary", "file"])
def test_what_a_compaction_wrote_is_no_part_of_the_conversation(kind: EntryKind) -> None:
    compacted = Entry(user("as it was"), kind, origin=("node",))
    assert body(write([typed("one"), compacted, typed("two")], 10_000)) == "#1 > one\n#2 > two\n"


WORDS = st.text(alphabet=st.sampled_from("ab Z9_/.:?\n\t,`é界"), max_size=400)
ENTRIES = st.lists(
    st.one_of(
        WORDS.map(typed),
        WORDS.map(said),
        WORDS.map(shown),
        st.tuples(WORDS, WORDS).map(lambda texts: called("edit", old=texts[0], new=texts[1])),
    ),
    max_size=12,
)
ROOMS = st.integers(0, 3_000)


@cases(60)
@given(ENTRIES, ROOMS, st.integers(0, 12))
def test_a_chronicle_fits_its_room_and_accounts_for_every_entry(
    entries: list[Entry], room: int, n_entries: int
) -> None:
    written = write(entries, len(HEADER) + room, n_entries)
    n_entries = min(n_entries, len(entries))
    assert len(written.text) <= written.tokens <= len(HEADER) + room
    if written.text:
        places = [match[1] for match in re.finditer(r"(?m)^#(\d+(?:-\d+)?)~?(?: |$)", body(written))]
        last = 0
        for place in places:
            first, _, end = place.partition("-")
            if int(first) == last + 1:  # an output may begin a line like a place
                last = int(end or first)
        assert last == n_entries
    assert all(0 < share <= 1 for share in written.shares.values())
    assert set(written.shares) <= set(range(1, n_entries + 1))


@cases(60)
@given(ENTRIES, ROOMS, ROOMS)
def test_more_room_never_shows_an_entry_less(entries: list[Entry], one: int, other: int) -> None:
    small, large = (write(entries, len(HEADER) + room) for room in sorted((one, other)))
    assert all(large.shares.get(place, 0) >= share for place, share in small.shares.items())


@cases(40)
@given(ENTRIES, ROOMS)
def test_the_same_conversation_has_the_same_chronicle(entries: list[Entry], room: int) -> None:
    chronicle = Chronicle()
    for entry in entries:
        chronicle.add(entry)
        chronicle.write(room, meter=len)  # what was written before changes nothing
    assert chronicle.write(room, meter=len) == write(entries, room)


@cases(40)
@given(ENTRIES)
def test_with_room_for_everything_each_line_stands_verbatim_and_in_order(entries: list[Entry]) -> None:
    written = write(entries, 1_000_000)
    text = body(written)
    at = 0
    for entry in entries:
        for block in entry.turn.blocks:
            if entry.kind == "user" and isinstance(block, TextBlock) and block.text.strip():
                first = block.text.strip("\n").split("\n")[0]
                found = text.find(first, at)
                assert found >= at
                at = found + len(first)
    assert all(share == 1 for share in written.shares.values())
