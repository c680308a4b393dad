"""The window budget on a live session: turns as its messages, and the model call that it may not time.

Turns become messages and come back without loss. Every tool result becomes a message of its own and every
digest a summary. So the promises of the engine about pairs, stale results, restored files and carried digests
hold on the live path. The entries of a conversation know their kind, and their text is never searched for it.
Bare turns, of an imported conversation for instance, are recognised by their first words.

A transcript goes through plan, digest and result. A model call that fails or hangs in any way ends in the
local digest; a cancelled compaction leaves the transcript as it was. The rules are in
``sidecar.window_budget``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, Protocol, assert_never

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.conductor.engine import EngineDeps
from sidecar.conversation import Entry, EntryKind, History
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.runtime.memory import SUMMARY_HEADING
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    BRANCH_HEADER,
    DIGEST_HEADER,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    BudgetPlan,
    BudgetRequest,
    BudgetResult,
    CompactionSummaryMessage,
    CondenserDeps,
    Content,
    CustomMessage,
    DigestMaterial,
    Message,
    ModelDigest,
    RehydrateOpts,
    SummarizeDeps,
    ToolResultMessage,
    Transcript,
    UserMessage,
    apply_plan,
    apply_without_digest,
    digest_material,
    estimate_tokens,
    keep_unchanged,
    plan_compaction,
    preview_prompt,
    rehydrate_recent_reads,
    request_plan_digest,
    text_of,
)
from sidecar.window_budget.contract import PreparedDigest
from sidecar.window_budget.message import UserKind, blocks_of

__all__ = [
    "CondenseFn",
    "CondenseOpts",
    "IdentityCondense",
    "WindowBudgetCondense",
    "compact_messages",
    "condense_transcript",
    "content_to_blocks",
    "extend_transcript",
    "messages_to_turns",
    "preview_prompt",
    "restore_under_count_guard",
    "turns_to_messages",
]

TOOL_TURN = "toolTurn"
"""The custom type under which a tool turn travels that is not simply a list of results."""

_DIGEST_STAMPS = (DIGEST_HEADER, SUMMARY_HEADING)

_USER_KINDS: Mapping[EntryKind, UserKind] = {
    "user": "prompt",
    "summary": "digest",
    "file": "file",
    "note": "file",
}
_SHELL: Final = re.compile(r"\$ ([^\n]*)\n(.*)\n\[exit (n/a|-?\d{1,9})\]", re.DOTALL)


def turns_to_messages(turns: Iterable[Turn]) -> tuple[Message, ...]:
    """Return *turns* as messages.

    A tool turn becomes one :class:`ToolResultMessage` per result, named after the call it answers; images
    behind the results go with the last of them. A user turn that is a digest becomes a summary message. An
    output that is not text keeps its type inside a result block.

    >>> turns_to_messages([UserTurn((TextBlock("hi"),))])
    (UserMessage(content=(TextBlock(text='hi'),), timestamp=0),)
    """
    return tuple(_messages([(turn, None) for turn in turns], {}, follows_tools=False))


def entries_to_messages(entries: Iterable[Entry]) -> tuple[Message, ...]:
    """Return *entries* as messages that know their kind; results are named after the calls among them.

    >>> entries_to_messages([Entry(UserTurn((TextBlock("hi"),)), "user")])[0].kind
    'prompt'
    """
    return tuple(_messages([(entry.turn, entry.kind) for entry in entries], {}, follows_tools=False))


def extend_transcript(transcript: Transcript, entry: Entry, in_view: bool = True) -> Transcript:
    """Return *transcript* with *entry* behind it, its results named after the calls in *transcript*.

    It is the step of an index, and costs only the new entry.
    """
    names = dict[str, str]()
    for block in entry.turn.blocks:
        if isinstance(block, ToolResultBlock) and (call := transcript.find_call(block.call_id)):
            names[block.call_id] = call.name
    last = transcript[-1] if transcript else None
    is_tool_turn = isinstance(last, CustomMessage) and last.custom_type == TOOL_TURN
    follows_tools = is_tool_turn or isinstance(last, ToolResultMessage)
    return transcript.extend(_messages([(entry.turn, entry.kind)], names, follows_tools=follows_tools))


def turn_starts(turns: Iterable[Turn]) -> tuple[int, ...]:
    """Return the index of the first message of each turn, and behind them the number of messages.

    >>> results = ToolTurn((ToolResultBlock("1", ""), ToolResultBlock("2", "")))
    >>> turn_starts([UserTurn(()), results, UserTurn(())])
    (0, 1, 3, 4)
    """
    starts, follows_tools = [0], False
    for turn in turns:
        is_tool = isinstance(turn, ToolTurn)
        n_results = count_results(turn.blocks) if is_tool and not follows_tools else 0
        starts.append(starts[-1] + (n_results or 1))
        follows_tools = is_tool
    return tuple(starts)


def find_turn(turns: Sequence[Turn], message_index: int, n_messages: int) -> int:
    """Return the index of the first turn that begins at or behind a message; costs only the turns behind it.

    Args:
        turns: the turns.
        message_index: the index of the message.
        n_messages: the number of messages of all turns.

    >>> results = ToolTurn((ToolResultBlock("1", ""), ToolResultBlock("2", "")))
    >>> [find_turn([UserTurn(()), results, UserTurn(())], index, 4) for index in range(5)]
    [0, 1, 2, 2, 3]
    """
    at, start = len(turns), n_messages
    while at:
        turn, follows_tools = turns[at - 1], at > 1 and isinstance(turns[at - 2], ToolTurn)
        n_results = count_results(turn.blocks) if isinstance(turn, ToolTurn) and not follows_tools else 0
        start -= n_results or 1
        if start < message_index:
            break
        at -= 1
    return at


def messages_to_turns(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """Return *messages* as turns; results that follow each other share one tool turn.

    >>> messages_to_turns([CompactionSummaryMessage("# Plan", 900)])[0].blocks[0].text
    '[session digest — older turns condensed]\\n\\n# Plan'
    """
    turns: list[Turn] = []
    for is_results, group in groupby(messages, lambda message: isinstance(message, ToolResultMessage)):
        if is_results:
            turns.append(_tool_turn([item for item in group if isinstance(item, ToolResultMessage)]))
        else:
            turns += map(_turn, group)
    return tuple(turns)


def content_to_blocks(content: Content) -> tuple[Block, ...]:
    """Return *content* as blocks; bare text becomes one text block.

    >>> content_to_blocks("hi")
    (TextBlock(text='hi'),)
    """
    return blocks_of(content)


def _messages(
    turns: Iterable[tuple[Turn, EntryKind | None]], names: dict[str, str], *, follows_tools: bool
) -> Iterator[Message]:
    for turn, kind in turns:
        match turn:
            case UserTurn():
                yield _user_message(turn, kind)
            case AssistantTurn(blocks=blocks):
                names.update((block.id, block.name) for block in blocks if isinstance(block, ToolCallBlock))
                yield AssistantMessage(blocks)
            case ToolTurn(blocks=blocks):
                yield from _tool_messages(blocks, names, follows_tools=follows_tools)
            case _:
                assert_never(turn)
        follows_tools = isinstance(turn, ToolTurn)


def _user_message(turn: UserTurn, kind: EntryKind | None) -> Message:
    """Return a turn under the user's role; its text decides where *kind* is not known, or is a summary."""
    text = turn.blocks[0].text if len(turn.blocks) == 1 and isinstance(turn.blocks[0], TextBlock) else ""
    if kind == "shell" and (found := _SHELL.fullmatch(text)) is not None:
        command, output, code = found.groups()
        return BashExecutionMessage(command, output, None if code == "n/a" else int(code))
    if kind not in (None, "summary", "branch"):
        return UserMessage(turn.blocks, kind=_USER_KINDS.get(kind))
    if text.startswith(_DIGEST_STAMPS):
        return CompactionSummaryMessage(_strip_header(DIGEST_HEADER, text), tokens_before=0)
    if text.startswith(BRANCH_HEADER):
        return BranchSummaryMessage(_strip_header(BRANCH_HEADER, text), from_id="")
    return UserMessage(turn.blocks, kind=None if kind is None else _USER_KINDS.get(kind))


