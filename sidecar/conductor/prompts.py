"""The prompts of one session: taken in, queued, edited, given to the running turn, withdrawn, interrupted.

Every call decides at once and tells what it decided; only :meth:`Prompts.entered` waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack

from sidecar._internal.errors import log_fault
from sidecar.conductor.content import content_to_prompt
from sidecar.conductor.contract import Author, QueueItem
from sidecar.conductor.core import Core
from sidecar.conductor.errors import ItemNotFound, NotSteerableError, SessionBusyError
from sidecar.conductor.events import QueueChanged, Settled
from sidecar.conductor.jobs import Content, Job, PromptJob, SubmitReceipt, TurnOutcome
from sidecar.conductor.queue import JobQueue
from sidecar.conductor.slash import parse_command
from sidecar.conductor.turns import TurnRunner, resolve, unknown_usage
from sidecar.llmgateway.contract import UserTurn

__all__ = ["InterruptResult", "Prompts", "SteerResult", "SubmitOptions"]

_KEYS_KEPT = 256


class SubmitOptions(TypedDict, total=False):
    """How a prompt is to be taken.

    Attributes:
        when_busy: what to do while the session is at work; "queue" unless given.
        expect_head: the node the session must stand at, anywhere unless given.
        idempotency_key: a second prompt under the same key is the first one.
        author: the client that asks.
    """

    when_busy: Literal["queue", "steer", "reject"]
    expect_head: str | None
    idempotency_key: str | None
    author: Author | None


@dataclass(frozen=True, slots=True)
class InterruptResult:
    """Whether there was a turn to stop, and the prompts taken out of the queue where asked for."""

    accepted: bool
    returned: tuple[Content, ...] | None = None


@dataclass(frozen=True, slots=True)
class SteerResult:
    """What became of words meant for a running turn, and the turn that answers them."""

    outcome: Literal["injected", "queued", "startedNewTurn"]
    turn_id: str


class Prompts:
    """The prompts of one session."""

    def __init__(self, core: Core, queue: JobQueue[Job], runner: TurnRunner) -> None:
        self._core = core
        self._queue = queue
        self._runner = runner
        self._steered: list[PromptJob] = []
        self._emitted_queue: tuple[QueueItem, ...] = ()
        self._by_key: OrderedDict[str, SubmitReceipt] = OrderedDict()

    @property
    def running(self) -> PromptJob | None:
        """The prompt that is being answered."""
        return self._queue.current if isinstance(self._queue.current, PromptJob) else None

    def items(self) -> tuple[QueueItem, ...]:
        """Return the prompts that wait, the next one first."""
        return tuple(job.as_item() for job in self._waiting())

    def take(self, content: Content, **options: Unpack[SubmitOptions]) -> SubmitReceipt:
        """Take a prompt: it runs now, waits, or is given to the running turn. A slash command is one too."""
        key = options.get("idempotency_key")
        if key is not None and key in self._by_key:
            return self._by_key[key]
        job = self._job(content, options.get("author"))
        self._core.check_head(options.get("expect_head"))
        started = self._place(job, options.get("when_busy", "queue"))
        if key is not None:
            self._by_key[key] = started
            while len(self._by_key) > _KEYS_KEPT:
                self._by_key.popitem(last=False)
        return started

    async def entered(self, started: SubmitReceipt) -> SubmitReceipt:
        """Return *started* with the prompt's node, once it has one; of one that waits it is not known."""
        if started.disposition != "started":
            return started
        return replace(started, user_node_id=await asyncio.shield(started.entered))

    def steer(
        self, content: Content, expect_turn_id: str | None, author: Author | None = None
    ) -> SteerResult:
        """Give words to the turn they are meant for; when that is over, they begin a turn of their own.

        None is for whichever runs. Raises NotSteerableError when that is none, or another than was meant:
        it is not what the user saw when writing them.
        """
        job, running = self._job(content, author), self.running
        if expect_turn_id is None:
            expect_turn_id = self._turn_to_steer(running)
        known = (running, *self._waiting())
        is_over = not any(other is not None and other.turn_id == expect_turn_id for other in known)
        if is_over and self._queue.is_busy:
            hint = "sidecar/turn/start takes a prompt for whatever comes next"
            raise NotSteerableError(f"turn {expect_turn_id!r} is over and the session is at work", hint=hint)
        for_running = running is not None and running.turn_id == expect_turn_id
        started = self._place(job, "steer" if for_running else "queue")
        if started.disposition == "steered":
            return SteerResult("injected", started.turn_id)
        return SteerResult("queued" if started.disposition == "queued" else "startedNewTurn", started.turn_id)

    def interrupt(self, turn_id: str | None, queue: Literal["keep", "drop", "return"]) -> InterruptResult:
        """Stop the turn named, or the one at hand; *queue* is for the prompts that wait besides.

        A prompt that steered the running turn and was not let in yet waits again, and goes the same way.
        """
        running = self.running
        if turn_id is None and self._queue.current is None:
            # Taken a moment ago, and not begun: it is the turn at hand all the same.
            turn_id = next((job.turn_id for job in self._waiting()), None)
        runs = running is not None and turn_id in (None, running.turn_id)
        if runs:
            self._queue.put_back(self._withdraw_steered())
            self._runner.stop()
        waiting = self._waiting()
        named = [job for job in waiting if job.turn_id == turn_id]
        if not runs and not named:
            return InterruptResult(False)
        out = named if queue == "keep" else list(waiting)
        for job in out:
            self._queue.remove(job)
            self.settle_unrun(job)
        if waiting:
            self._emit_queue()
        return InterruptResult(True, tuple(job.content for job in out) if queue == "return" else None)

    def edit(self, item_id: str, content: Content) -> None:
        """Let a prompt that waits say something else. Raises ItemNotFound."""
        job, words = self._item(item_id), self._job(content)
        job.content, job.turn, job.command = words.content, words.turn, words.command
        self._emit_queue()

    def remove(self, item_id: str) -> None:
        """Take a prompt out of the queue; its turn ends as cancelled. Raises ItemNotFound."""
        job = self._item(item_id)
        self._queue.remove(job)
        self.settle_unrun(job)
        self._emit_queue()

    def settle_unrun(self, job: PromptJob) -> None:
        """End a prompt that never ran."""
        core = self._core
        resolve(job.entered, None)
        try:
            usage = core.usage()
        except Exception as error:
            log_fault("the context meter", error)
            usage = unknown_usage(core.history.head)
        outcome = TurnOutcome(job.turn_id, "cancelled", core.history.head, usage, "")
        core.events.flush()
        core.log.append(Settled(job.turn_id, "cancelled", outcome.head, outcome.usage, 0), job.turn_id)
        if not job.outcome.done():
            job.outcome.set_result(outcome)

    def begun(self) -> None:
        """A prompt is about to run; whoever was told that it waits is told that it does no more."""
        if self._emitted_queue != self.items():
            self._emit_queue()

    def ended(self) -> None:
        """The turn that ran, and may have been steered, is over."""
        self._steered.clear()

    def _turn_to_steer(self, running: PromptJob | None) -> str:
        if running is None or not self._runner.may_steer:
            raise NotSteerableError("no turn is running", hint="sidecar/turn/start takes a prompt")
        return running.turn_id

    def _place(self, job: PromptJob, when_busy: str) -> SubmitReceipt:
        sid, busy = self._core.info.sid, self._queue.is_busy
        if busy and when_busy == "reject":
            raise SessionBusyError(
                f"session {sid!r} is at work", hint='use whenBusy "queue" or "steer"', sid=sid
            )
        running = self.running
        may_enter = when_busy == "steer" and job.command is None and self._runner.may_steer
        if running is not None and may_enter:
            return self._inject(running, job)
        self._queue.put(job)
        if not busy:
            return SubmitReceipt(job.turn_id, None, "started", None, job.entered, job.outcome)
        self._emit_queue()
        position = len(self._waiting())
        return SubmitReceipt(job.turn_id, None, "queued", position, job.entered, job.outcome)

    def _inject(self, running: PromptJob, job: PromptJob) -> SubmitReceipt:
        """Give *job* to the running turn; it enters at the next safe step."""
        self._core.agent.steer((job.turn,))
        self._steered.append(job)
        self._core.emit_prompt(None, job)
        return SubmitReceipt(running.turn_id, None, "steered", None, running.entered, running.outcome)

    def _withdraw_steered(self) -> list[PromptJob]:
        """Take back the steering prompts that the agent has not let in yet."""
        withdrawn = [turn for turns in self._core.agent.withdraw() for turn in turns]
        steered, self._steered = self._steered, []
        return [job for job in steered if any(job.turn is back for back in withdrawn)]

    def _job(self, content: Content, author: Author | None = None) -> PromptJob:
        """Return *content* as a job. Raises InvalidInput."""
        turn = UserTurn(content_to_prompt(content))
        loop, new_id = asyncio.get_running_loop(), self._core.deps.new_id
        command = parse_command(content)
        entered, outcome = loop.create_future(), loop.create_future()
        return PromptJob(new_id(), new_id(), content, turn, command, entered, outcome, author)

    def _waiting(self) -> tuple[PromptJob, ...]:
        return tuple(job for job in self._queue.waiting if isinstance(job, PromptJob))

    def _item(self, item_id: str) -> PromptJob:
        for job in self._waiting():
            if job.item_id == item_id:
                return job
        raise ItemNotFound(self._core.info.sid, item_id)

    def _emit_queue(self) -> None:
        self._emitted_queue = self.items()
        self._core.events.emit(QueueChanged(self._emitted_queue))
