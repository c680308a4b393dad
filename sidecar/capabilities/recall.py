"""The recall tool: it finds entries behind summaries by their words and shows them as they were said.

It is on offer once something was folded away. It touches nothing. The rarest words of a query count most,
newer entries come before older ones:

    score = sum over the words of the query of  log(1 + n / n_with) * (1 + share)

``n`` entries were searched, ``n_with`` of them hold the word, and ``share`` grows from 0 to 1 with how often
the entry holds it. A word is found inside longer ones too ("port" in "import"), as names are made of words.
Of scripts without blanks each pair of characters counts as a word.

A part of the query that is joined of several words, such as a path or an identifier, counts once more where
it stands whole: as much as all of its words together, in an entry of two thousand characters half of that. So
an entry that says it comes before a listing that has it among others, and before entries with parts of it. Of
entries with the same text the newest stands for all.

Cost: one pass over the text of the entries, in a thread.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.text.calls import SEARCHES
from sidecar.text.clip import compact_json, text_or_json

PLACE = re.compile(r"#(\d{1,9})")
"""The place of an entry in the chronicle."""

_EXCERPT_CHARS = 1_500
_BEFORE_CHARS = 300
"""How much of an excerpt stands before the word that was found."""

MAX_WORDS = 32
WHOLE_CHARS = 2_000
"""In an entry of so many characters a whole match counts half."""

_WORD = re.compile(r"[^\W_]+")
_WITHOUT_BLANKS = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""A pattern that takes 2 ms to compile, so the first search does it."""


class RecallArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the recall tool."""

    query: str = ""
    entry: Annotated[
        str, msgspec.Meta(description="The id of an entry, or its place such as #12, to show from offset on.")
    ] = ""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5


async def recall(arguments: RecallArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Search the folded entries, or show one of them."""
    folded = context.list_folded()
    place = PLACE.fullmatch((arguments.entry or arguments.query).strip())
    if arguments.entry or place:
        entry = next((each for each in folded if each.node_id == arguments.entry), None)
        if place:
            entries = context.list_by_place()
            entry = entries[int(place[1]) - 1] if 0 < int(place[1]) <= len(entries) else None
        if entry is None:
            raise InvalidInput(
                f"there is no entry {arguments.entry or arguments.query!r}", hint="take an id from a search"
            )
        room = context.max_output_chars - 200
        return ToolReply(show_part(entry, entry_text(entry), arguments.offset, room))
    if not arguments.query.strip():
        raise InvalidInput("no query was given", hint="name some words to look for")
    found = await asyncio.to_thread(search_entries, folded, arguments.query, arguments.limit)
    if not found:
        return ToolReply(f"none of {len(folded)} entries holds any of these words; try other ones")
    room = max(200, min(_EXCERPT_CHARS, context.max_output_chars // len(found) - 100))
    return ToolReply(
        "\n\n".join(
            show_part(folded[each.index], each.text, max(0, each.at - _BEFORE_CHARS), room) for each in found
        )
    )


def show_part(entry: Entry, text: str, start: int, n_chars: int) -> str:
    """Return *n_chars* characters of the *text* of *entry* from *start* on, and how to see the rest."""
    part = text[start : start + n_chars]
    end = start + len(part)
    cut = "" if len(part) == len(text) else f", characters {start} to {end} of {len(text)}"
    more = f"\n[go on with entry={entry.node_id!r}, offset={end}]" if end < len(text) else ""
    return f"[{entry.node_id}: {entry.kind}{cut}]\n{part}{more}"


class Match(Value):
    """An entry that a search found, its *text*, and the place *at* of the first word that it holds."""

    index: int
    score: float
    text: str
    at: int


def words_of(query: str) -> tuple[str, ...]:
    """Return the words that a search for *query* looks for, in lower case, each once.

    >>> words_of("The retry_limit of 解析器")
    ('the', 'retry', 'limit', 'of', '解析', '析器')
    """
    words: dict[str, None] = {}
    for word in _WORD.findall(query.lower()):
        if re.search(_WITHOUT_BLANKS, word) and len(word) > 2:
            words.update(dict.fromkeys(word[at : at + 2] for at in range(len(word) - 1)))
        else:
            words[word] = None
    return tuple(words)[:MAX_WORDS]


def wholes_of(query: str) -> tuple[str, ...]:
    """Return the parts of *query* between blanks, in lower case, without quotes and marks around them.

    >>> wholes_of("Where is `src/a.py`?")
    ('where', 'is', 'src/a.py')
    """
    return tuple(filter(None, (part.strip("`'\"()[]{}<>,.;:!?") for part in query.lower().split())))[
        :MAX_WORDS
    ]


def entry_text(entry: Entry) -> str:
    """Return everything that *entry* says: prose, calls with their arguments, and results."""
    parts: list[str] = []
    for block in entry.turn.blocks:
        match block:
            case TextBlock(text=text):
                parts.append(text)
            case ToolCallBlock(name=name, input=given):
                parts.append(f"{name} {compact_json(given)}")
            case ToolResultBlock(output=output):
                parts.append(text_or_json(output))
            case _:
                continue
    return "\n".join(parts)


def search_entries(entries: Sequence[Entry], query: str, limit: int) -> list[Match]:
    """Return up to *limit* of *entries* that hold words of *query*, the best first."""
    words = words_of(query)
    texts = [entry_text(entry) for entry in entries]
    lowered = [text.lower() for text in texts]
    counts = [[text.count(word) for word in words] for text in lowered]
    n_with = [sum(row[k] > 0 for row in counts) for k in range(len(words))]
    weights = [math.log1p(len(entries) / n) if n else 0.0 for n in n_with]
    wholes = [whole for whole in wholes_of(query) if len(words_of(whole)) > 1]
    matches: list[Match] = []
    for index, row in enumerate(counts):
        score = sum(weight * (1 + n / (n + 2)) for weight, n in zip(weights, row, strict=True) if n)
        if not score:
            continue
        rarest = max((k for k, n in enumerate(row) if n), key=weights.__getitem__)
        at, text = lowered[index].find(words[rarest]), lowered[index]
        for whole in wholes:
            if (found := text.find(whole)) >= 0:
                at = found
                own = (weight for word, weight in zip(words, weights, strict=True) if word in whole)
                score += 2 * sum(own) * WHOLE_CHARS / (WHOLE_CHARS + len(text))
        matches.append(Match(index, score, texts[index], at))
    newest = {match.text: match for match in matches}
    return sorted(newest.values(), key=lambda match: (-match.score, -match.index))[:limit]


RECALL = TypedTool(
    name="recall",
    description=(
        "Search the summarised part of this conversation for words and show it verbatim, outputs included. "
        "Use it before you repeat work or ask again."
    ),
    kind="search",
    effects=SEARCHES,
    arguments=RecallArguments,
    describe=lambda arguments: f"Recall {arguments.query or arguments.entry}",
    perform=recall,
)
