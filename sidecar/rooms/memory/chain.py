"""The summaries of one conversation, each made from the one before and the events that came since.

Values and pure functions. A link remembers which events, with which content, went into its summary. So an
edited or deleted event is noticed, and only the links from there on are made again (failure B-K4); and a new
event costs a summary of itself, not of the whole conversation (failure B-K3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from sidecar.rooms.events import RoomEvent

__all__ = ["Chain", "Link", "carried", "extended", "reconciled", "refreshed"]


@dataclass(frozen=True, slots=True)
class Link:
    """One summary and the events it added to the one before.

    *covered* maps event ids to content fingerprints, oldest first, as far as the events are still at hand.
    *partial* says that some are not: such a summary cannot be made again.
    """

    text: str
    covered: Mapping[str, str]
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything a summarising memory keeps of one conversation.

    *absorbed* are the inner provider's summaries that went into the links. *uncovered* are the events that
    were known at the last retrieve and are in no summary, oldest first. *folded_at* is when the newest link
    was made.
    """

    links: tuple[Link, ...] = ()
    absorbed: frozenset[str] = frozenset()
    uncovered: tuple[RoomEvent, ...] = ()
    folded_at: float = 0.0

    @property
    def text(self) -> str | None:
        """The newest summary, which stands for all covered events; None when there is none."""
        return self.links[-1].text if self.links else None

    @property
    def covered(self) -> frozenset[str]:
        """The ids of the events at hand that went into the summary."""
        return frozenset(event_id for link in self.links for event_id in link.covered)


def carried(uncovered: Sequence[RoomEvent], present: AbstractSet[str]) -> tuple[RoomEvent, ...]:
    """Return the events that slid out of sight before a summary covered them (failure B-K9).

    A room's tail loses its events from the front; what is missing further back was deleted, and stays so.
    When nothing of *uncovered* is present any more, all of it slid out.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> events = [
    ...     RoomEvent(id=name, room_id="r", source=EventSource("c", "sms"), content=TextContent(name))
    ...     for name in "abc"
    ... ]
    >>> [event.id for event in carried(events, {"b", "c", "d"})]
    ['a']
    """
    slid = 0
    while slid < len(uncovered) and uncovered[slid].id not in present:
        slid += 1
    return tuple(uncovered[:slid])


def reconciled(chain: Chain, present: Mapping[str, str]) -> Chain:
    """Return *chain* without what *present*, event ids to fingerprints, shows to be out of date.

    From the first edited or deleted event on, the links are dropped, so that their events are summarised
    anew without it. A link of which some events are out of reach is kept, and the edited event alone is
    shown again.

    >>> chain = Chain((Link("first", {"a": "1"}), Link("second", {"b": "2", "c": "3"})))
    >>> reconciled(chain, {"a": "1", "b": "2", "c": "edited", "d": "4"}).text
    'first'
    """
    links = chain.links
    while (found := _first_stale(links, present)) is not None:
        index, event_id = found
        links = _repaired(links, index, event_id, present)
    return _with_links(chain, tuple(_pruned(links, present)))


def refreshed(chain: Chain, present: Mapping[str, str]) -> Chain:
    """Return *chain* with only what cannot be made again: the last summary of events out of reach.

    >>> chain = Chain((Link("first", {"a": "1"}), Link("second", {"b": "2"})))
    >>> refreshed(chain, {"b": "2"}).text, refreshed(chain, {"a": "1", "b": "2"}).text
    ('first', None)
    """
    for link in reversed(chain.links):
        if link.partial or any(event_id not in present for event_id in link.covered):
            return _with_links(chain, (Link(link.text, {}, partial=True),))
    return _with_links(chain, ())


def extended(
    chain: Chain, text: str, covered: Mapping[str, str], absorbed: Sequence[str], now: float
) -> Chain:
    """Return *chain* with one more link.

    >>> extended(Chain(), "they met", {"a": "1"}, ["day one"], now=7.0).text
    'they met'
    """
    return replace(
        chain,
        links=(*chain.links, Link(text, covered)),
        absorbed=chain.absorbed.union(absorbed),
        uncovered=tuple(event for event in chain.uncovered if event.id not in covered),
        folded_at=now,
    )


def _first_stale(links: Sequence[Link], present: Mapping[str, str]) -> tuple[int, str] | None:
    """Return link index and id of the first covered event that was edited or deleted, or None.

    A missing event slid out of sight when no covered event before it is present; else it was deleted.
    """
    seen = False
    for index, link in enumerate(links):
        for event_id, mark in link.covered.items():
            seen = seen or event_id in present
            if seen and present.get(event_id) != mark:
                return index, event_id
    return None


def _repaired(
    links: tuple[Link, ...], index: int, event_id: str, present: Mapping[str, str]
) -> tuple[Link, ...]:
    """Drop the links from *index* on, or only *event_id* where that link cannot be made again."""
    link = links[index]
    slid = not any(known in present for earlier in links[:index] for known in earlier.covered)
    if not link.partial and not (slid and next(iter(link.covered)) not in present):
        return links[:index]
    rest = {known: mark for known, mark in link.covered.items() if known != event_id}
    return (*links[:index], replace(link, covered=rest, partial=True), *links[index + 1 :])


def _pruned(links: Sequence[Link], present: Mapping[str, str]) -> list[Link]:
    """Forget covered events that are out of reach; of links without any event left keep the newest."""
    pruned: list[Link] = []
    for link in links:
        at_hand = {event_id: mark for event_id, mark in link.covered.items() if event_id in present}
        kept = replace(link, covered=at_hand, partial=link.partial or len(at_hand) < len(link.covered))
        if not at_hand:
            pruned.clear()
        pruned.append(kept)
    return pruned


def _with_links(chain: Chain, links: tuple[Link, ...]) -> Chain:
    return replace(chain, links=links, absorbed=chain.absorbed if links else frozenset())
