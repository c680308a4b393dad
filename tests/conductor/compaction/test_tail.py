"""A tail that leaves room for what stands for the rest: large outputs are thinned, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from histories import entry_of
from sidecar.conductor.window.compaction.tail import LEAST_CHARS, LEAST_TAIL, MARKER, thin_tail, thin_text
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from turns import assistant, user

VIEW = 8_000
FAILURE = "src/parser.py:412: KeyError: 'retry_limit'"


def log_of(n_lines: int) -> str:
    """A long output with one line that tells something."""
    return "\n".join([*("all went well here, as it should" for _ in range(n_lines)), FAILURE])


def call(call_id: str, output: str) -> tuple[Turn, Turn]:
    asked = ToolCallBlock(call_id, "bash", {"command": f"make {call_id}"})
    return assistant(asked), ToolTurn((ToolResultBlock(call_id, output),))


def weigh(entries: Sequence[Entry]) -> int:
    return sum(len(text) // 4 for text in map(all_text, entries))


def all_text(entry: Entry) -> str:
    return " ".join(
        str(getattr(block, "output", "") or getattr(block, "text", "")) for block in entry.turn.blocks
    )


def tail_of(*turns: Turn) -> list[Entry]:
    return [entry_of(turn) for turn in (user("w" * 9_000), *turns)]


def test_an_answered_output_that_fills_the_view_keeps_its_telling_lines() -> None:
    tail = tail_of(*call("a", log_of(2_000)), *call("b", log_of(10)), assistant("Fixed."))
    thinned = thin_tail(tail, VIEW, weigh)
    assert weigh(tail) > VIEW
    assert weigh(thinned) <= VIEW // 2 + len(MARKER)
    assert FAILURE in all_text(thinned[2])
    assert "2001 lines" in all_text(thinned[2])
    assert [*thinned[:2], *thinned[3:]] == [*tail[:2], *tail[3:]], "the small output, too"


def test_what_the_model_has_not_answered_stays() -> None:
    tail = tail_of(*call("a", "fine"), *call("b", log_of(2_000)))
    assert thin_tail(tail, VIEW, weigh) is tail or thin_tail(tail, VIEW, weigh) == tail


def test_a_tail_that_leaves_room_stays() -> None:
    tail = tail_of(*call("a", log_of(20)), assistant("Fixed."))
    assert weigh(tail) <= LEAST_TAIL
    assert thin_tail(tail, 100, weigh) is tail
    large = tail_of(*call("a", log_of(2_000)), assistant("Fixed."))
    assert thin_tail(large, 0, weigh) is large, "the window is not known"


def test_a_file_of_which_lines_are_gone_was_not_read() -> None:
    asked, shown = call("a", log_of(2_000))
    read = FileRead(path="/a", uri="file:///a", hash="1", source="disk", call_id="a")
    before = Entry(shown, "tool", reads=(read,))
    tail = [entry_of(asked), before, entry_of(assistant("Seen."))]
    assert thin_tail(tail, VIEW, weigh)[1].reads == ()


def test_a_text_is_thinned_to_its_length() -> None:
    assert thin_text("short", LEAST_CHARS) == "short"
    thinned = thin_text(log_of(200), LEAST_CHARS)
    assert len(thinned) <= LEAST_CHARS + len(MARKER) + 4
    assert FAILURE in thinned