def _strip_header(header: str, text: str) -> str:
    """Return *text* without *header* where :func:`_put_header` puts just that header back, else all of it."""
    body = text.removeprefix(f"{header}\n\n")
    return body if body != text and not body.startswith((*_DIGEST_STAMPS, BRANCH_HEADER)) else text


def _put_header(header: str, summary: str) -> tuple[Block, ...]:
    is_stamped = summary.startswith((*_DIGEST_STAMPS, BRANCH_HEADER))
    return (TextBlock(summary if is_stamped else f"{header}\n\n{summary}"),)


def _tool_messages(
    blocks: Sequence[Block], names: Mapping[str, str], *, follows_tools: bool
) -> Iterator[Message]:
    n_results = 0 if follows_tools else count_results(blocks)
    if not n_results:
        yield CustomMessage(TOOL_TURN, tuple(blocks))
    for number, block in enumerate(blocks[:n_results], 1):
        if isinstance(block, ToolResultBlock):
            images = blocks[n_results:] if number == n_results else ()
            shown: Block = TextBlock(block.output) if isinstance(block.output, str) else block
            name = names.get(block.call_id, "")
            yield ToolResultMessage(block.call_id, name, (shown, *images), block.is_error)


def count_results(blocks: Sequence[Block]) -> int:
    """Return how many results *blocks* are with nothing but images behind them; 0 for any other blocks.

    A tool turn of such blocks becomes a message for each result, unless it follows another tool turn, from
    which it could not be told then.
    """
    n_results = 0
    for block in blocks:
        if not isinstance(block, ToolResultBlock):
            break
        n_results += 1
    return n_results if all(isinstance(block, ImageBlock) for block in blocks[n_results:]) else 0


