"""The digest of messages: by a model, or without one.

Without a model it has a heading, the number of messages, and the digests that were carried from before.

A model gets one request, or several where the material exceeds its window. It never breaks a compaction:
without one, or when it fails, refuses, is cut off, answers with nothing or is cancelled, the result is a
:class:`ModelDigest` that says so, and the caller uses the local digest instead.

Material larger than one prompt is divided into chunks of flattened text. Each chunk shows the original
bodies, and its prompt carries the digest of the chunks before it, so the last answer covers all of them. With
a window of 200,000 tokens and 8,000 for the answer, a prompt has 0.8 x 192,000 tokens, of which a quarter is
left to the carried digest; at 3.6 bytes a token a chunk holds about 410 KB. One failed chunk fails the whole.

Where the provider has the conversation in its cache, the digest is requested behind it instead, as one more
turn: then all but that turn costs a tenth.

This module awaits nothing but the model call that the caller passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    ModelCard,
    StopReason,
    StreamOptions,
    TextBlock,
    ThinkingLevel,
    UserTurn,
    emissions_of,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.text.clip import cut_end, group_pieces, split_bytes
from sidecar.text.replies import ReplyReader
from sidecar.window_budget.contract import CachedRequest, CondenseScope, FallbackReason
from sidecar.window_budget.estimate import (
    BLOCK_FRAMING_TOKENS,
    MESSAGE_FRAMING_TOKENS,
    chars_in,
    tokens_of_chars,
)
from sidecar.window_budget.message import DIGEST_HEADER, Message, branch_text, digest_text
from sidecar.window_budget.prompt import (
    CONDENSER_BRIEF,
    SECTION_TEMPLATE,
    assemble_prompt,
    flatten_message,
)

WINDOW_SHARE = 0.8
"""How much of the window a prompt takes at most: the estimate is a heuristic."""

OUTPUT_SHARE = 0.25
"""How much of the window is left to the answer at most, whatever the card says its limit is."""

CARRIED_SHARE = 0.25
"""How much of a prompt the carried digest takes at most."""

FRAME_TOKENS = tokens_of_chars(len(CONDENSER_BRIEF) + len(SECTION_TEMPLATE) + 400)
"""Brief, headings, framing line, tags."""

MIN_CHUNK_BYTES = 512

THINKING: ThinkingLevel | None = "high"
"""The level of a call that stands alone; one that follows a conversation has that one's."""

_UNUSABLE: dict[StopReason, FallbackReason] = {
    "max_output": "truncated",
    "refusal": "refused",
    "aborted": "cancelled",
    "error": "modelError",
}
"""Stops after which a reply is no digest, however much text came."""


CARRYOVER = "# Carryover"
CUT_MARKER = "[... {} characters cut ...]"


class SummarizeDeps(Value):
    """The model call of a summary and its options, all optional.

    *invoke* is the model call, None for none. *prior_digest* is the digest carried from before; left out, the
    newest digest among the messages is carried. *max_tokens* caps the model's output.
    """

    invoke: ModelInvoker | None = None
    scope: CondenseScope = CondenseScope.SESSION
    prior_digest: str | None = None
    cancel: CancelToken | None = None
    max_tokens: int | None = None


class ModelDigest(Value):
    """A model's answer to a prompt: *text*, or in *failure* why there is none to use."""

    text: str = ""
    failure: FallbackReason | None = None


def local_fallback_digest(
    messages: Sequence[Message], prior_digest: str | None = None, max_tokens: int | None = None
) -> str:
    """Return a digest of *messages*, made without a model.

    Args:
        messages: the messages to condense. Digests among them are carried.
        prior_digest: the digest carried from before, or None.
        max_tokens: the size of the digest as a message, in tokens; the end of a carried one is cut beyond
            it. None for any size.

    Returns:
        Text under ``# Carryover``; its first line starts with the number of messages.

    >>> from sidecar.window_budget.message import UserMessage
    >>> print(local_fallback_digest([UserMessage("Fix the parser.")], "# Plan\\nship it"))
    # Carryover
    1 earlier message condensed without a model.
    <BLANKLINE>
    # Plan
    ship it
    """
    plural = "" if len(messages) == 1 else "s"
    head = f"{CARRYOVER}\n{len(messages)} earlier message{plural} condensed without a model."
    found = (digest_text(each) or branch_text(each) for each in messages)
    carried = "\n\n".join(text for each in (prior_digest, *found) if (text := (each or "").strip()))
    if carried and max_tokens is not None:
        framing = MESSAGE_FRAMING_TOKENS + BLOCK_FRAMING_TOKENS
        most = chars_in(max_tokens - framing) - len(DIGEST_HEADER) - len(head) - len(CUT_MARKER) - 12
        carried = cut_end(carried, most, CUT_MARKER) if most > 0 else ""
    return f"{head}\n\n{carried}" if carried else head


