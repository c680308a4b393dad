"""Making one message out of what several knowledge sources found (facts K13 to K16, failure B-K10).

Pure functions: they trust neither the scores nor the texts of a source, and bring no source to harm another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.content import query_text
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.budget import truncate_text
from sidecar.rooms.memory.estimate import MESSAGE_OVERHEAD_TOKENS, chars_within
from sidecar.rooms.memory.marks import KNOWLEDGE_HEADER
from sidecar.rooms.source import KnowledgeResult

__all__ = ["knowledge_message", "merged"]

SHORTEST_EXCERPT_CHARS = 80


def merged(found: Sequence[object], current: RoomEvent, max_results: int) -> list[KnowledgeResult]:
    """Return the best *max_results* of what the sources *found*, best first.

    A source whose scores leave 0 to 1 is scaled by its best, so that it does not outshout the others; a score
    that is no number counts 0. The same content is kept once, with its higher score. What was made from the
    *current* event itself is no find.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> asked = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("why?"))
    >>> found = [[KnowledgeResult("a", 0.2), KnowledgeResult("why?", 1.0)], None, [KnowledgeResult("b", 0.4)]]
    >>> [find.content for find in merged(found, asked, 5)]
    ['b', 'a']
    """
    best: dict[str, KnowledgeResult] = {}
    for results in found:
        for result in _scaled(_sound(results)):
            known = best.get(result.content)
            if known is None or result.score > known.score:
                best[result.content] = result
    finds = [each for each in best.values() if each.content.strip() and not _is_echo(each, current)]
    return sorted(finds, key=lambda each: -each.score)[:max_results]


def knowledge_message(finds: Sequence[KnowledgeResult], max_tokens: int) -> AIMessage | None:
    """Return the message that lists *finds*, at most *max_tokens* long; None for nothing to list.

    One find takes at most a quarter of the room while others wait behind it. Lines after the first of a find
    are indented, so that its text cannot pass for another item.

    >>> knowledge_message([KnowledgeResult("one\\n- [b] two", source="a")], 100).content.splitlines()[1:]
    ['- [a] one', '  - [b] two']
    """
    left = chars_within(max_tokens - MESSAGE_OVERHEAD_TOKENS) - len(KNOWLEDGE_HEADER)
    quarter = chars_within(max_tokens // 4)
    lines = [KNOWLEDGE_HEADER]
    for position, find in enumerate(finds, start=1):
        room = min(left - 1, quarter) if position < len(finds) else left - 1
        item = _item(find)
        if len(item) > room and room < SHORTEST_EXCERPT_CHARS:
            continue
        lines.append(truncate_text(item, room))
        left -= len(lines[-1]) + 1
    return AIMessage(role="user", content="\n".join(lines)) if len(lines) > 1 else None


def _sound(results: object) -> list[KnowledgeResult]:
    """Return what of a source's answer can be used at all, whatever the source returned."""
    if not isinstance(results, list | tuple):
        return []
    return [each for each in results if isinstance(each, KnowledgeResult) and isinstance(each.content, str)]


def _scaled(results: Sequence[KnowledgeResult]) -> list[KnowledgeResult]:
    scores = [_usable(result.score) for result in results]
    top = max([1.0, *scores])
    return [replace(result, score=score / top) for result, score in zip(results, scores, strict=True)]


def _usable(score: object) -> float:
    if not isinstance(score, int | float) or not math.isfinite(score):
        return 0.0
    return max(0.0, float(score))


def _is_echo(find: KnowledgeResult, current: RoomEvent) -> bool:
    """Return whether *find* is *current*; a source that does not name its events is judged by its words."""
    metadata: object = find.metadata
    event_id = metadata.get("event_id") if isinstance(metadata, Mapping) else None
    if event_id is None:
        return find.content.strip() == query_text(current.content).strip()
    return bool(event_id == current.id)


def _item(find: KnowledgeResult) -> str:
    label = f"[{' '.join(find.source.split())}] " if find.source else ""
    return "- " + label + "\n  ".join(find.content.splitlines())
