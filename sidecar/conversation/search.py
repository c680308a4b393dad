"""Finding entries again by words: the rarest words of a query count most, newer entries come before older.

    score = sum over the words of the query of  log(1 + n / n_with) * (1 + share)

``n`` entries were searched, ``n_with`` of them hold the word, and ``share`` grows from 0 to 1 with how often
the entry holds it. A word is found inside longer ones too ("port" in "import"), as names are made of words.
Of scripts without blanks each pair of characters counts as a word.

A part of the query that is joined of several words, such as a path or an identifier, counts once more where
it stands whole: as much as all of its words together, in an entry of two thousand characters half of that. So
an entry that says it comes before a listing that has it among others, and before entries with parts of it.

Cost: one pass over the text of the entries, for a thread.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from sidecar._internal.values import Value
from sidecar.conversation.history import Entry
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock

MAX_WORDS = 32
WHOLE_CHARS = 2_000
"""In an entry of so many characters a whole match counts half."""

_WORD = re.compile(r"[^\W_]+")
_WITHOUT_BLANKS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


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
        if _WITHOUT_BLANKS.search(word) and len(word) > 2:
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
                parts.append(f"{name} {json.dumps(given, ensure_ascii=False, default=str)}")
            case ToolResultBlock(output=output):
                shown = (
                    output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
                )
                parts.append(shown)
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
    matches.sort(key=lambda match: (-match.score, -match.index))
    return matches[:limit]
