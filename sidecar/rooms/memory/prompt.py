"""What the summariser is asked: a line an event, whole, in as many pieces as its window needs (facts K7, K9).

Pure text. Nothing is left out of an event here (failure B-K6): a body that is longer than a piece goes on in
the next one. Each piece is asked about together with the summary of the pieces before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.rooms.ai import AIContext, AIMessage
from sidecar.rooms.content import EventContent, plain_text
from sidecar.rooms.events import RoomEvent, is_from_ai
from sidecar.rooms.memory.budget import truncate_text
from sidecar.rooms.room import Participant

__all__ = [
    "Line",
    "Piece",
    "PromptBudget",
    "byte_length",
    "event_line",
    "prompt_budget",
    "speaker_names",
    "summariser_context",
    "to_pieces",
]

SYSTEM_PROMPT = (
    "You keep the notes of a conversation, for a colleague who continues it without having read it."
)
INSTRUCTION = (
    "Write the notes of the conversation below. Keep what the colleague cannot do without: goals and open "
    "requests, rules that were agreed, decisions with their reasons, results, errors, names, numbers, paths, "
    "and who said what. Where a later line corrects an earlier one, keep the correction. Answer with the "
    "notes alone."
)
PRIOR_LABEL = "Notes on what came before; carry over all that still holds:"
LINES_LABEL = "Conversation:"

UNKNOWN_WINDOW_TOKENS = 100_000
BYTES_PER_TOKEN = 3
SMALLEST_PIECE_BYTES = 64
# A line inside a body that looks like the start of another event's line.
_FORGED_LINE = re.compile(r"(?m)^(?=\[(?:user|assistant)\]: )")


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the prompt: its *text*, and the *label* repeated in every piece it runs through."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One prompt's worth of lines. After it, the first *n_lines_done* of all lines have been shown whole."""

    text: str
    n_lines_done: int


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """How the summariser's window is shared out: two sizes in UTF-8 bytes, and the answer in tokens."""

    piece_bytes: int
    prior_bytes: int
    answer_tokens: int


def prompt_budget(context_window: int | None, answer_tokens: int) -> PromptBudget:
    """Share out a window of *context_window* tokens; an unknown one is taken for 100,000.

    A token is counted as three UTF-8 bytes, which is careful with prose, right for code, and not too little
    for scripts whose characters are tokens. Prior notes may take a quarter of the window.

    >>> prompt_budget(10_000, 1000).answer_tokens, prompt_budget(2000, 1000).answer_tokens
    (1000, 500)
    """
    window = UNKNOWN_WINDOW_TOKENS if context_window is None else context_window
    answer = max(1, min(answer_tokens, window // 4))
    prior = window // 4 * BYTES_PER_TOKEN
    frame = len("\n".join((SYSTEM_PROMPT, INSTRUCTION, PRIOR_LABEL, LINES_LABEL))) + 16
    piece = (window - answer) * BYTES_PER_TOKEN - prior - frame
    return PromptBudget(max(SMALLEST_PIECE_BYTES, piece), prior, answer)


def speaker_names(events: Iterable[RoomEvent], participants: Iterable[Participant]) -> Mapping[str, str]:
    """Return a name for each event id whose speaker must be told from others (failure B-K11).

    Where one person talks with one assistant, ``user`` and ``assistant`` say it all and nothing is returned.

    >>> speaker_names([], [])
    {}
    """
    known = list(events)
    names = {each.id: each.display_name for each in participants if each.display_name}
    people = {e.source.participant_id for e in known if not is_from_ai(e)} - {None}
    channels = {e.source.channel_id for e in known if is_from_ai(e)}
    labels: dict[str, str] = {}
    for event in known:
        speaker = event.source.channel_id if is_from_ai(event) else event.source.participant_id
        if speaker and len(channels if is_from_ai(event) else people) > 1:
            labels[event.id] = " ".join(names.get(speaker, speaker).split())
    return labels


def event_line(event: RoomEvent, content: EventContent, speaker: str | None) -> Line:
    """Return the line of *event*, which says *content* (its own, or what an edit made of it).

    A line in the body that begins like another event's is indented, so that nobody speaks for another.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> said = RoomEvent(room_id="r", source=EventSource("c", "ai"), content=TextContent("hi"))
    >>> event_line(said, said.content, None)
    Line(label='[assistant]: ', text='hi')
    """
    role = "assistant" if is_from_ai(event) else "user"
    label = f"[{role}]: ({speaker}) " if speaker else f"[{role}]: "
    return Line(label, _FORGED_LINE.sub(" ", plain_text(content)))


def to_pieces(lines: Sequence[Line], piece_bytes: int) -> list[Piece]:
    """Share *lines* out over pieces of at most *piece_bytes*, in order and without loss.

    A line that does not fit into what is left of a piece begins a new one; a line that is longer than a whole
    piece is divided at a space where there is one near.

    >>> [piece.text for piece in to_pieces([Line("[user]: ", "one two"), Line("[user]: ", "three")], 24)]
    ['[user]: one two', '[user]: three']
    """
    pieces: list[Piece] = []
    held: list[str] = []
    held_bytes = 0
    for index, line in enumerate(lines):
        for part in _divided(line, piece_bytes):
            size = byte_length(part) + 1
            if held and held_bytes + size > piece_bytes:
                pieces.append(Piece("\n".join(held), index))
                held, held_bytes = [], 0
            held.append(part)
            held_bytes += size
    if held:
        pieces.append(Piece("\n".join(held), len(lines)))
    return pieces


def summariser_context(piece: str, prior: str | None, budget: PromptBudget) -> AIContext:
    """Return the request for the notes on *piece*, *prior* being the notes so far.

    >>> request = summariser_context("[user]: hi", None, prompt_budget(None, 1000))
    >>> len(request.messages), request.temperature, request.max_tokens
    (1, 0.0, 1000)
    """
    parts = [INSTRUCTION]
    if prior is not None:
        parts.append(f"{PRIOR_LABEL}\n{truncate_text(prior, _fitting_chars(prior, budget.prior_bytes))}")
    parts.append(f"{LINES_LABEL}\n{piece}")
    return AIContext(
        messages=[AIMessage(role="user", content="\n\n".join(parts))],
        system_prompt=SYSTEM_PROMPT,
        temperature=0.0,
        max_tokens=budget.answer_tokens,
    )


def byte_length(text: str) -> int:
    """Return the length of *text* in UTF-8.

    >>> byte_length("naïve")
    6
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _divided(line: Line, piece_bytes: int) -> list[str]:
    room = max(1, piece_bytes - byte_length(line.label) - 1)
    parts: list[str] = []
    start = 0
    while True:
        end = start + _fitting_chars(line.text[start : start + room], room)
        if end >= len(line.text):
            return [*parts, line.label + line.text[start:]]
        space = max(line.text.rfind(mark, start + (end - start) // 2, end) for mark in " \n")
        end = space + 1 if space > 0 else end
        parts.append(line.label + line.text[start:end])
        start = end


def _fitting_chars(text: str, limit: int) -> int:
    """Return how many of the first characters of *text* fit *limit* bytes, at least one."""
    n_chars = max(1, min(len(text), limit))
    while n_chars > 1 and (size := byte_length(text[:n_chars])) > limit:
        n_chars = max(1, n_chars * limit // size)
    return n_chars
