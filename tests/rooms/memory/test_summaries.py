"""The chain of summaries holds as far as its events were not edited, deleted or lost from sight."""

from __future__ import annotations

import pytest

from room_events import make_event
from sidecar.rooms.memory.summaries import (
    SummaryChain,
    SummaryLink,
    drop_renewable_links,
    drop_stale_links,
    find_slid_events,
)


def marks(names: str) -> dict[str, str]:
    """Fingerprints: an upper-case letter is the edited event of the lower-case one."""
    return {name.lower(): name for name in names}


def chain(*links: str) -> SummaryChain:
    """Summaries of the events named; a leading ``~`` says that events out of reach are in it too."""
    return SummaryChain(
        links=tuple(
            SummaryLink(text=f"notes {number}", covered=marks(link.lstrip("~")), partial=link.startswith("~"))
            for number, link in enumerate(links)
        ),
        absorbed=frozenset({"prior"}),
        folded_at=7.0,
    )


def drawn(given: SummaryChain) -> list[tuple[str, str]]:
    """Each link as its text and what it covers, in the notation of :func:`chain`."""
    return [(link.text, "~" * link.partial + "".join(link.covered.values())) for link in given.links]


CHAINS = {
    "nothing happened": (["ab", "cd"], "abcde", [("notes 0", "ab"), ("notes 1", "cd")]),
    "the first slid out": (["ab", "cd"], "bcde", [("notes 0", "~b"), ("notes 1", "cd")]),
    "a link slid out": (["ab", "cd"], "cde", [("notes 0", "~"), ("notes 1", "cd")]),
    "all slid out": (["ab", "cd"], "ef", [("notes 1", "~")]),
    "an edit drops its link": (["ab", "cd"], "abCde", [("notes 0", "ab")]),
    "an edit in the first link drops all": (["ab", "cd"], "Abcde", []),
    "a deletion drops its link": (["ab", "cd"], "abde", [("notes 0", "ab")]),
    "a deletion in the first link drops all": (["ab", "cd"], "acde", []),
    "what cannot be made again is kept": (["~b", "cd"], "Bcd", [("notes 0", "~"), ("notes 1", "cd")]),
    "also where it slid just now": (["abc", "d"], "bCd", [("notes 0", "~b"), ("notes 1", "d")]),
    "and links after it are looked at too": (["abc", "d"], "bCD", [("notes 0", "~b")]),
    "an empty chain": ([], "abc", []),
}


@pytest.mark.parametrize(("links", "present", "left"), CHAINS.values(), ids=CHAINS)
def test_links_are_dropped_from_the_first_edit_on(
    links: list[str], present: str, left: list[tuple[str, str]]
) -> None:
    """A link is dropped exactly when it says what is no longer so and can be made again."""
    result = drop_stale_links(chain(*links), marks(present))
    assert drawn(result) == left
    assert result.absorbed == (frozenset({"prior"}) if left else frozenset())


@pytest.mark.parametrize(
    ("links", "present", "left"),
    [
        pytest.param(["ab", "cd"], "abcd", [], id="everything can be made again"),
        pytest.param(["ab", "cd"], "bcd", [("notes 0", "~")], id="but for what slid out"),
        pytest.param(["~b", "cd"], "bcd", [("notes 0", "~")], id="or had slid out before"),
        pytest.param(["ab", "cd"], "e", [("notes 1", "~")], id="all slid out"),
    ],
)
def test_only_unreachable_links_survive_a_refresh(
    links: list[str], present: str, left: list[tuple[str, str]]
) -> None:
    """What stays is the newest summary of events out of reach, and covers no event at hand."""
    assert drawn(drop_renewable_links(chain(*links), marks(present))) == left


@pytest.mark.parametrize(
    ("uncovered", "present", "kept"),
    [
        pytest.param("abcd", "cde", "ab", id="what slid out of the front waits"),
        pytest.param("abcd", "abcd", "", id="nothing slid"),
        pytest.param("abcd", "ad", "", id="what is missing further back was deleted"),
        pytest.param("abcd", "xy", "abcd", id="the whole window moved on"),
        pytest.param("", "ab", "", id="nothing was there"),
    ],
)
def test_events_that_slid_out_of_sight_are_found(uncovered: str, present: str, kept: str) -> None:
    """Events that leave sight before a summary covers them are not lost."""
    events = [make_event(name) for name in uncovered]
    assert "".join(each.id for each in find_slid_events(events, frozenset(present))) == kept
