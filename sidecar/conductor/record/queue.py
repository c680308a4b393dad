"""The queue of one session, and the jobs in it: prompts, compactions and changes of the conversation.

One job runs and the others wait in order, so no job ever runs beside another. A job carries a future for
each result that its caller may wait for. The queue knows nothing of the work itself.

On disk the ``queue`` record holds the prompts that wait, and those on their way into the conversation. When
one of them enters it, its node and the record without it are stored in one piece, so that no crash loses or
repeats it. The next process holds the prompts of the record: clients can see, edit and remove them in the
queue. They run with the next prompt, because nobody may be there to watch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import dropwhile, product
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from sidecar._internal.errors import bug, call_all, log_fault
from sidecar._internal.values import Value
from sidecar.conductor.content import Content, SlashCommand
from sidecar.conductor.contract import Author, Compaction, QueueItem, StopReasonName
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import Faulted, Settled
from sidecar.conductor.records import newest_record
from sidecar.llmgateway.contract import CostBudget, Turn, UserTurn
from sidecar.permissions.rules import Rule

J = TypeVar("J")

MAX_WAITING: Final = 128
"""The most jobs that wait in one session."""


class TurnOutcome(Value):
    """The last event of a turn, and the text of its last answer."""

    last: Settled | Faulted
    text: str = ""

    @property
    def fault(self) -> Faulted | None:
        """The failure of the turn, None for a turn that settled."""
        return self.last if isinstance(self.last, Faulted) else None

    @property
    def stop_reason(self) -> StopReasonName | None:
        """The reason why the turn settled, None for a turn that failed."""
        return None if isinstance(self.last, Faulted) else self.last.stop_reason


class SubmitReceipt(Value, kw_only=True):
    """The receipt for a prompt. *entered* and *outcome* belong to the turn that answers it."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    position: int | None
    entered: asyncio.Future[str | None]
    outcome: asyncio.Future[TurnOutcome]


class CompactReceipt(Value):
    """The receipt for a compaction; *outcome* resolves to the compaction when it has ended."""

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    reason: str | None
    outcome: asyncio.Future[Compaction]


class PromptJob(Struct, eq=False, kw_only=True):
    """A prompt, or a slash *command* in its place.

    Attributes:
        entered: resolves to the prompt's node, or to None for a prompt that is not stored, such as a command.
        author: the client that sent the prompt, None where that is not known.
        max_model_calls: the limit of model calls for this turn alone, None for the usual one.
        allow: rules that allow actions in this turn alone. Neither is stored with a prompt that waits.
        budget: a budget for this turn alone, None for the usual ones.
        model: the model that answers it, None for the session's own.
    """

    item_id: str
    turn_id: str
    content: Content
    turn: UserTurn
    command: SlashCommand | None
    entered: asyncio.Future[str | None]
    outcome: asyncio.Future[TurnOutcome]
    author: Author | None = None
    max_model_calls: int | None = None
    allow: tuple[Rule, ...] = ()
    budget: CostBudget | None = None
    model: str | None = None

    def as_item(self) -> QueueItem:
        """Return the prompt as clients see it in the queue."""
        return QueueItem(self.item_id, self.turn_id, self.content)


class ChangeJob(Struct, eq=False):
    """A change of the conversation between two turns, such as an undo or a rewind.

    The change is made only if the head is *expect_head* by then; None allows any head. *outcome* resolves to
    the result of *change*, or to its exception.
    """

    change: Callable[[], Awaitable[Any]]
    expect_head: str | None
    outcome: asyncio.Future[Any]


class CompactJob(Struct, eq=False):
    """A compaction that a client requested."""

    compaction_id: str
    request: CompactionRequest
    outcome: asyncio.Future[Compaction]


Job: TypeAlias = PromptJob | CompactJob | ChangeJob
"""A job of a session's queue."""


