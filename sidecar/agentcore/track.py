"""The view of one conversation, kept and extended from call to call (failure B-A1).

A :class:`Checkpoint` remembers which messages a summary stands for; a :class:`Track` weighs the view that
grows behind it. Neither calls a model nor reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.agentcore.estimate import context_after, is_stale, sent_tokens, trusted_usage
from sidecar.agentcore.messages import AgentMessage, CompactionSummary
from sidecar.agentcore.plan import CompactionPlan
from sidecar.agentcore.shrink import shrink_message

__all__ = ["Checkpoint", "Track", "advance", "find_checkpoint", "follow"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A compaction that was made: the messages it *covered* are shown as the head of its *view*.

    Attributes:
        covered: the beginning of a history, message for message.
        view: the whole view of that moment, as it was returned.
        originals: the messages of *view* in their full length.
        n_head: how many messages of *view* stand for *covered*: the summary, the pinned prompt, shrunk items.
    """

    covered: list[AgentMessage]
    view: list[AgentMessage]
    originals: list[AgentMessage]
    n_head: int


class Track:
    """One conversation's view and its weight; extending it costs what is new.

    Attributes:
        inputs: the messages it was fed.
        checkpoint: whose head stands for the first *n_covered* inputs, or None.
        view: what is shown of the inputs: that head, then the rest as it is.
        originals: the messages of *view* in their full length.
        costs: what each message of *view* takes in a prompt; *plain* is their sum.
        n_head: how many messages of *view* are the head.
        n_settled: how many messages of *view* are older than its last change; the prompts that their usage
            reports are sent no more (failure B-A8).
    """

    __slots__ = (
        "_anchor",
        "_summary",
        "_trailing",
        "checkpoint",
        "costs",
        "inputs",
        "n_covered",
        "n_head",
        "n_settled",
        "originals",
        "plain",
        "view",
    )

    def __init__(
        self,
        inputs: list[AgentMessage],
        covering: Checkpoint | None = None,
        returned: Checkpoint | None = None,
    ) -> None:
        """Weigh *inputs*, which begin with what *covering* covered, or with the view of *returned*."""
        newest = covering or returned
        self.checkpoint = covering
        self.n_covered = len(covering.covered) if covering else 0
        self.n_head = covering.n_head if covering else 0
        self.n_settled = len(newest.view) if newest else 0
        self.inputs = list(inputs)
        self.view: list[AgentMessage] = []
        self.originals: list[AgentMessage] = []
        self.costs: list[int] = []
        self.plain = 0
        self._anchor = 0
        self._trailing = 0
        self._summary: CompactionSummary | None = None
        self._extend([*(covering.view[: self.n_head] if covering else []), *inputs[self.n_covered :]])
        if newest is not None:
            n_known = self.n_head if covering else len(newest.originals)
            self.originals[:n_known] = newest.originals[:n_known]

    def grows_into(self, messages: list[AgentMessage]) -> bool:
        """Extend this track to *messages*, or return False when they are another conversation.

        Every message seen so far is compared, by identity first, which is a pointer comparison each.
        """
        n_known = len(self.inputs)
        new = messages[n_known:]
        self.inputs.extend(new)
        if self.inputs != messages:
            del self.inputs[n_known:]
            return False
        self._extend(new)
        return True

    def tokens(self, overhead: int) -> int:
        """Return what the next prompt takes: the larger of the plain and the hybrid estimate.

        The plain one adds *overhead*; the hybrid one starts from the newest trusted usage, its output
        included.
        """
        hybrid = self._anchor + self._trailing if self._anchor else 0
        return max(self.plain + overhead, hybrid)

    def _extend(self, new: list[AgentMessage]) -> None:
        for message in new:
            self._weigh(message)
        self.originals.extend(new)

    def _weigh(self, message: AgentMessage) -> None:
        cost = sent_tokens(message)
        self.view.append(message)
        self.costs.append(cost)
        self.plain += cost
        if isinstance(message, CompactionSummary):
            self._summary, self._anchor = message, 0
        usage = trusted_usage(message)
        if usage is None or self._is_stale(message):
            self._trailing += cost
        else:
            self._anchor, self._trailing = context_after(message, usage), 0

    def _is_stale(self, message: AgentMessage) -> bool:
        if len(self.view) <= self.n_settled:
            return True
        return not self.n_settled and self._summary is not None and is_stale(message, self._summary)


def find_checkpoint(messages: list[AgentMessage], checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """Return the checkpoint whose covered messages *messages* begin with, the longest of several, or None.

    An edit, a rewind or a branch in front of a checkpoint's end makes it another conversation's, whose
    summary must not be shown.
    """
    theirs = [c for c in checkpoints if messages[: len(c.covered)] == c.covered]
    return max(theirs, key=lambda checkpoint: len(checkpoint.covered), default=None)


def follow(messages: list[AgentMessage], checkpoints: Sequence[Checkpoint]) -> Track:
    """Return a new track of *messages*: behind the checkpoint that covers their beginning, if there is one.

    Messages that begin with a view that was returned need no checkpoint: their summary stands among them.
    """
    checkpoint = find_checkpoint(messages, checkpoints)
    if checkpoint is not None:
        return Track(messages, covering=checkpoint)
    returned = (c for c in checkpoints if messages[: len(c.view)] == c.view)
    return Track(messages, returned=next(returned, None))


def advance(track: Track, plan: CompactionPlan, summary: CompactionSummary | None) -> Checkpoint:
    """Return the checkpoint after *plan* was carried out on the view of *track*.

    *summary* stands for what is dropped; None where the plan only shrinks.
    """
    shown = list(track.view)
    for index, tokens in plan.shrink:
        shown[index] = shrink_message(track.originals[index], tokens)
    # The head ends where the inputs are shown as they are again.
    head_end = max([plan.cut, track.n_head, *(index + 1 for index, _ in plan.shrink)])
    kept = [i for i in (plan.pinned, *range(plan.cut, len(shown))) if i >= 0]
    leading: list[AgentMessage] = [] if summary is None else [summary]
    view = [*leading, *(shown[i] for i in kept)]
    return Checkpoint(
        covered=track.inputs[: track.n_covered + head_end - track.n_head],
        view=view,
        originals=[*leading, *(track.originals[i] for i in kept)],
        n_head=len(view) - (len(shown) - head_end),
    )