def _turn(message: Message) -> Turn:
    match message:
        case UserMessage(content=content):
            return UserTurn(content_to_blocks(content))
        case AssistantMessage(content=content, error_message=error):
            return AssistantTurn((*content, TextBlock(f"[error] {error}")) if error else content)
        case ToolResultMessage():
            return _tool_turn((message,))
        case BashExecutionMessage(command=command, output=output, exit_code=code):
            exit_code = "n/a" if code is None else code
            return UserTurn((TextBlock(f"$ {command}\n{output}\n[exit {exit_code}]"),))
        case CustomMessage(custom_type=kind, content=content):
            blocks = content_to_blocks(content)
            return ToolTurn(blocks) if kind == TOOL_TURN else UserTurn(blocks)
        case BranchSummaryMessage(summary=summary):
            return UserTurn(_put_header(BRANCH_HEADER, summary))
        case CompactionSummaryMessage(summary=summary):
            return UserTurn(_put_header(DIGEST_HEADER, summary))
        case _:
            assert_never(message)


def _tool_turn(messages: Sequence[ToolResultMessage]) -> ToolTurn:
    """Return the turn of the results *messages*, with their images behind them."""
    results, images = list[Block](), list[Block]()
    for message in messages:
        others = tuple(block for block in message.content if not isinstance(block, ImageBlock))
        images += (block for block in message.content if isinstance(block, ImageBlock))
        if len(others) == 1 and isinstance(others[0], ToolResultBlock):
            results.append(others[0])
        else:
            results.append(ToolResultBlock(message.tool_call_id, text_of(others), message.is_error))
    return ToolTurn((*results, *images))


def find_cut(
    history: History, n_messages: int, cut: int, prompt_index: int | None
) -> tuple[int, tuple[int, ...]]:
    """Return the entry of the message at *cut*, and that of the prompt that stays in front of it, if any."""
    wanted = (cut,) if prompt_index is None else (cut, prompt_index)
    first_kept, *pinned = (find_turn(history.turns, index, n_messages) for index in wanted)
    return first_kept, tuple(pinned)


class CondenseOpts(Value):
    """How to condense.

    *force* is a manual compact, which needs no gate. *model* is the id of the model in use, for bindings that
    look its card up. *context_tokens* is the live occupancy at the gate, 0 for unknown.
    """

    force: bool = False
    model: str | None = None
    context_tokens: int = 0


class CondenseFn(Protocol):
    """Condenses a conversation.

    Contract: never raises; returns the very object it was given when there is nothing to do.
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*, or something with fewer tokens."""
        ...


class IdentityCondense:
    """The default binding: a session that is given no engine never condenses.

    >>> import asyncio
    >>> turns = ()
    >>> asyncio.run(IdentityCondense().condense(turns, CondenseOpts(force=True))) is turns
    True
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*."""
        return messages