class JobQueue(Generic[J]):
    """Jobs that run one after another.

    Contract of *run*: it does not raise. If it does, the jobs behind it run all the same.
    """

    def __init__(self, run: Callable[[J], Awaitable[None]]) -> None:
        self._run = run
        self._followers: list[Callable[[], object]] = []
        self._waiting: deque[J] = deque()
        self._worker: asyncio.Task[None] | None = None
        self.current: J | None = None

    @property
    def waiting(self) -> Sequence[J]:
        """The jobs that wait, the next one first."""
        return tuple(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether a new job would have to wait."""
        return self.current is not None or bool(self._waiting)

    def follow(self, follower: Callable[[], object]) -> None:
        """Call *follower* when a job begins and when it is over."""
        self._followers.append(follower)

    def put(self, job: J, *, first: bool = False) -> None:
        """Add a job at the end, or at the front when *first*."""
        if first:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    def put_back(self, jobs: Iterable[J]) -> None:
        """Add *jobs*, in their order, at the front."""
        for job in reversed(tuple(jobs)):
            self.put(job, first=True)

    def remove(self, job: J) -> None:
        """Remove a waiting job."""
        self._waiting.remove(job)

    async def wait_idle(self) -> None:
        """Return once no job runs and none waits."""
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        while self._waiting:
            self.current = self._waiting.popleft()
            call_all(self._followers, "a listener of a session's queue")
            try:
                await self._run(self.current)
            except Exception as error:
                log_fault("a job of a session", error)
                bug(f"a job raised {type(error).__name__}")
            finally:
                self.current = None
            call_all(self._followers, "a listener of a session's queue")


class StoredPrompt(msgspec.Struct, frozen=True):
    """A prompt of the queue as it is stored."""

    item_id: str
    content: tuple[dict[str, Any], ...]
    author: Author | None = None
    budget: CostBudget | None = None


class _Record(msgspec.Struct, frozen=True):
    """The ``queue`` record, without its type."""

    items: tuple[StoredPrompt, ...]


class PromptQueue:
    """The prompts of one session that are acknowledged and not part of its conversation yet.

    They are kept in the ``queue`` record of its file as well.

    Attributes:
        jobs: the jobs that run and wait, prompts among them.
        held: prompts of an earlier process or behind a budget, which wait for the next prompt.
        steered: the prompts that were given to the running turn.
        entered: the prompts of the running turn that have entered the conversation, by their items.
        is_ending: whether the running turn is over but for its last events.
        is_over: whether the end of the running turn is decided, so that nothing can stop it any more.
        is_frozen: the process ends; the record stays as it is, for the next process.
    """

    def __init__(self, jobs: JobQueue[Job]) -> None:
        self.jobs = jobs
        self.held: list[PromptJob] = []
        self.steered: list[PromptJob] = []
        self.entered: set[str] = set()
        self.is_ending = False
        self.is_over = False
        self.is_frozen = False
        self._stored: tuple[StoredPrompt, ...] = ()

    @property
    def running(self) -> PromptJob | None:
        """The prompt that is being answered."""
        return self.jobs.current if isinstance(self.jobs.current, PromptJob) else None

    @property
    def waiting(self) -> tuple[PromptJob, ...]:
        """The prompts that wait, the next one first."""
        return (*self.held, *(job for job in self.jobs.waiting if isinstance(job, PromptJob)))

    def hold(self) -> None:
        """Hold the waiting prompts; commands in front of the first one run."""
        waiting = [job for job in self.jobs.waiting if isinstance(job, PromptJob)]
        for job in dropwhile(lambda job: job.command is not None and job.command.is_answered, waiting):
            self.jobs.remove(job)
            self.held.append(job)

    def release(self) -> None:
        """Let the held prompts run, behind the other jobs."""
        held, self.held = self.held, []
        for job in held:
            self.jobs.put(job)

    @property
    def compactions(self) -> tuple[str, ...]:
        """The ids of the compactions that wait, the next one first."""
        return tuple(job.compaction_id for job in self.jobs.waiting if isinstance(job, CompactJob))

    @property
    def to_keep(self) -> tuple[PromptJob, ...]:
        """The prompts that may not be part of the conversation yet, in their order."""
        running = self.running
        if running is None or running.command is not None or self.is_ending:
            return (*self.steered, *self.waiting)
        return (running, *self.steered, *self.waiting)

    @property
    def is_unstored(self) -> bool:
        """Whether the record on disk is another one than that of the queue as it is now."""
        return not self.is_frozen and self._items() != self._stored

    def load(self, records: Sequence[Mapping[str, Any]]) -> Sequence[StoredPrompt]:
        """Return the prompts of the newest ``queue`` record among *records*."""
        found = newest_record(_Record, "queue", records)
        self._stored = () if found is None else found.items
        return self._stored

    def take_record(self) -> Mapping[str, Any]:
        """Return the record of the queue as it is now, which is about to be stored."""
        self._stored = self._items()
        return {"type": "queue", **msgspec.to_builtins(_Record(self._stored))}

    def records_with(self, turns: Sequence[Turn]) -> Sequence[Mapping[str, Any]]:
        """Return the record of the queue without the prompts that enter the conversation as *turns*.

        There is none while the stored queue has none of them.
        """
        entering = set[str]()
        for job, turn in product(self.to_keep, turns):
            if job.turn is turn:
                entering.add(job.item_id)
        self.entered |= entering
        if not self._stored or entering.isdisjoint([item.item_id for item in self._stored]):
            return ()
        return (self.take_record(),)

    def _items(self) -> tuple[StoredPrompt, ...]:
        return tuple(
            StoredPrompt(job.item_id, job.content, job.author, job.budget)  # type: ignore[arg-type]  # JSON objects are dicts
            for job in self.to_keep
            if job.item_id not in self.entered
        )
