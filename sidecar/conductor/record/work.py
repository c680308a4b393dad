"""The state of a session's work: idle, working, waiting for its user, or failed.

Nobody sets it. It is derived whenever it is read, from the open questions, the jobs of the queue and the
end of the newest turn, which the record has anyway. So it can never disagree with them, and a new kind of
question needs no more than to be open here for its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec import field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import call_all
from sidecar._internal.values import Value
from sidecar.conductor.content import prompt_title
from sidecar.conductor.contract import ContextUsage, TurnEnd, WaitingFor, WorkState
from sidecar.conductor.events import Faulted, Settled
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import CompactJob, Job, PromptJob, PromptQueue
from sidecar.conductor.records import from_record, work_after


class PendingQuestion(Value, kw_only=True):
    """A question that waits for the user.

    Attributes:
        waiting_for: the kind of decision.
        text: one line about it.
        at: when it was asked, in epoch milliseconds.
        details: JSON values about it, for hooks.
        refuse: answers it with a no, for a reason.
        closed: cancelled when it is answered, has expired or was withdrawn.
    """

    waiting_for: WaitingFor
    text: str
    at: int
    details: Mapping[str, Any]
    refuse: Callable[[str], object]
    closed: CancelToken = field(default_factory=CancelToken)


WorkFollower: TypeAlias = Callable[[PendingQuestion | None], object]
"""Called with a question that was opened, or None for any other change of the work."""


class SessionWork:
    """The work of one session, as its lists and status bars show it.

    Attributes:
        above: the work of the session that a sub-agent works for, which waits for the user with it.
        end: the end of the newest turn; None while a job runs, and behind one that is no turn.
        closing: the end of the running turn, which is decided and not published yet.
        partial_ends: the ends of the turns without a whole answer, by their last nodes.
    """

    above: SessionWork | None = None
    closing: TurnEnd | None = None

    def __init__(
        self,
        queue: PromptQueue,
        log: EventLog,
        clock_ms: Callable[[], int],
        *,
        end: TurnEnd | None,
        since: int,
    ) -> None:
        """*end* and *since* come from the stored record of the session."""
        self._queue = queue
        self._clock_ms = clock_ms
        self._since = since
        self.end = end
        self.partial_ends: dict[str, TurnEnd] = {}
        self._questions: list[PendingQuestion] = []
        self._followers: list[WorkFollower] = []
        queue.jobs.follow(self.on_jobs)
        log.follow(self.on_event)

    @property
    def state(self) -> WorkState:
        """The state now."""
        jobs, end = self._queue.jobs, self.end
        if self._questions:
            first = self._questions[0]
            return WorkState(state="waiting", since=first.at, waiting_for=first.waiting_for, text=first.text)
        current = jobs.current
        is_over = isinstance(current, PromptJob) and end is not None and end.turn_id == current.turn_id
        at_work = None if is_over else current
        if at_work is not None or jobs.waiting:
            return WorkState(
                state="working", since=self._since, text=describe_job(at_work or jobs.waiting[0])
            )
        return work_after(end, self._since)

    def follow(self, follower: WorkFollower) -> Callable[[], None]:
        """Call *follower* after each change until the returned function is called; exceptions are logged."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    @contextmanager
    def wait_for(
        self, waiting_for: WaitingFor, text: str, refuse: Callable[[str], object], **details: Any
    ) -> Iterator[PendingQuestion]:
        """Let the session wait for its user inside the block: see :class:`PendingQuestion`."""
        question = PendingQuestion(
            waiting_for=waiting_for, text=text, at=self._clock_ms(), details=details, refuse=refuse
        )
        above = self.above
        self._open(question, question)
        if above is not None:
            above._open(question)
        try:
            yield question
        finally:
            question.closed.cancel("the question is closed")
            self._close(question)
            if above is not None:
                above._close(question)

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take over the ends of earlier turns among the *records* of the store."""
        self.partial_ends = ends_of_turns(records)

    def on_jobs(self) -> None:
        """Take in that a job has begun or is over."""
        if self._queue.jobs.current is not None:
            self.end = self.closing = None
        if self.end is None:  # else it was published with the end of the turn, before its answer
            self._since = self._clock_ms()
            self._publish()

    def forget_budget(self) -> None:
        """Take in that the user has set another budget, after a turn that one has ended."""
        if self.end is not None and self.end.stop_reason == "budget":
            self.end, self._since = None, self._clock_ms()
            self._publish()

    def on_event(self, log: EventLog) -> None:
        """Take in the end of the running turn."""
        running, newest = self._queue.running, log.newest
        if newest is None or not isinstance(newest.data, Settled | Faulted):
            return
        if running is not None and running.turn_id == newest.data.turn_id:  # a waiting one may be dropped
            self.end, self._since = self.closing, newest.at
            if self.end is not None and (node := partial_node(self.end)) is not None:
                self.partial_ends[node] = self.end
            self._publish()

    def _open(self, question: PendingQuestion, published: PendingQuestion | None = None) -> None:
        self._questions.append(question)
        self._publish(published)

    def _close(self, question: PendingQuestion) -> None:
        self._questions.remove(question)
        self._publish()

    def _publish(self, question: PendingQuestion | None = None) -> None:
        call_all(self._followers, "a follower of a session's work", question)


def ends_of_turns(records: Iterable[Mapping[str, Any]]) -> dict[str, TurnEnd]:
    """Return the ends of the turns without a whole answer, by their last nodes, as *records* have them.

    A ``meta`` record is stored with the prompt of a turn and again with its end; the newest one stands.
    """
    ends: dict[str, TurnEnd] = {}
    for record in records:
        raw = record.get("end") if record.get("type") == "meta" else None
        end = from_record(TurnEnd, raw) if isinstance(raw, Mapping) else None
        if end is not None:
            ends[end.turn_id] = end
    return {node: end for end in ends.values() if (node := partial_node(end)) is not None}


def partial_node(end: TurnEnd) -> str | None:
    """Return the last node of a turn with this *end*, None for a whole answer, and a turn without nodes."""
    return None if end.stop_reason == "end_turn" else end.head


def last_event(end: TurnEnd, head: str | None, usage: ContextUsage) -> Settled | Faulted:
    """Return the last event of a turn that ended with *end*, in a session that stands at *head*."""
    if end.stop_reason is None:
        return Faulted(end.turn_id, end.error_kind, end.message, head, usage, end.duration_ms)
    return Settled(end.turn_id, end.stop_reason, head, usage, end.duration_ms)


def describe_job(job: Job) -> str:
    """Return one line about *job*."""
    if isinstance(job, PromptJob):
        return prompt_title(job.turn.blocks)
    return "Compacts the conversation" if isinstance(job, CompactJob) else "Changes the conversation"
