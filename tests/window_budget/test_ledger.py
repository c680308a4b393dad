"""The facts of a transcript, whichever way it came in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    AssistantMessage,
    CompactionSummaryMessage,
    FactIndex,
    FileRange,
    Message,
    ToolResultMessage,
    Transcript,
    UserMessage,
    flatten_transcript,
)
from sidecar.window_budget.fact_index import BLOCK_BYTES
from sidecar.window_budget.facts import FactKind, error_line, fact_key, shape_of
from sidecar.window_budget.tool_use import FileRead, FileWrite, facts_of_call, read_of, writes_of

words = st.sampled_from(["never push", "I decided to go with b", "see a_1", "v1.2.3", "", "# x", "é" * 9])
messages = st.lists(
    st.one_of(
        words.map(UserMessage),
        words.map(lambda text: AssistantMessage((TextBlock(text),))),
        st.sampled_from("123").map(
            lambda key: AssistantMessage((ToolCallBlock(key, "read", {"path": key}),))
        ),
        st.tuples(st.sampled_from("123"), words, st.booleans()).map(
            lambda drawn: ToolResultMessage(drawn[0], "read", (TextBlock(drawn[1]),), drawn[2])
        ),
        words.map(lambda text: CompactionSummaryMessage(text, 0)),
    ),
    max_size=12,
)


def view(ledger: FactIndex, before: int) -> dict[str, Any]:
    """Return everything that a ledger tells of the messages before *before*."""
    return {
        "digests": ledger.digests(before),
        "branches": ledger.branches(before),
        "reads": list(ledger.reads(before)),
        "writes": list(ledger.writes(before)),
        "facts": {kind: ledger.ranked(kind, before) for kind in FactKind},
        "first": {kind: ledger.first(kind, before) for kind in FactKind},
        "weight": ledger.text_bytes(0, before),
        "text": "\n".join(ledger.scrollback(0, before)),
    }


@given(messages, messages, messages)
def test_versions_do_not_disturb_each_other(
    start: list[Message], left: list[Message], right: list[Message]
) -> None:
    """An older version stays as it was, may grow in another direction, and tells as if built at once."""
    base = FactIndex().extend(start)
    grown = [(base, start), (base.extend(left), start + left), (base.extend(right), start + right)]
    for ledger, transcript in grown:
        whole = FactIndex().extend(transcript)
        for before in range(len(transcript) + 1):
            assert view(ledger, before) == view(whole, before)


@pytest.mark.parametrize("at", [0, 3, 700])
def test_blocks_of_text_change_nothing(at: int) -> None:
    """However much text there is, and wherever it is cut."""
    transcript: list[Message] = [UserMessage(f"{number} {'x' * (number % 900)}") for number in range(700)]
    transcript += [UserMessage("y" * 2 * BLOCK_BYTES), UserMessage("")] * 2
    ledger = FactIndex().extend(transcript[:at]).extend(transcript[at:])
    for start, end in [(0, len(transcript)), (1, 699), (350, 350), (500, 703), (702, 703)]:
        assert "\n".join(ledger.scrollback(start, end)) == flatten_transcript(transcript[start:end])
    fork = ledger.extend([])
    ledger.extend([UserMessage("later")])
    again = fork.extend([UserMessage("other")])
    assert "\n".join(again.scrollback(0, len(again))) == flatten_transcript(
        [*transcript, UserMessage("other")]
    )


def test_an_open_call_is_known_until_it_is_answered() -> None:
    """So that a result can be named after it."""
    call = ToolCallBlock("1", "read", {"path": "a"})
    ledger = FactIndex().extend([AssistantMessage((call,))])
    assert ledger.open_call("1") == call
    assert ledger.extend([ToolResultMessage("1", "read", ())]).open_call("1") is None
    flood = tuple(ToolCallBlock(str(number), "read", {}) for number in range(2, 400))
    assert ledger.extend([AssistantMessage(flood)]).open_call("1") is None


@pytest.mark.parametrize(
    ("call", "read", "writes"),
    [
        (("read", {"path": "a", "offset": 3, "limit": 4}), FileRange("a", 3, 4), []),
        (("Read", {"file_path": "a"}), FileRange("a"), []),
        (("mcp__fs__read_file", {"path": "a", "offset": True, "limit": "4"}), FileRange("a"), []),
        (("str_replace_editor", {"command": "view", "path": "a"}), FileRange("a"), []),
        (("str_replace_editor", {"command": "create", "path": "a"}), None, [("a", False)]),
        (("peek", {"path": "a"}), FileRange("a"), []),
        (("write", {"path": "a"}), None, [("a", True)]),
        (("Edit", {"filePath": "a"}), None, [("a", False)]),
        (
            ("apply_patch", {"input": "*** Delete File: a\n*** Update File: b"}),
            None,
            [("a", False), ("b", False)],
        ),
        (("grep", {"path": "a"}), None, []),
        (("bash", {"command": "cat a"}), None, []),
        (("read", None), None, []),
        (("read", {"path": ""}), None, []),
        (("read", ["a"]), None, []),
    ],
    ids=lambda value: str(value)[:40],
)
def test_which_calls_read_and_change_files(
    call: tuple[str, Any], read: FileRange | None, writes: list[tuple[str, bool]]
) -> None:
    """By the names tools go by; a view is a read."""
    block = ToolCallBlock("1", *call)
    assert read_of(block, 9) == (None if read is None else FileRead(9, call[0], read))
    assert list(writes_of(block, 9)) == [FileWrite(9, path, whole) for path, whole in writes]


@pytest.mark.parametrize(
    ("call", "body", "is_error", "facts"),
    [
        pytest.param(("bash", {"command": "make"}), "exit code: 0", False, ["make [exit 0]"], id="success"),
        pytest.param(
            ("exec", {"cmd": ["make", "all"]}), '{"exit_code":2,"output":"x"}', False,
            ['make all: {"exit_code":2,"output":"x"}', "make all [exit 2]"], id="the exit code decides",
        ),
        pytest.param(
            ("bash", {"command": "make"}), "make: *** No rule\nstop", True,
            ["make: make: *** No rule", "make [failed]"], id="failed without a code",
        ),
        pytest.param(
            ("book_flight", {"to": "SEA"}), "ok", False, ['book_flight {"to":"SEA"}'], id="an unknown tool"
        ),
        pytest.param(("todo", {"items": []}), "ok", False, [], id="nobody misses a todo"),
        pytest.param(("grep", {"q": "x"}), "no such dir", True, ["grep: no such dir"], id="but its error"),
        pytest.param(("bash", {"command": "  "}), "", False, [], id="an empty command"),
        pytest.param(
            ("edit", {"path": "a", "old_string": "a\nb", "new_string": "a\nc"}), "ok", False, ["a: b -> c"],
            id="the first line that differs",
        ),
    ],
)  # fmt: skip
def test_a_call_gives_its_facts_in_a_few_words(
    call: tuple[str, Any], body: str, is_error: bool, facts: list[str]
) -> None:
    """What it came to, in a few words."""
    assert [
        fact.text for fact in facts_of_call(ToolCallBlock("1", *call), body, 0, is_error=is_error)
    ] == facts


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("all quiet", "all quiet"),
        ("Exit code 1\nerror[E0425]: cannot find value `x`", "error[E0425]: cannot find value `x`"),
        ("Wall time: 1 s\nls: a: No such file or directory", "ls: a: No such file or directory"),
        ("warning: failed once\nTypeError: x is not a function", "TypeError: x is not a function"),
        ("a" * 9000 + "\nfatal: bad revision\n" + "b" * 3000, "fatal: bad revision"),
    ],
)
def test_the_error_line_is_the_error_itself(body: str, line: str) -> None:
    """The error itself before what merely mentions one, noise never."""
    assert error_line(body) == line


def test_like_facts_share_a_shape_and_one_fact_has_one_key() -> None:
    """Numbers and hashes do not make a fact special; outcomes and gists do not make it another one."""
    assert shape_of("item 17 of 99 at 8f3a2b1c") == shape_of("item 3 of 4 at deadbeef")
    assert fact_key(FactKind.MODIFIED, "a.py: x -> y") == fact_key(FactKind.MODIFIED, "a.py")
    assert fact_key(FactKind.COMMAND, "make [failed]") == fact_key(FactKind.COMMAND, "make [exit 0]")
    assert fact_key(FactKind.RULE, "Never  push") == fact_key(FactKind.RULE, "never push")


@pytest.mark.parametrize(
    "unit", ["a.", "a-", "a_", "A1", "1:", "x@", "`", "http://", "/a", "Error", " \n", " ", "<", "# "]
)
def test_pasted_junk_costs_no_more_than_its_length(unit: str) -> None:
    """Nothing in the search for facts runs away on a megabyte of it."""
    ledger = FactIndex().extend([UserMessage(unit * 300_000), AssistantMessage((TextBlock(unit * 300_000),))])
    assert len(ledger) == 2


def test_a_transcript_is_a_sequence_of_its_messages() -> None:
    """Index, slice, iterate, compare."""
    first: list[Message] = [UserMessage("a"), UserMessage("b")]
    one = Transcript.of(first)
    two = one.extend([UserMessage("c")])
    other = one.extend([UserMessage("d")])
    assert (list(one), list(two)) == (first, [*first, UserMessage("c")])
    assert other == (*first, UserMessage("d"))
    assert one == first
    assert one != two
    assert one != "ab"
    assert (two[-1], two[1:], two[::-2]) == (
        UserMessage("c"),
        (UserMessage("b"), UserMessage("c")),
        (two[2], two[0]),
    )
    assert Transcript.of(two) is two
    with pytest.raises(IndexError):
        one[2]
