"""The plan of a compaction: the effect of condensing, without a model call.

The pure rules of the seed document decide where a transcript could be cut. A live session needs more: the
newest prompt always stays, pairs stay whole in parallel batches too, one giant message blocks
nothing, and the kept messages leave room for the digest inside the limit.

*Room* is the tokens that messages may take: the limit of the policy less system prompt and tools, scaled down
where the provider counted more tokens than the estimate. With a window of 200,000, a reserve of 2,048, a
ratio of 0.75 and an overhead of 8,000 it is 140,464. Of the room the tail takes at most 45 %, the
digest 22 % and restored files 15 % (and no more than their own limits). The steps:

1. Read the meter. Under the limit, and not forced: nothing to do.
2. Cut. By tokens (``keep_recent``); a forced compaction cuts at the newest prompt instead, unless its turn
   alone is too long to keep or nothing before it is worth folding. A head of nothing but digests, restored
   files and the kept prompt has no news and is not folded.
3. Fit the tail: blank stale results, cut giant bodies, cut the prompt last. If replies and calls alone exceed
   the room, everything but the newest prompt is folded.
4. Where nothing can be folded but the tail is too large, its bodies are cut where they stand (``cut == 0``).
5. Choose the files to restore, within the tokens that are left beside the planned digest.

For example, ten turns of 3,000 tokens in a room of 20,000 with ``keep_recent=6000``: the cut keeps the last
two turns, the digest is planned with 800 tokens, files with up to 3,000; projected: at most 9,800 tokens.

Invariants: a plan changes nothing; its result is smaller than its input and fits the room wherever calls that
are still open allow it. Cost: the length of the tail when the messages are a ``Transcript``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import field

from sidecar._internal.values import Value, hide_in_repr
from sidecar.text.calls import ToolEffects
from sidecar.window_budget.contract import BudgetRequest, NoOpReason
from sidecar.window_budget.cut import has_open_calls, safe_cut
from sidecar.window_budget.estimate import estimate_message_tokens
from sidecar.window_budget.message import Message, ToolResultMessage, digest_text, is_cleared, is_restored
from sidecar.window_budget.rehydrate import FileCandidate, select_candidates
from sidecar.window_budget.tail import TAIL_SHARE, Tail, fit_tail
from sidecar.window_budget.transcript import MeterReading, Transcript, read_meter

DIGEST_SHARE = 0.22
FILES_SHARE = 0.15
"""How much of the room a digest and the restored files take at most; the tail has its own share."""

DIGEST_TOKENS = 800
"""How much a digest takes beside the earlier one that it carries, where its share of the room allows it."""

FORCED_TURN_FACTOR = 4
"""A forced condense keeps the newest turn whole up to this many times ``keep_recent``, then cuts inside."""

MIN_DIGEST_TOKENS = 40
"""The least a digest takes: header, heading, count."""


class BudgetPlan(Value, kw_only=True):
    """A compaction that was planned and not carried out; ``noop`` says why there is nothing to do.

    Attributes:
        transcript: the messages planned for; empty when the meter was under the limit, which needs none.
        meter: how full the window is.
        noop: None when something would be done.
        cut: the index of the first message of the tail. 0 when nothing is folded: then bodies are blanked
            and cut down where they stand.
        kept: the indices of the messages that stay, ascending: the newest prompt, if it lies before the cut,
            and the tail without results that no call asked for.
        tail: those messages as they would be sent.
        candidates: the files that could be restored, newest first.
        digest_tokens: the size the digest is planned with.
        files_tokens: the tokens that the restored files may take together.
    """

    transcript: Transcript
    meter: MeterReading
    noop: NoOpReason | None = None
    cut: int = 0
    kept: tuple[int, ...] = ()
    tail: Tail = field(default_factory=Tail)
    candidates: tuple[FileCandidate, ...] = ()
    digest_tokens: int = 0
    files_tokens: int = 0

    __repr__ = hide_in_repr("transcript")

    @property
    def tokens_before(self) -> int:
        """The tokens of all messages as they are."""
        return self.meter.message_tokens

    @property
    def most_tokens_after(self) -> int:
        """The most tokens of messages that still make each later request smaller."""
        return self.tokens_before - 1

    @property
    def prompt_index(self) -> int | None:
        """The index of the newest prompt when it lies before the cut and is carried over, else None."""
        return self.kept[0] if self.kept and self.kept[0] < self.cut else None

    @property
    def dropped_count(self) -> int:
        """How many messages the digest replaces."""
        return 0 if self.noop else len(self.transcript) - len(self.kept)

    @property
    def most_files(self) -> int:
        """How many files may be restored, so that there are fewer messages afterwards."""
        return self.dropped_count - 2

    @property
    def dropped_tokens(self) -> int:
        """The tokens that go, blanked and cut bodies included."""
        return 0 if self.noop else self.tokens_before - self.tail.tokens


def plan_compaction(messages: Sequence[Message], request: BudgetRequest) -> BudgetPlan:
    """Return the plan of condensing *messages*.

    Costs the length of the tail when *messages* is a :class:`Transcript`, else one pass over them.

    >>> plan_compaction([], BudgetRequest(force=True)).noop
    'nothingToDrop'
    """
    meter = read_meter(messages, request)
    if not (request.force or request.ahead) and (reason := meter.reason_to_wait):
        return BudgetPlan(transcript=Transcript(), meter=meter, noop=reason)
    transcript = Transcript.of(messages)
    cut = _choose_cut(transcript, request, meter.room)
    plan = BudgetPlan(transcript=transcript, meter=meter, cut=cut)
    if _has_news(transcript, cut):
        return _plan_folding(plan, request)
    plan = replace(plan, cut=0)
    if meter.room is None or meter.message_tokens <= meter.room:
        return replace(plan, noop="nothingToDrop")
    lighter = _plan_tail(plan, request.tools)
    if lighter.tail.tokens > meter.room and not has_open_calls(transcript):
        # Cutting bodies down is not enough: fold everything but the newest prompt, old digests included.
        return _plan_folding(replace(plan, cut=len(transcript)), request)
    return lighter if lighter.tail.tokens < plan.tokens_before else replace(plan, noop="nothingToDrop")


def _choose_cut(transcript: Transcript, request: BudgetRequest, room: int | None) -> int:
    """Return the index of the first message of the tail, or 0 when everything is tail."""
    meter = transcript.meter
    keep, whole_turn = request.policy.keep_recent, request.policy.keep_recent * FORCED_TURN_FACTOR
    if room is not None:
        share = int(room * TAIL_SHARE)
        keep, whole_turn = min(keep, share), min(whole_turn, share)
    prompt = meter.last_prompt
    if request.force and prompt is not None and meter.total - meter.before(prompt) <= whole_turn:
        at_prompt = safe_cut(transcript, meter, prompt)
        if _has_news(transcript, at_prompt):
            return at_prompt
    start = meter.tail_start(keep)
    return safe_cut(transcript, meter, start) if start else 0


def _has_news(transcript: Transcript, cut: int) -> bool:
    """Whether anything before *cut* is more than digests, restored files and the prompt that is kept."""
    prompt = transcript.meter.last_prompt
    return any(
        index != prompt and digest_text(transcript[index]) is None and not is_restored(transcript[index])
        for index in range(cut)
    )


def _plan_folding(plan: BudgetPlan, request: BudgetRequest) -> BudgetPlan:
    """Return *plan* with the messages before its cut replaced by a digest, and files to restore."""
    room = plan.meter.room
    plan = _plan_tail(replace(plan, digest_tokens=_digest_size(plan)), request.tools)
    is_too_large = room is not None and plan.tail.tokens > room - plan.digest_tokens
    if is_too_large and not has_open_calls(plan.transcript):
        # Replies and calls alone outweigh the room: fold all of them, and keep the prompt.
        plan = _plan_tail(replace(plan, cut=len(plan.transcript)), request.tools)
    if plan.tail.tokens + MIN_DIGEST_TOKENS > plan.most_tokens_after:
        return BudgetPlan(transcript=plan.transcript, meter=plan.meter, noop="wouldNotShrink")
    blanked = frozenset(
        index
        for index, message in zip(plan.kept, plan.tail.messages, strict=True)
        if isinstance(message, ToolResultMessage) and is_cleared(message)
    )
    opts = request.rehydrate
    candidates = select_candidates(
        plan.transcript, plan.cut, opts, request.resolve_path, blanked, request.tools
    )
    taken = plan.tail.tokens + plan.digest_tokens
    left = plan.tokens_before - 1 - taken
    # A model may write a longer digest than planned: the files leave it as much again, or half of the rest.
    limits = [
        opts.token_budget,
        max(left - plan.digest_tokens, left // 2),
        plan.most_tokens_after - taken,
    ]
    if room is not None:
        limits += [int(room * FILES_SHARE), room - taken]
    return replace(plan, candidates=candidates, files_tokens=max(0, min(limits)))


def _digest_size(plan: BudgetPlan) -> int:
    """Return the tokens a digest may take: as many as an earlier one, and half as many as new messages."""
    meter = plan.transcript.meter
    carried = sum(estimate_message_tokens(plan.transcript[index]) for index in meter.digests(plan.cut))
    new = meter.before(plan.cut) - carried
    wanted = carried + min(DIGEST_TOKENS, new // 2)
    room = plan.meter.room
    return max(MIN_DIGEST_TOKENS, wanted if room is None else min(wanted, int(room * DIGEST_SHARE)))


def _plan_tail(plan: BudgetPlan, tools: Mapping[str, ToolEffects]) -> BudgetPlan:
    """Return *plan* with its kept messages, made to fit."""
    transcript, prompt = plan.transcript, plan.transcript.meter.last_prompt
    orphans = frozenset(transcript.meter.orphans_from(plan.cut))
    kept = [index for index in range(plan.cut, len(transcript)) if index not in orphans]
    if prompt is not None and prompt < plan.cut:
        kept.insert(0, prompt)
    tail = fit_tail(
        [transcript[index] for index in kept],
        None if prompt is None else kept.index(prompt),
        room=plan.meter.room,
        reserve=plan.digest_tokens,
        tools=tools,
    )
    return replace(plan, kept=tuple(kept), tail=tail)