async def request_digest(
    prompt: str, deps: SummarizeDeps, cached: CachedRequest | None = None
) -> ModelDigest:
    """Return the answer of the model of *deps* to *prompt*, or why it has no usable answer.

    With *cached* the prompt is one more turn of that conversation, with the options of its calls, so that the
    provider reads everything else from its cache. Tool calls in the answer are ignored.

    An exception of the invoker or its channel counts as a failed call, and so does a cancellation that they
    raise by themselves; only that of the present task passes through.
    """
    if deps.invoke is None:
        return ModelDigest(failure="noModel")
    if deps.cancel is not None and deps.cancel.cancelled:
        return ModelDigest(failure="cancelled")
    turn = UserTurn((TextBlock(prompt),))
    if cached is None:
        conversation, thinking = Conversation((turn,), system=CONDENSER_BRIEF), THINKING
    else:
        known, thinking = cached.conversation, cached.thinking
        conversation = replace(known, turns=(*known.turns, turn))
    options = StreamOptions(cancel=deps.cancel, thinking=thinking, max_output_tokens=deps.max_tokens)
    try:
        return await _read_reply(deps.invoke(conversation, options), deps.cancel)
    except BaseException as error:
        from sidecar._internal.async_cancel import comes_from_within  # not above: it loads asyncio

        if not isinstance(error, Exception) and not comes_from_within(error):
            raise
        # The seam's contract: what a model call raises is a failed call. The digest says so in its source.
        return ModelDigest(failure="modelError")


async def request_digest_in_chunks(
    chunks: Sequence[Sequence[str]],
    prior: str | None,
    deps: SummarizeDeps,
    *,
    carried_chars: int | None = None,
    instructions: str | None = None,
) -> ModelDigest:
    """Return the model's digest of *chunks*, requested one after the other.

    Args:
        chunks: flattened transcript, oldest first, each a list of lines; at least one.
        prior: the digest carried into the first chunk.
        deps: the model call; its own ``prior_digest`` is not used here.
        carried_chars: the size a carried digest is cut to, None for any.
        instructions: the user's wishes for the digest.
    """
    digest = ModelDigest(prior or "")
    for chunk in chunks:
        digest = await request_digest(
            build_chunk_prompt(chunk, digest.text, carried_chars, instructions), deps
        )
        if digest.failure is not None:
            return digest
    return digest


def build_chunk_prompt(
    chunk: Sequence[str], carried: str, carried_chars: int | None = None, instructions: str | None = None
) -> str:
    """Return the prompt that requests a digest of one chunk.

    Args:
        chunk: flattened transcript, as lines.
        carried: the digest of everything before the chunk.
        carried_chars: the size *carried* is cut to, None for any.
        instructions: the user's wishes for the digest.
    """
    if carried_chars is not None:
        carried = cut_end(carried, carried_chars, CUT_MARKER)
    return assemble_prompt(chunk, CondenseScope.SESSION, carried, instructions)


def chunk_limits(card: ModelCard | None, instructions: str | None = None) -> tuple[int | None, int | None]:
    """Return how many bytes of transcript, and characters of carried digest, one prompt to *card* holds.

    Bytes rather than characters, so that a script of three bytes a character is not counted as Latin prose.
    Both are None without a card: nothing is known of the window.
    """
    if card is None:
        return None, None
    output = min(card.max_output_tokens, int(card.context_window * OUTPUT_SHARE))
    frame = FRAME_TOKENS + tokens_of_chars(len(instructions or ""))
    prompt = int((card.context_window - output) * WINDOW_SHARE) - frame
    carried = chars_in(int(prompt * CARRIED_SHARE))
    return max(MIN_CHUNK_BYTES, chars_in(prompt) - carried), max(MIN_CHUNK_BYTES, carried)


def split_into_chunks(messages: Iterable[Message], max_bytes: int | None) -> Iterator[Sequence[str]]:
    """Yield *messages* as flattened lines, in chunks.

    Args:
        messages: the messages, in order.
        max_bytes: the size of a chunk in UTF-8 bytes, None for one chunk of any size. A single message that
            is larger is itself divided.
    """
    lines = filter(None, map(flatten_message, messages))
    if max_bytes is None:
        yield from filter(None, [[*lines]])
        return
    parts = chain.from_iterable(
        split_bytes(line, max_bytes) if count_bytes(line) > max_bytes else (line,) for line in lines
    )
    yield from group_pieces(parts, max_bytes, count_bytes)


def count_bytes(line: str) -> int:
    """Return the bytes of *line* in UTF-8, with the line end behind it."""
    return 1 + (len(line) if line.isascii() else len(line.encode("utf-8", "surrogatepass")))


async def _read_reply(channel: Channel, cancel: CancelToken | None) -> ModelDigest:
    """Return the text of *channel* as a digest; where a done reply has none, the deltas are the text."""
    reply = ReplyReader()
    async with emissions_of(channel) as emissions:
        async for emission in emissions:
            if cancel is not None and cancel.cancelled:
                return ModelDigest(failure="cancelled")
            if reply.add(emission):
                break
        else:
            if cancel is not None and cancel.cancelled:
                return ModelDigest(failure="cancelled")
    if failure := "modelError" if reply.error is not None else _UNUSABLE.get(reply.stop):
        return ModelDigest(failure=failure)
    text = (reply.text or "".join(reply.deltas)).strip()
    return ModelDigest(text) if text else ModelDigest(failure="emptyReply")
