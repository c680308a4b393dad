"""What a compaction of a live session would do, decided without a model call.

The pure rules of the seed decide where a transcript could be cut. This is what a session needs beyond them:
the newest prompt stays whatever happens, pairs stay whole in parallel batches too, one giant message blocks
nothing, and what is kept leaves room for the digest inside the limit. Nothing here writes a digest or reads a
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sidecar.window_budget.budget.boundary import has_open_calls, safe_cut
from sidecar.window_budget.budget.estimate import estimate_message_tokens
from sidecar.window_budget.contract import BudgetPolicy
from sidecar.window_budget.gauge import Gate, NoOpReason, PlanOptions, read_gate, shut_reason
from sidecar.window_budget.marks import digest_text, is_cleared, is_restored
from sidecar.window_budget.message import Message, ToolResultMessage
from sidecar.window_budget.rehydrate import Candidate, select_candidates
from sidecar.window_budget.summarize.local_digest import LOCAL_DIGEST_TOKENS
from sidecar.window_budget.tail import TAIL_SHARE, Tail, fit_tail
from sidecar.window_budget.transcript import Transcript

__all__ = ["CompactionPlan", "plan_compaction"]

DIGEST_SHARE = 0.15
FILES_SHARE = 0.15
"""How much of the room a digest and the restored files take at most; the tail has its own share."""

LARGE_DIGEST_SHARE = 0.05
MAX_DIGEST_TOKENS = 6_000
"""In a large room a digest grows beyond ``LOCAL_DIGEST_TOKENS``, to that share and to at most so much."""

FORCED_TURN_FACTOR = 4
"""A forced condense keeps the newest turn whole up to this many times ``keep_recent``, then cuts inside."""

MIN_DIGEST_TOKENS = 40
"""The least a digest takes: header, heading, count."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What would happen; ``noop`` says why nothing would.

    Attributes:
        transcript: the messages planned for; empty when the gate was shut, which needs none.
        gate: how full the window is.
        noop: None when something would be done.
        cut: the index of the first message of the tail. 0 when nothing is folded: then bodies are blanked
            and cut down where they stand.
        kept: the indices of the messages that stay, ascending: the newest prompt, if it lies before the cut,
            and the tail without results whose calls were never made.
        tail: those messages as they would be sent.
        candidates: the files that could be restored, newest first.
        digest_tokens: the size the digest is planned with.
        files_tokens: what the restored files may take together.
    """

    transcript: Transcript = field(repr=False)
    gate: Gate
    noop: NoOpReason | None = None
    cut: int = 0
    kept: tuple[int, ...] = ()
    tail: Tail = field(default_factory=Tail)
    candidates: tuple[Candidate, ...] = ()
    digest_tokens: int = 0
    files_tokens: int = 0

    @property
    def tokens_before(self) -> int:
        """The tokens of all messages as they are."""
        return self.gate.message_tokens

    @property
    def prompt_index(self) -> int | None:
        """Where the newest prompt stands when it lies before the cut and is carried over, else None."""
        return self.kept[0] if self.kept and self.kept[0] < self.cut else None

    @property
    def dropped_count(self) -> int:
        """How many messages the digest replaces."""
        return 0 if self.noop else len(self.transcript) - len(self.kept)

    @property
    def dropped_tokens(self) -> int:
        """The tokens that go, those of blanked and cut bodies included."""
        return 0 if self.noop else self.tokens_before - self.tail.tokens

    @property
    def projected_tokens(self) -> int:
        """The tokens afterwards, with a digest of full size and every candidate that fits restored."""
        if self.noop:
            return self.tokens_before
        files = min(self.files_tokens, sum(candidate.tokens for candidate in self.candidates))
        return self.tail.tokens + self.digest_tokens + files


def plan_compaction(messages: Sequence[Message], options: PlanOptions) -> CompactionPlan:
    """Return what condensing *messages* would do; makes no model call and changes nothing.

    Costs the length of the tail when *messages* is a :class:`Transcript`, else one pass over them.

    >>> plan_compaction([], PlanOptions(force=True)).noop
    'nothingToDrop'
    """
    gate = read_gate(messages, options)
    if reason := shut_reason(gate, options):
        return CompactionPlan(Transcript(), gate, reason)
    transcript = Transcript.of(messages)
    cut = _choose_cut(transcript, options, gate.room)
    if _has_news(transcript, cut):
        return _folding(CompactionPlan(transcript, gate, cut=cut), options)
    if gate.room is not None and gate.message_tokens > gate.room:
        return _lightening(CompactionPlan(transcript, gate), gate.room, options)
    return CompactionPlan(transcript, gate, "nothingToDrop")


def _choose_cut(transcript: Transcript, options: PlanOptions, room: int | None) -> int:
    """Return where the tail begins, or 0 when everything is tail.

    By tokens; a forced condense cuts at the newest prompt instead, unless its turn alone is too long to keep
    or nothing before it is worth folding.
    """
    meter = transcript.meter
    keep, whole_turn = _tail_targets(options.policy, room)
    prompt = meter.last_prompt
    if options.force and prompt is not None and meter.total - meter.before(prompt) <= whole_turn:
        at_prompt = safe_cut(transcript, meter, prompt)
        if _has_news(transcript, at_prompt):
            return at_prompt
    start = meter.tail_start(keep)
    return safe_cut(transcript, meter, start) if start else 0


def _tail_targets(policy: BudgetPolicy, room: int | None) -> tuple[int, int]:
    """Return how many tokens the tail holds at most, and how many a forced condense keeps of one turn."""
    whole_turn = policy.keep_recent * FORCED_TURN_FACTOR
    if room is None:
        return policy.keep_recent, whole_turn
    share = int(room * TAIL_SHARE)
    return min(policy.keep_recent, share), min(whole_turn, share)


def _has_news(transcript: Transcript, cut: int) -> bool:
    """Whether anything before *cut* is more than digests, restored files and the prompt that is kept."""
    prompt = transcript.meter.last_prompt
    return any(
        index != prompt and digest_text(transcript[index]) is None and not is_restored(transcript[index])
        for index in range(cut)
    )


def _folding(plan: CompactionPlan, options: PlanOptions) -> CompactionPlan:
    """Return *plan* with the messages before its cut replaced by a digest."""
    room = plan.gate.room
    plan = _with_tail(replace(plan, digest_tokens=_digest_size(plan)))
    is_too_large = room is not None and plan.tail.tokens > room - plan.digest_tokens
    if is_too_large and not has_open_calls(plan.transcript):
        # Replies and calls alone outweigh the room: fold all of them, and keep the prompt.
        plan = _with_tail(replace(plan, cut=len(plan.transcript)))
    if plan.tail.tokens + MIN_DIGEST_TOKENS >= plan.tokens_before:
        return CompactionPlan(plan.transcript, plan.gate, "wouldNotShrink")
    return _with_candidates(plan, options)


def _lightening(plan: CompactionPlan, room: int, options: PlanOptions) -> CompactionPlan:
    """Return *plan* with nothing folded and what is too large cut where it stands.

    Where that is not enough, everything but the newest prompt is folded, a digest too large included.
    """
    lighter = _with_tail(plan)
    if lighter.tail.tokens > room and not has_open_calls(plan.transcript):
        return _folding(replace(plan, cut=len(plan.transcript)), options)
    return lighter if lighter.tail.tokens < plan.tokens_before else replace(plan, noop="nothingToDrop")


def _digest_size(plan: CompactionPlan) -> int:
    """Return the tokens a digest may take: all that an earlier one took, and half of what is new."""
    transcript, room = plan.transcript, plan.gate.room
    carried = sum(
        estimate_message_tokens(transcript[note.index]) for note in transcript.ledger.digests(plan.cut)
    )
    prompt = transcript.meter.last_prompt
    asked = 0 if prompt is None or prompt >= plan.cut else estimate_message_tokens(transcript[prompt])
    new = transcript.meter.before(plan.cut) - carried - asked
    if room is None:
        return max(MIN_DIGEST_TOKENS, min(LOCAL_DIGEST_TOKENS, carried + new // 2))
    most = max(LOCAL_DIGEST_TOKENS, min(MAX_DIGEST_TOKENS, int(room * LARGE_DIGEST_SHARE)))
    return max(MIN_DIGEST_TOKENS, min(most, carried + new // 2, int(room * DIGEST_SHARE)))


def _with_tail(plan: CompactionPlan) -> CompactionPlan:
    """Return *plan* with what it keeps, made to fit."""
    transcript, prompt = plan.transcript, plan.transcript.meter.last_prompt
    orphans = frozenset(transcript.meter.orphans_from(plan.cut))
    kept = [index for index in range(plan.cut, len(transcript)) if index not in orphans]
    if prompt is not None and prompt < plan.cut:
        kept.insert(0, prompt)
    position = None if prompt is None else kept.index(prompt)
    tail = fit_tail([transcript[index] for index in kept], position, plan.gate.room, plan.digest_tokens)
    return replace(plan, kept=tuple(kept), tail=tail)


def _with_candidates(plan: CompactionPlan, options: PlanOptions) -> CompactionPlan:
    """Return *plan* with the files that could be restored and the tokens they may take."""
    blanked = frozenset(
        index
        for index, message in zip(plan.kept, plan.tail.messages, strict=True)
        if isinstance(message, ToolResultMessage) and is_cleared(message)
    )
    candidates = select_candidates(plan.transcript, plan.cut, options.rehydrate, options.resolve, blanked)
    taken = plan.tail.tokens + plan.digest_tokens
    limits = [options.rehydrate.token_budget, plan.tokens_before - 1 - taken]
    if plan.gate.room is not None:
        limits += [int(plan.gate.room * FILES_SHARE), plan.gate.room - taken]
    return replace(plan, candidates=candidates, files_tokens=max(0, min(limits)))
