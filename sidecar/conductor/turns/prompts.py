"""Prompts of one session: submitted, queued, edited, steered into the running turn, interrupted.

Every method decides and emits its decision before it returns, so that calls take effect in their order; only
:meth:`Prompts.wait_until_entered` waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, Final, Literal, TypedDict, Unpack

from sidecar._internal.errors import InvalidInput, log_fault
from sidecar._internal.values import Value
from sidecar.conductor.content import Content, content_to_prompt, parse_command
from sidecar.conductor.contract import Author, QueueItem
from sidecar.conductor.errors import ItemNotFound, NotSteerableError, QueueFullError, SessionBusyError
from sidecar.conductor.events import QueueChanged, Settled, UserMessage
from sidecar.conductor.record.log import count_chars
from sidecar.conductor.record.queue import (
    MAX_WAITING,
    PromptJob,
    SubmitReceipt,
    TurnOutcome,
)
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.turns.agent import SessionAgent
from sidecar.conductor.turns.runner import TurnRunner, resolve, unknown_usage
from sidecar.conductor.window.request import NextRequest
from sidecar.conductor.workbench.extensions import SessionExtensions
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import CostBudget, UserTurn
from sidecar.permissions.rules import parse_rule
from sidecar.text.clip import clip

_KEYS_KEPT = 256
"""The number of idempotency keys that are remembered."""

_KEY_CHARS: Final = 1_000

_MAX_WAITING_CHARS: Final = 16_000_000
"""No further prompt is accepted while the waiting ones hold that many characters together."""

_ITEMS_SHOWN: Final = 16
_CHARS_SHOWN: Final = 1_000


class SubmitOptions(TypedDict, total=False):
    """Options of a prompt.

    Attributes:
        when_busy: the action while the session is busy; "queue" unless given.
        expect_head: the node that must be the head; any node unless given.
        idempotency_key: a second prompt with the same key returns the receipt of the first.
        author: the client that sends the prompt.
        max_model_calls: the limit of model calls for this turn alone.
        allow: the rules that allow actions in this turn alone, as the settings have them.
        budget: the budget for this turn alone.
    """

    when_busy: Literal["queue", "steer", "reject"]
    expect_head: str | None
    idempotency_key: str | None
    author: Author | None
    max_model_calls: int | None
    allow: Sequence[str]
    budget: CostBudget | None


class Interruption(Value):
    """Whether there was a turn to stop, and the removed prompts where the caller wants them back."""

    accepted: bool
    returned: tuple[Content, ...] | None = None


class SteerResult(Value):
    """The disposition of a prompt for a running turn, and the turn that answers it."""

    outcome: Literal["injected", "queued", "startedNewTurn"]
    turn_id: str


_STEER_OUTCOMES: Final[dict[str, Literal["injected", "queued", "startedNewTurn"]]] = {
    "steered": "injected",
    "queued": "queued",
    "started": "startedNewTurn",
}


class Prompts:
    """The prompts of one session."""

    def __init__(
        self,
        record: SessionRecord,
        extensions: SessionExtensions,
        request: NextRequest,
        agent: SessionAgent,
        runner: TurnRunner,
    ) -> None:
        self._record = record
        self._queue = record.queue
        self._jobs = record.queue.jobs
        self._extensions = extensions
        self._request = request
        self._agent = agent
        self._runner = runner
        self._emitted: tuple[tuple[QueueItem, ...], tuple[str, ...]] = ((), ())
        self._by_key: OrderedDict[str, SubmitReceipt] = OrderedDict()
        record.history.watch(self.on_moved)

    def check_room(self, n_added: int = 1) -> None:
        """Raise QueueFullError when *n_added* more requests must not wait in the session."""
        waiting = (*self._jobs.waiting, *self._queue.steered)
        n_chars = sum(count_chars(job.content) for job in waiting if isinstance(job, PromptJob))
        if len(waiting) + n_added > MAX_WAITING or n_chars >= _MAX_WAITING_CHARS:
            raise QueueFullError(self._record.sid, len(waiting))

    def items(self) -> tuple[QueueItem, ...]:
        """Return the prompts that wait, the next one first."""
        return tuple(job.as_item() for job in self._queue.waiting)

    def submit(self, content: Content, **options: Unpack[SubmitOptions]) -> SubmitReceipt:
        """Accept a prompt or a slash command: it runs now, waits, or is steered into the running turn.

        Raises InvalidInput, HeadMovedError, QueueFullError, or SessionBusyError when *when_busy* is "reject".
        """
        key = options.get("idempotency_key")
        if key is not None and len(key) > _KEY_CHARS:
            raise InvalidInput(f"an idempotency key has at most {_KEY_CHARS} characters, not {len(key)}")
        if key is not None and key in self._by_key:
            return self._by_key[key]
        job = self._job(content, options.get("author"))
        job.max_model_calls = options.get("max_model_calls")
        if job.max_model_calls is not None and job.max_model_calls < 1:
            raise InvalidInput(f"maxModelCalls must be 1 or more, not {job.max_model_calls}")
        try:
            job.allow = tuple(map(parse_rule, options.get("allow", ())))
            job.budget = budget.check() if (budget := options.get("budget")) is not None else None
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        if (expect_head := options.get("expect_head")) is not None:
            self._record.check_head(expect_head)
        receipt = self._place(job, options.get("when_busy", "queue"))
        if key is not None:
            self._by_key[key] = receipt
            while len(self._by_key) > _KEYS_KEPT:
                self._by_key.popitem(last=False)
        return receipt

    async def wait_until_entered(self, receipt: SubmitReceipt) -> SubmitReceipt:
        """Return *receipt* once the prompt is stored: with its node, or in the queue for one that waits."""
        if receipt.disposition != "started":
            await self._record.store_queue()
            return receipt
        node = await asyncio.shield(receipt.entered)
        if node is None:  # room is made for it first
            await self._record.store_queue()
        return replace(receipt, user_node_id=node)

    def steer(
        self, content: Content, expect_turn_id: str | None, author: Author | None = None
    ) -> SteerResult:
        """Steer a prompt into the turn *expect_turn_id*; if that has ended, begin a new turn with it.

        Args:
            content: the prompt.
            expect_turn_id: the turn that the user saw when writing the prompt; None for the running one.
            author: the client that sends the prompt.

        Raises:
            NotSteerableError: no turn runs, or another turn than the expected one runs.
            QueueFullError: too much waits already.
        """
        job, running = self._job(content, author), self._queue.running
        if expect_turn_id is None:
            if running is None or not self._runner.may_steer:
                raise NotSteerableError("no turn is running", hint="sidecar/turn/start takes a prompt")
            expect_turn_id = running.turn_id
        known = (running, *self._queue.waiting)
        is_over = not any(other is not None and other.turn_id == expect_turn_id for other in known)
        if is_over and self._jobs.is_busy:
            hint = "sidecar/turn/start queues a prompt"
            raise NotSteerableError(f"turn {expect_turn_id!r} has ended and the session is busy", hint=hint)
        is_running = running is not None and running.turn_id == expect_turn_id
        receipt = self._place(job, "steer" if is_running else "queue")
        return SteerResult(_STEER_OUTCOMES[receipt.disposition], receipt.turn_id)

    def interrupt(self, turn_id: str | None, queue: Literal["keep", "drop", "return"]) -> Interruption:
        """Stop the turn *turn_id*, or the current one for None.

        A prompt that was steered into the running turn and has not entered it yet goes back to the queue
        first.

        Args:
            turn_id: the turn to stop, running or waiting.
            queue: whether the waiting prompts stay, are dropped, or are removed and returned.
        """
        running = self._queue.running
        is_over = running is not None and self._queue.is_over
        if turn_id is None and (self._jobs.current is None or is_over):
            # A prompt that was submitted a moment ago and has not begun is the current turn too.
            turn_id = next((job.turn_id for job in self._queue.waiting), None)
        runs = running is not None and not is_over and turn_id in (None, running.turn_id)
        if runs:
            taken_back = self._agent.take_back_queued()
            steered, self._queue.steered = self._queue.steered, []
            self._jobs.put_back([job for job in steered if any(job.turn is back for back in taken_back)])
            self._runner.stop()
        waiting = self._queue.waiting
        named = [job for job in waiting if job.turn_id == turn_id]
        # Behind a compaction prompts wait, and no turn is the current one.
        drops = queue != "keep" and (runs or named or turn_id is None)
        out = list(waiting) if drops else named
        if not runs and not out:
            return Interruption(False)
        for job in out:
            self._take_out(job)
        if waiting:
            self.emit_queue()
        return Interruption(True, tuple(job.content for job in out) if queue == "return" else None)

    def edit(self, item_id: str, content: Content) -> None:
        """Replace the content of a waiting prompt. Raises ItemNotFound, QueueFullError."""
        self.check_room(0)
        job, new = self._item(item_id), self._job(content)
        job.content, job.turn, job.command = new.content, new.turn, new.command
        self.emit_queue()

    def remove(self, item_id: str) -> None:
        """Remove a waiting prompt; its turn ends as cancelled. Raises ItemNotFound."""
        self._take_out(self._item(item_id))
        self.emit_queue()

    def restore(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Hold the prompts of the stored queue among *records*.

        They are turns of their own: the turns that an earlier process had announced ended with it.
        """
        for prompt in self._queue.load(records):
            with suppress(InvalidInput):
                job = self._job(prompt.content, prompt.author)
                job.item_id, job.budget = prompt.item_id, prompt.budget
                self._queue.held.append(job)

    def hold(self, content: Content) -> None:
        """Hold a prompt that a user gave to an earlier process; it runs with the next one."""
        self._queue.held.append(self._job(content))

    def settle_unrun(self, job: PromptJob) -> None:
        """End a prompt that never ran, as cancelled."""
        resolve(job.entered, None)
        head = self._record.history.head
        try:
            usage = self._request.usage()
        except Exception as error:
            log_fault("the context meter", error)
            usage = unknown_usage(head)
        last = Settled(job.turn_id, "cancelled", head, usage, 0)
        self._record.events.emit_for(job.turn_id, last)
        if not job.outcome.done():
            job.outcome.set_result(TurnOutcome(last))

    def on_begin(self) -> None:
        """Forget the turn before, now that a prompt has left the queue."""
        self._queue.entered.clear()
        self._queue.is_over = False
        self.emit_queue_if_changed()

    def emit_queue_if_changed(self) -> None:
        """Emit the queue, now that a job has left it, unless clients know this queue already."""
        if self._emitted != (self.items(), self._queue.compactions):
            self.emit_queue()

    def on_moved(self, appended: Sequence[Entry] | None) -> None:
        """Emit the prompts that the agent has let into the running turn."""
        for job, entry in product(self._queue.steered, appended or ()):
            if job.turn is entry.turn:
                self._record.events.emit(UserMessage(entry.node_id, job.content, job.author))

    def on_end(self) -> None:
        """Forget the prompts that were steered into the turn, now that it has ended.

        After a turn that ended at the budget of a session or a day, the prompts that wait are held.
        """
        self._queue.steered.clear()
        if self._record.spending.blocks_prompts:
            self._queue.hold()

    def _place(self, job: PromptJob, when_busy: str) -> SubmitReceipt:
        sid, busy = self._record.sid, self._jobs.is_busy
        if busy and when_busy == "reject":
            raise SessionBusyError(
                f"session {sid!r} is busy", hint='use whenBusy "queue" or "steer"', sid=sid
            )
        self.check_room()
        if not self._record.spending.blocks_prompts:  # else each would only be stopped, unanswered
            self._queue.release()
        busy = self._jobs.is_busy
        running = self._queue.running
        disposition: Literal["started", "queued", "steered"]
        may_enter = when_busy == "steer" and job.command is None and self._runner.may_steer
        if running is not None and may_enter:
            # It enters at the next safe step of the agent.
            if job.author is not None:
                self._record.history.note_author(job.turn, job.author.client_id)
            self._agent.steer(job.turn, job.content)
            self._queue.steered.append(job)
            job, disposition = running, "steered"
        else:
            self._jobs.put(job)
            disposition = "queued" if busy else "started"
        position = None
        if disposition == "queued":
            self.emit_queue()
            position = len(self._queue.waiting)
        return SubmitReceipt(
            turn_id=job.turn_id,
            user_node_id=None,
            disposition=disposition,
            position=position,
            entered=job.entered,
            outcome=job.outcome,
        )

    def _take_out(self, job: PromptJob) -> None:
        """Remove a waiting prompt from the queue, and end it as cancelled."""
        if job in self._queue.held:
            self._queue.held.remove(job)
        else:
            self._jobs.remove(job)
        self.settle_unrun(job)

    def _job(self, content: Content, author: Author | None = None) -> PromptJob:
        """Return *content* as a job. Raises InvalidInput."""
        turn = UserTurn(content_to_prompt(content))
        loop, new_id = asyncio.get_running_loop(), self._record.new_id
        command = parse_command(content, self._extensions.names)
        entered, outcome = loop.create_future(), loop.create_future()
        return PromptJob(
            item_id=new_id(),
            turn_id=new_id(),
            content=content,
            turn=turn,
            command=command,
            entered=entered,
            outcome=outcome,
            author=author,
        )

    def _item(self, item_id: str) -> PromptJob:
        for job in self._queue.waiting:
            if job.item_id == item_id:
                return job
        raise ItemNotFound(self._record.sid, item_id)

    def emit_queue(self) -> None:
        """Emit the queue."""
        items, compactions = self._emitted = self.items(), self._queue.compactions
        # Not whole: each event stays in the log, and a queue of n prompts emits n events.
        shown = tuple(replace(item, input=shorten(item.input)) for item in items[:_ITEMS_SHOWN])
        self._record.events.emit(QueueChanged(shown, len(items), compactions))


def shorten(value: Any) -> Any:
    """Return a JSON value with each text in it cut to 1,000 characters.

    >>> shorten(({"type": "text", "text": "x" * 2_000},))[0]["text"].endswith("x…")
    True
    """
    if isinstance(value, str):
        return clip(value, _CHARS_SHOWN)
    if isinstance(value, Mapping):
        return {name: shorten(each) for name, each in value.items()}
    return tuple(map(shorten, value)) if isinstance(value, list | tuple) else value
