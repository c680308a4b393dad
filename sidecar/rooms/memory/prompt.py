"""The summariser's prompts: a line for each event, whole, in as many chunks as its window needs.

Pure text. Nothing is left out of an event here: a body that is longer than a chunk goes on in the next one.
Each chunk is sent together with the summary of the chunks before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sidecar._internal.values import Value
from sidecar.rooms.ai import AIContext, AIMessage
from sidecar.rooms.events import EventContent, Participant, RoomEvent, is_from_ai, plain_text
from sidecar.rooms.memory.budget import truncate_text

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
SMALLEST_CHUNK_BYTES = 64
# A line inside a body that looks like the start of another event's line.
_FORGED_LINE = re.compile(r"(?m)^(?=\[(?:user|assistant)\]: )")


class PromptLine(Value):
    """One entry of the prompt: its *text*, and the *label* repeated in every chunk it runs through."""

    label: str
    text: str


class PromptChunk(Value):
    """The lines of one prompt. After it, the first *n_lines_done* of all lines have been shown whole."""

    text: str
    n_lines_done: int


class PromptBudget(Value):
    """The shares of the summariser's window: two sizes in UTF-8 bytes, and the answer in tokens."""

    chunk_bytes: int
    prior_bytes: int
    answer_tokens: int


def prompt_budget(context_window: int | None, answer_tokens: int) -> PromptBudget:
    """Share out a window of *context_window* tokens; an unknown one is taken for 100,000.

    A token is counted as three UTF-8 bytes, which is careful with prose, right for code, and not too little
    for scripts in which each character is a token. A prior summary may take a quarter of the window.

    >>> prompt_budget(10_000, 1000).answer_tokens, prompt_budget(2000, 1000).answer_tokens
    (1000, 500)
    """
    window = UNKNOWN_WINDOW_TOKENS if context_window is None else context_window
    answer = max(1, min(answer_tokens, window // 4))
    prior = window // 4 * BYTES_PER_TOKEN
    frame = len("\n".join((SYSTEM_PROMPT, INSTRUCTION, PRIOR_LABEL, LINES_LABEL))) + 16
    chunk = (window - answer) * BYTES_PER_TOKEN - prior - frame
    return PromptBudget(max(SMALLEST_CHUNK_BYTES, chunk), prior, answer)


def speaker_names(events: Iterable[RoomEvent], participants: Iterable[Participant]) -> Mapping[str, str]:
    """Return a name for each event id, where speakers must be told apart.

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


def event_line(event: RoomEvent, content: EventContent, speaker: str | None) -> PromptLine:
    """Return the line of one event.

    A line in the body that begins like another event's is indented, so that nobody speaks for another.

    Args:
        event: the event.
        content: its own content, or the content of an edit of it.
        speaker: the name of the speaker, where it must be given.

    >>> from sidecar.rooms import EventSource, TextContent
    >>> event = RoomEvent(room_id="r", source=EventSource("c", "ai"), content=TextContent("hi"))
    >>> event_line(event, event.content, None)
    PromptLine(label='[assistant]: ', text='hi')
    """
    role = "assistant" if is_from_ai(event) else "user"
    label = f"[{role}]: ({speaker}) " if speaker else f"[{role}]: "
    return PromptLine(label, _FORGED_LINE.sub(" ", plain_text(content)))


def chunk_lines(lines: Sequence[PromptLine], chunk_bytes: int) -> list[PromptChunk]:
    """Share *lines* out over chunks of at most *chunk_bytes*, in order and without loss.

    A line that does not fit into the rest of a chunk begins a new one; a line that is longer than a whole
    chunk is divided at a space where there is one near.

    >>> chunks = chunk_lines([PromptLine("[user]: ", "one two"), PromptLine("[user]: ", "three")], 24)
    >>> [chunk.text for chunk in chunks]
    ['[user]: one two', '[user]: three']
    """
    chunks: list[PromptChunk] = []
    held: list[str] = []
    held_bytes = 0
    for index, line in enumerate(lines):
        for part in divide_line(line, chunk_bytes):
            size = byte_length(part) + 1
            if held and held_bytes + size > chunk_bytes:
                chunks.append(PromptChunk("\n".join(held), index))
                held, held_bytes = [], 0
            held.append(part)
            held_bytes += size
    if held:
        chunks.append(PromptChunk("\n".join(held), len(lines)))
    return chunks


def divide_line(line: PromptLine, chunk_bytes: int) -> list[str]:
    """Return *line* as parts of at most *chunk_bytes* beside a line end, each under the line's label."""
    room = max(1, chunk_bytes - byte_length(line.label) - 1)
    parts: list[str] = []
    start = 0
    while True:
        end = start + _chars_in_bytes(line.text[start : start + room], room)
        if end >= len(line.text):
            return [*parts, line.label + line.text[start:]]
        space = max(line.text.rfind(mark, start + (end - start) // 2, end) for mark in " \n")
        end = space + 1 if space > 0 else end
        parts.append(line.label + line.text[start:end])
        start = end


def summariser_context(chunk: str, prior: str | None, budget: PromptBudget) -> AIContext:
    """Return the request for a summary of *chunk*.

    Args:
        chunk: the lines to be summarised.
        prior: the summary of everything before them, or None.
        budget: the shares of the summariser's window.

    >>> request = summariser_context("[user]: hi", None, prompt_budget(None, 1000))
    >>> len(request.messages), request.temperature, request.max_tokens
    (1, 0.0, 1000)
    """
    parts = [INSTRUCTION]
    if prior is not None:
        parts.append(f"{PRIOR_LABEL}\n{truncate_text(prior, _chars_in_bytes(prior, budget.prior_bytes))}")
    parts.append(f"{LINES_LABEL}\n{chunk}")
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


def _chars_in_bytes(text: str, limit: int) -> int:
    """Return how many of the first characters of *text* fit *limit* bytes, at least one."""
    n_chars = max(1, min(len(text), limit))
    while n_chars > 1 and (size := byte_length(text[:n_chars])) > limit:
        n_chars = max(1, n_chars * limit // size)
    return n_chars
