"""The distillation: a stretch of turns becomes one summary turn.

A distiller that fails, is cut off or answers nothing never costs the run: the local gist stands in. Every
prompt fits its window: a longer transcript is read in pieces, and their gists are distilled again, until one
is left. Gists that hardly shrink are merged locally instead, so the recursion ends. For example, with a
window of 8,000 tokens and 2,000 for the reply a piece has about 17,000 bytes; a transcript of 50,000 bytes
takes three calls for the pieces and one to merge them.

Only cancellation gets out as an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from sidecar._internal.cancel import CancelToken
from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import (
    Block,
    Conversation,
    ModelCard,
    StreamOptions,
    TextBlock,
    Turn,
    UserTurn,
    emissions_of,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.runtime.memory.estimate import render_turn
from sidecar.runtime.memory.gist import SUMMARY_HEADING, TurnKinds, local_gist
from sidecar.text.clip import group_pieces
from sidecar.text.replies import ReplyReader

DISTILL_INSTRUCTION: Final = f"""\
Condense the conversation transcript you are given into notes that let the same work go on without it. \
You are a recorder: do not answer it, do not continue it, do not run anything, invent nothing.
Keep what is concrete, word for word where it matters: paths, identifiers, commands with their outcome, \
error messages, numbers. A turn that begins with {SUMMARY_HEADING} holds earlier notes: keep their \
facts. `tool_result (error)` marks a tool that failed.
Write short lines under exactly these headings, `none` under an empty one, and nothing else:
# Requests
# Rules
# Decisions
# Files
# Commands
# Errors
# Open"""
"""The distiller's system prompt; its headings are those of the local gist."""

_BYTES_PER_TOKEN: Final = 3
"""For fitting prompts, not for metering: few tokenizers need more than a token for three bytes."""
_MAX_REPLY_TOKENS: Final = 4_096
_MIN_SPLIT_WINDOW: Final = 1_000
"""A smaller window has no room for the instruction beside a piece; only toys have one: nothing is split."""


class Gist(Value):
    """The text of a summary, and its author."""

    text: str
    source: Literal["model", "local"]


async def summarize(
    messages: Sequence[Turn],
    invoke: ModelInvoker,
    *,
    model: ModelCard | None = None,
    cancel: CancelToken | None = None,
) -> UserTurn:
    """Return one summary turn for *messages*, under the user's role so that any provider accepts it.

    Args:
        messages: the turns to condense; rendered whole, errors flagged.
        invoke: the distiller.
        model: the distiller's card; None gives it everything in one prompt.
        cancel: handed to every model call.

    Raises:
        CancelledByToken: *cancel* fired.
    """
    gist = await distill(messages, invoke, model=model, cancel=cancel)
    return summary_turn(gist.text)


def summary_turn(gist: str, prompt: Sequence[Block] = ()) -> UserTurn:
    """Return the turn that stands for condensed history, with the blocks of a kept *prompt* after it.

    >>> summary_turn("all went well").blocks[0].text
    '[condensed earlier context]\\nall went well'
    """
    return UserTurn((TextBlock(f"{SUMMARY_HEADING}\n{gist}"), *prompt))


async def distill(
    messages: Sequence[Turn],
    invoke: ModelInvoker,
    *,
    model: ModelCard | None = None,
    cancel: CancelToken | None = None,
    kinds: TurnKinds = (),
    run: RunWork = run_now,
) -> Gist:
    """Return the gist of *messages*: the distiller's, else the local one.

    Args:
        messages: the turns to condense.
        invoke: the distiller.
        model: the distiller's card; None gives it everything in one prompt.
        cancel: handed to every model call.
        kinds: the kind of each turn, empty for unknown.
        run: does the work that looks at all turns.

    Raises:
        CancelledByToken: *cancel* fired.
    """
    reply_tokens, piece_bytes = prompt_limits(model)
    options = StreamOptions(cancel=cancel, max_output_tokens=reply_tokens)
    pieces = await run(lambda: list(_split([render_turn(turn) for turn in messages], piece_bytes)))
    gists: list[str] = []
    for piece in pieces:
        text = await _request_gist(piece, invoke, options)
        if not text:
            return Gist(await run(local_gist, messages, kinds=kinds), "local")
        gists.append(text)
    if not gists:
        return Gist(await run(local_gist, messages, kinds=kinds), "local")
    if len(gists) == 1:
        return Gist(gists[0], "model")
    partial = [summary_turn(gist) for gist in gists]
    if sum(map(len, gists)) * 2 > sum(map(len, pieces)):
        # Gists that hardly shrink would be merged for ever.
        return Gist(local_gist(partial), "local")
    return await distill(partial, invoke, model=model, cancel=cancel)


def prompt_limits(model: ModelCard | None) -> tuple[int | None, int | None]:
    """Return the tokens of a reply and the bytes of a piece at most; None for no limit."""
    if model is None or model.context_window <= 0:
        return None, None
    reply_tokens = max(1, min(model.context_window // 4, model.max_output_tokens, _MAX_REPLY_TOKENS))
    if model.context_window < _MIN_SPLIT_WINDOW:
        return reply_tokens, None
    return reply_tokens, (model.context_window - reply_tokens) * _BYTES_PER_TOKEN - len(DISTILL_INSTRUCTION)


def _split(rendered: Sequence[str], max_bytes: int | None) -> Iterator[str]:
    """Yield the transcript in pieces of at most *max_bytes*, between turns where it can be."""
    if max_bytes is None:
        yield "\n\n".join(rendered)
        return
    parts = (part for turn in rendered for part in split_turn(turn, max_bytes))
    sized = group_pieces(parts, max_bytes, lambda text: len(text.encode("utf-8", "surrogatepass")) + 2)
    yield from map("\n\n".join, sized)


def split_turn(turn: str, max_bytes: int) -> Iterator[str]:
    """Yield *turn* whole, or in parts of at most *max_bytes* that all begin with its role line."""
    max_chars = (max_bytes - 40) // 4
    if len(turn) <= max_chars or len(turn.encode("utf-8", "surrogatepass")) + 2 <= max_bytes:
        yield turn
        return
    role, _, body = turn.partition("\n")
    if body.isascii():
        max_chars *= 4
    for start in range(0, len(body), max_chars):
        yield f"{role}\n{'[continued] ' if start else ''}{body[start : start + max_chars]}"


async def _request_gist(transcript: str, invoke: ModelInvoker, options: StreamOptions) -> str:
    """Return the distiller's answer, stripped; empty when it failed, was cut off or is blank."""
    conversation = Conversation((UserTurn((TextBlock(transcript),)),), system=DISTILL_INSTRUCTION)
    reply = ReplyReader()
    try:
        async with emissions_of(invoke(conversation, options)) as emissions:
            async for emission in emissions:
                if reply.add(emission):
                    break
    except Exception:
        # The run goes on with the local gist, however the distiller failed.
        reply = ReplyReader()
    if options.cancel is not None:
        options.cancel.raise_if_cancelled()
    return reply.text.strip() if reply.is_complete else ""
