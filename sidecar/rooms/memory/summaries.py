"""Summaries of one conversation: the message that shows one, and the chain that they form.

The problem: a summary of all events so far would have to be written anew for each event that leaves the
window, and would be wrong as soon as one of its events is edited. So summaries form a chain. Each link is
made from the one before and the events that came since, and remembers those events with a fingerprint of
their content::

    events   e1 e2 e3 | e4 e5 | e6 e7
             link 1     link 2   in the window, or waiting for a summary

A new event costs a summary of itself, not of the whole conversation. An edit of e4 drops link 2 and nothing
else; an edit of e2 drops both. An event that is merely out of reach (a room's tail loses its events from the
front) is no edit: its link can not be made again, and stays.

The newest link's text stands for all events that the chain covers. Values and pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.estimate import message_tokens

_MARK_PREFIX = "[Conversation summary"
SUMMARY_MARK = f"{_MARK_PREFIX} — earlier messages compacted]"
"""The first line of every summary that this engine puts into a conversation; nobody else may copy it."""

KNOWLEDGE_MARK = "[Relevant context from knowledge sources]"
"""The first line of a message that shows the results of knowledge sources."""

EMPTY_SUMMARY = "[Summary generation failed]"


def summary_message(summary: str) -> AIMessage:
    """Return the message that stands for the events a *summary* covers.

    >>> summary_message("they met").content
    '[Conversation summary — earlier messages compacted]\\nthey met'
    """
    return AIMessage(role="user", content=f"{SUMMARY_MARK}\n{summary}")


SUMMARY_OVERHEAD_TOKENS = message_tokens(summary_message(""))


def summary_text(message: AIMessage) -> str | None:
    """Return the whole text of a message that is a summary, else None.

    A summary is known by its beginning; a message that merely quotes the mark is none.

    >>> summary_text(AIMessage("user", "you wrote [Conversation summary — ...] yesterday")) is None
    True
    """
    content = message.content
    return content if isinstance(content, str) and content.startswith(_MARK_PREFIX) else None


def summary_body(text: str) -> str:
    """Return *text* without the mark of a summary, where it begins with one.

    >>> summary_body(f"{SUMMARY_MARK}\\nthey met"), summary_body("they met")
    ('they met', 'they met')
    """
    return text.partition("\n")[2] if text.startswith(_MARK_PREFIX) else text


def unavailable_summary(n_events: int) -> str:
    """Return the placeholder for *n_events* events while the summariser fails.

    >>> unavailable_summary(3)
    '[Earlier conversation with 3 messages — summary unavailable]'
    """
    return f"[Earlier conversation with {n_events} messages — summary unavailable]"


class SummaryLink(Value):
    """One summary and the events it added to the one before.

    *covered* maps event ids to content fingerprints, oldest first, as far as the events are still at hand.
    *partial* says that some are not: such a summary cannot be made again.
    """

    text: str
    covered: Mapping[str, str]
    partial: bool = False


class SummaryChain(Value):
    """The whole state that a summarising memory keeps of one conversation.

    Attributes:
        links: the summaries, oldest first.
        absorbed: texts of the inner provider's summaries that went into the links.
        uncovered: events known at the last retrieve that are in no summary, oldest first.
        folded_at: the time at which the newest link was made, in seconds of the memory's clock.
    """

    links: tuple[SummaryLink, ...] = ()
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


def find_slid_events(uncovered: Sequence[RoomEvent], present: AbstractSet[str]) -> tuple[RoomEvent, ...]:
    """Return the events that slid out of sight before a summary covered them.

    A room's tail loses its events from the front; an event missing further back was deleted, and stays so.
    When none of *uncovered* is present any more, all of it slid out.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> events = [
    ...     RoomEvent(id=name, room_id="r", source=EventSource("c", "sms"), content=TextContent(name))
    ...     for name in "abc"
    ... ]
    >>> [event.id for event in find_slid_events(events, {"b", "c", "d"})]
    ['a']
    """
    slid = 0
    while slid < len(uncovered) and uncovered[slid].id not in present:
        slid += 1
    return tuple(uncovered[:slid])


def append_link(
    chain: SummaryChain, text: str, covered: Mapping[str, str], *, absorbed: Sequence[str], now: float
) -> SummaryChain:
    """Return *chain* with one more link.

    Args:
        chain: the summaries so far.
        text: the new summary, which stands for all of them.
        covered: the events it adds, ids to content fingerprints.
        absorbed: texts of the inner provider's summaries that went into it.
        now: the time, in seconds of the memory's clock.

    >>> append_link(SummaryChain(), "they met", {"a": "1"}, absorbed=["day one"], now=7.0).text
    'they met'
    """
    return replace(
        chain,
        links=(*chain.links, SummaryLink(text, covered)),
        absorbed=chain.absorbed.union(absorbed),
        uncovered=tuple(event for event in chain.uncovered if event.id not in covered),
        folded_at=now,
    )


def drop_stale_links(chain: SummaryChain, present: Mapping[str, str]) -> SummaryChain:
    """Return *chain* without the links that are out of date.

    From the first edited or deleted event on, the links are dropped, so that their events are summarised
    anew without it. A link with some events out of reach is kept, and the edited event alone is shown again.

    Args:
        chain: the summaries so far.
        present: the events in sight, ids to content fingerprints.

    >>> chain = SummaryChain((SummaryLink("first", {"a": "1"}), SummaryLink("second", {"b": "2", "c": "3"})))
    >>> drop_stale_links(chain, {"a": "1", "b": "2", "c": "edited", "d": "4"}).text
    'first'
    """
    links = chain.links
    while (found := find_stale_event(links, present)) is not None:
        index, event_id = found
        link = links[index]
        slid = not any(known in present for earlier in links[:index] for known in earlier.covered)
        if link.partial or (slid and next(iter(link.covered)) not in present):
            rest = {known: mark for known, mark in link.covered.items() if known != event_id}
            links = (*links[:index], replace(link, covered=rest, partial=True), *links[index + 1 :])
        else:
            links = links[:index]
    kept: list[SummaryLink] = []
    for link in links:
        at_hand = {event_id: mark for event_id, mark in link.covered.items() if event_id in present}
        if not at_hand:
            kept.clear()  # Of links without any event left only the newest is kept.
        partial = link.partial or len(at_hand) < len(link.covered)
        kept.append(replace(link, covered=at_hand, partial=partial))
    return _replace_links(chain, tuple(kept))


def drop_renewable_links(chain: SummaryChain, present: Mapping[str, str]) -> SummaryChain:
    """Return *chain* with only the part that cannot be made again: the last summary of events out of reach.

    >>> chain = SummaryChain((SummaryLink("first", {"a": "1"}), SummaryLink("second", {"b": "2"})))
    >>> drop_renewable_links(chain, {"b": "2"}).text, drop_renewable_links(chain, {"a": "1", "b": "2"}).text
    ('first', None)
    """
    for link in reversed(chain.links):
        if link.partial or any(event_id not in present for event_id in link.covered):
            return _replace_links(chain, (SummaryLink(link.text, {}, partial=True),))
    return _replace_links(chain, ())


def find_stale_event(links: Sequence[SummaryLink], present: Mapping[str, str]) -> tuple[int, str] | None:
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


def _replace_links(chain: SummaryChain, links: tuple[SummaryLink, ...]) -> SummaryChain:
    return replace(chain, links=links, absorbed=chain.absorbed if links else frozenset())
