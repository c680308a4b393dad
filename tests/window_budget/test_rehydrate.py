"""Files that a condense dropped come back as they are now, inside a budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    CLEARED_TOOL_RESULT,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    FileRange,
    Message,
    RehydrateOpts,
    ToolResultMessage,
    UserMessage,
    estimate_message_tokens,
    estimate_tokens,
    rehydrate_recent_reads,
)
from sidecar.window_budget.rehydrate import FileCandidate, path_key, restore_candidates, select_candidates


def use(
    tool: str, path: str, body: str = "body", *, is_error: bool = False, key: str = "path", **rest: object
) -> list[Message]:
    call_id = f"{tool} {path} {rest} {body[:8]}"
    return [
        AssistantMessage((ToolCallBlock(call_id, tool, {key: path, **rest}),)),
        ToolResultMessage(call_id, tool, (TextBlock(body),), is_error),
    ]


def restored(*texts: str) -> tuple[Message, ...]:
    return tuple(UserMessage(f"{RESTORED_FILE_PREFIX} {text}") for text in texts)


def check(dropped: Sequence[Message], *expected: str, kept: Sequence[Message] = ()) -> None:
    assert rehydrate_recent_reads(dropped, kept) == restored(*expected)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(use("read", "a.py", "boom", is_error=True), id="a failed read"),
        pytest.param(use("read", "a.py", " \n"), id="an empty body"),
        pytest.param(use("read", "a.py", CLEARED_TOOL_RESULT), id="a body blanked before"),
        pytest.param(use("grep", "a.py"), id="another tool"),
        pytest.param(use("read", "a.py")[:1], id="no result"),
        pytest.param(use("read", "a.py")[1:], id="no call"),
        pytest.param([UserMessage("read a.py")], id="no read at all"),
    ],
)
def test_only_successful_reads_with_a_body_are_restored(messages: list[Message]) -> None:
    check(messages)


def test_a_file_that_the_tail_still_shows_is_left_out() -> None:
    """By any spelling; a blanked read shows nothing; a whole write shows everything."""
    dropped = use("read", "./src/a.py", "old")
    check(dropped, kept=use("read", "src//a.py", "new"))
    check(dropped, "./src/a.py\nold", kept=use("read", "src/a.py", CLEARED_TOOL_RESULT))
    check(dropped, kept=use("write", "src/a.py", content="all of it"))


def test_the_budget_stops_but_the_freshest_always_comes() -> None:
    """The documented rule of the pure function; the runner keeps the budget (see the next tests)."""
    dropped = use("read", "small.py", "x") + use("read", "big.py", "y" * 90_000)
    assert rehydrate_recent_reads(dropped, []) == restored(f"big.py\n{'y' * 90_000}")
    dropped = use("read", "old.py", "x" * 20_000) + use("read", "new.py", "y" * 20_000)
    assert rehydrate_recent_reads(dropped, []) == restored(f"new.py\n{'y' * 20_000}")


@pytest.mark.parametrize("tool", ["edit", "write"])
@pytest.mark.parametrize("where", ["dropped", "kept"])
def test_a_file_changed_since_is_not_restored_from_history(tool: str, where: str) -> None:
    read, change = use("read", "a.py"), use(tool, "src/../a.py", old_string="x", new_string="y")
    check(read + change if where == "dropped" else read, kept=[] if where == "dropped" else change)
    failed = use(tool, "a.py", is_error=True)
    check(read + failed, "a.py\nbody")
    check(change + read, "a.py\nbody")


def test_partial_reads_come_back_as_those_ranges() -> None:
    """Each range by itself; a read of the whole file stands for all of them."""
    parts = use("read", "a.py", "one", offset=1, limit=10) + use("read", "a.py", "two", offset=90, limit=10)
    check(parts, "a.py (lines 1-10)\none", "a.py (lines 90-99)\ntwo")
    check([*parts, *use("read", "a.py", "end", offset=120)], *(
        "a.py (lines 1-10)\none", "a.py (lines 90-99)\ntwo", "a.py (from line 120)\nend"
    ))  # fmt: skip
    check(use("read", "a.py", "all") + parts, "a.py\nall")
    check(parts, "a.py (lines 90-99)\ntwo", kept=use("read", "a.py", "one", limit=10))


def test_several_ranges_count_as_one_file() -> None:
    dropped = [m for number in range(5) for m in use("read", f"f{number}.py")]
    dropped += [
        m for number in range(3) for m in use("read", "g.py", f"part {number}", offset=1 + 10 * number)
    ]
    assert len(rehydrate_recent_reads(dropped, [])) == 4 + 3


def test_a_restored_file_can_be_restored_again() -> None:
    first = rehydrate_recent_reads(use("read", "a b (1).py", "one", offset=5, limit=6), [])
    assert rehydrate_recent_reads(first, []) == first


def candidates(messages: list[Message], **links: str) -> tuple[FileCandidate, ...]:
    return select_candidates(
        messages, len(messages), RehydrateOpts(), lambda path: links.get(path.partition(".")[0], path)
    )


def test_candidates_say_what_they_cost_and_whether_they_are_stale() -> None:
    """Newest first; a stale file is offered, so that it can be restored fresh."""
    messages = use("read", "a.py") + use("edit", "a.py") + use("read", "b.py", "body of b")
    assert candidates(messages) == (
        FileCandidate(
            FileRange("b.py"), 5, estimate_message_tokens(restored("b.py\nbody of b")[0]), is_stale=False
        ),
        FileCandidate(
            FileRange("a.py"), 1, estimate_message_tokens(restored("a.py\nbody")[0]), is_stale=True
        ),
    )


def test_restored_files_stay_inside_the_budget() -> None:
    """A file too large comes back in part, and says how to read on; blank and stale ones are skipped."""
    big = use("read", "big.py", "line of text\n" * 4000)
    stale = use("read", "old.py") + use("edit", "old.py")
    messages = use("read", "more.py") + big + use("read", "blank.py", "\n") + stale
    (only,) = restore_candidates(candidates(messages), messages, 1000, max_messages=5)
    text = str(only.content)
    assert text.startswith(f"{RESTORED_FILE_PREFIX} big.py\nline of text")
    assert text.endswith("characters cut; read big.py with offset/limit for the rest ...]")
    assert 900 < estimate_tokens([only]) <= 1000


@pytest.mark.parametrize(("budget", "max_messages"), [(119, 5), (1000, 0), (-5, 5), (1000, -2)])
def test_with_nothing_to_spend_nothing_is_restored(budget: int, max_messages: int) -> None:
    messages = use("read", "a.py", "x")
    assert restore_candidates(candidates(messages), messages, budget, max_messages) == ()


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("a.py", "a.py"),
        (" ./a.py ", "a.py"),
        ("src/./x/../a.py", "src/a.py"),
        ("//srv/a.py", "/srv/a.py"),
        ("/srv//a.py", "/srv/a.py"),
        ("file:///srv/a.py", "/srv/a.py"),
        ("C:\\Work\\a.py", "c:/Work/a.py"),
        ("file:///C:/Work/a.py", "c:/Work/a.py"),
        ("../a.py", "../a.py"),
    ],
)
def test_lexical_spellings_of_a_path_have_one_key(spelling: str, key: str) -> None:
    """Lexical spellings of one path are one path; letters keep their case."""
    assert path_key(spelling) == key