class WindowBudgetCondense:
    """The window budget as a session's :class:`CondenseFn`: turns in, turns out."""

    def __init__(self, deps: CondenserDeps | None = None) -> None:
        self._deps = deps or CondenserDeps()

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages* condensed, or the very object given when there is nothing to do."""
        bridged = turns_to_messages(messages)
        condensed = await condense_transcript(self._deps, bridged, opts)
        return messages if condensed is bridged else messages_to_turns(condensed)


async def condense_transcript(
    deps: CondenserDeps, messages: Sequence[Message], opts: CondenseOpts
) -> Sequence[Message]:
    """Return *messages* condensed, or the very object given when there is nothing to do.

    The automatic path opens when the estimate or ``opts.context_tokens`` is over the limit of ``deps.card``;
    a forced one needs neither.
    """
    request = BudgetRequest(
        force=opts.force,
        context_tokens=opts.context_tokens,
        policy=deps.policy or AUTO_CONDENSE_POLICY,
        card=deps.card,
    )
    return (await compact_messages(messages, request, invoke=deps.invoke)).messages


async def compact_messages(
    messages: Sequence[Message], request: BudgetRequest, *, invoke: ModelInvoker | None = None
) -> BudgetResult:
    """Condense *messages* and return the result.

    Costs the length of the tail, the digest and the text for the model when *messages* is a ``Transcript``.

    Args:
        messages: the conversation.
        request: everything the compaction depends on besides.
        invoke: the model that writes the digest, for as long as it likes; None for the local one.
    """
    deps = EngineDeps(invoke, CancelToken(), deadline_s=None)
    return await carry_out(messages, plan_compaction(messages, request), request, deps)


async def carry_out(
    messages: Sequence[Message], plan: BudgetPlan, request: BudgetRequest, deps: EngineDeps
) -> BudgetResult:
    """Carry out *plan*, which was made of *messages* and *request*; a cancelled one changes nothing."""
    if plan.noop is not None:
        return keep_unchanged(messages, plan, plan.noop)
    if plan.cut == 0:
        return apply_without_digest(plan)
    digest = await _ask_for_digest(plan, request, deps)
    if deps.cancel.cancelled:
        return keep_unchanged(messages, plan, "cancelled")
    return await asyncio.to_thread(apply_plan, messages, plan, digest)


async def prepare_digest(
    messages: Sequence[Message], request: BudgetRequest, deps: EngineDeps
) -> PreparedDigest | None:
    """Return a model's digest of the messages that condensing would fold now; None where none can be had.

    The conversation of *messages* may be under its limit or over it.
    """
    request = replace(request, ahead=True)
    plan = plan_compaction(messages, request)
    if plan.noop is not None or plan.cut == 0:
        return None
    digest = await _ask_for_digest(plan, request, deps)
    return None if digest.failure is not None else PreparedDigest(digest.text, plan.cut)


def restore_under_count_guard(
    dropped: Sequence[Message],
    kept: Sequence[Message],
    opts: RehydrateOpts | None = None,
    digest_tokens: int = 0,
) -> tuple[Message, ...]:
    """Return the dropped reads worth restoring such that the outcome is smaller than the input.

    With one digest for all of *dropped*, the restored messages stay fewer than ``len(dropped) - 1`` and, with
    *digest_tokens* for the digest, cheaper than *dropped*. Oldest first; the oldest gives way.
    """
    opts = opts or RehydrateOpts()
    room = min(opts.token_budget, estimate_tokens(dropped) - digest_tokens - 1)
    max_files = min(opts.max_files, max(0, len(dropped) - 2))
    restored = rehydrate_recent_reads(dropped, kept, replace(opts, max_files=max_files, token_budget=room))
    while restored and (len(restored) > len(dropped) - 2 or estimate_tokens(restored) > room):
        restored = restored[1:]
    return restored


async def _ask_for_digest(plan: BudgetPlan, request: BudgetRequest, deps: EngineDeps) -> ModelDigest:
    """Return the model's digest, or why there is none: no model, a failure, the deadline, a cancellation.

    The token of the call is cancelled in any case, so that a model which polls it instead of yielding ends.
    """
    if deps.invoke is None:
        return ModelDigest(failure="noModel")
    token = deps.cancel.child()

    async def show(plan: BudgetPlan, request: BudgetRequest) -> DigestMaterial:
        return await asyncio.to_thread(digest_material, plan, request)

    answer = request_plan_digest(plan, request, SummarizeDeps(deps.invoke, cancel=token), show)
    task = asyncio.ensure_future(answer)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.call_soon_threadsafe(task.cancel)

    unsubscribe = token.add_callback(stop)
    try:
        async with asyncio.timeout(deps.deadline_s):
            return await task
    except TimeoutError:
        return ModelDigest(failure="deadline")
    except asyncio.CancelledError:
        # The running task itself may have been asked to end, and not only the model call it waits for.
        running = asyncio.current_task()
        if not token.cancelled or (running is not None and running.cancelling() > 0):
            raise
        return ModelDigest(failure="cancelled")
    finally:
        unsubscribe()
        token.cancel("the compaction is over")
