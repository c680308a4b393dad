"""The course of one turn, from its first event to its last.

The turn compacts if the prompt would not fit, stores the prompt, lets the agent answer, stores the session
and publishes the end. The ``settled`` or ``faulted`` event is the last of its turn, and everything it
reports is on disk by then. The turn of a slash command only runs the command and publishes its answer;
nothing is stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError, log_fault
from sidecar._internal.values import Value
from sidecar.conductor.content import prompt_title, turn_content
from sidecar.conductor.contract import ContextUsage, StopReasonName, TurnEnd
from sidecar.conductor.errors import ModelNotFound
from sidecar.conductor.events import Faulted, InfoChanged, Notice, Settled, UserMessage
from sidecar.conductor.record.branching import branch_entry
from sidecar.conductor.record.queue import PromptJob, TurnOutcome
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.record.work import last_event
from sidecar.conductor.spending import BudgetReachedError
from sidecar.conductor.turns.agent import SessionAgent
from sidecar.conductor.turns.commands import Commands
from sidecar.conductor.turns.options import Options
from sidecar.conductor.window.request import NextRequest
from sidecar.conductor.workbench.mentions import note_entry
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import AssistantTurn, GatewayError, TextBlock, UserTurn, join_texts
from sidecar.runtime.contract import RunSnapshot

_MIN_WINDOW = 4_096
"""A refusal of fewer tokens is about something else that was too large, such as an image."""

_FAULT_KINDS = {
    "model_failed": "modelFailed",
    "turn_budget": "turnBudget",
    "invalid_state": "invalidState",
}
_MOST_STOPS_REFUSED: Final = 3
"""How often hooks may let the agent go on in one turn."""

_MOST_CONTINUATIONS: Final = 3
"""How often an answer that was cut at its greatest length is gone on with in one turn."""

_GO_ON: Final = "Your answer was cut off at its greatest length. Go on where it ended, and repeat nothing."

_STOP_REASONS: dict[str | None, StopReasonName] = {"max_output": "max_tokens", "refusal": "refusal"}


class _Answer(Value):
    """The result of a turn, before it is stored and published; *error_kind* is empty unless it failed."""

    stop: StopReasonName
    text: str = ""
    error_kind: str = ""
    message: str = ""
    budget: BudgetReachedError | None = None


class TurnRunner:
    """Runs the turns of one session, one at a time."""

    def __init__(
        self,
        record: SessionRecord,
        workbench: Workbench,
        request: NextRequest,
        *,
        agent: SessionAgent,
        commands: Commands,
        options: Options,
    ) -> None:
        self._record = record
        self._history = record.history
        self._events = record.events
        self._request = request
        self._agent = agent
        self._policy = workbench.policy
        self._extensions = workbench.extensions
        self._background = workbench.background
        self._questions = workbench.questions
        self._context = workbench.prompt_context
        self._commands = commands
        self._options = options
        self._stop = CancelToken()

    @property
    def may_steer(self) -> bool:
        """Whether the agent is at work on a turn that nobody has stopped."""
        return self._agent.is_running and not self._was_stopped()

    def _was_stopped(self) -> bool:
        return self._stop.cancelled

    def stop(self) -> None:
        """Stop the running turn at once; it ends as cancelled."""
        self._stop.cancel("the turn was stopped")
        self._agent.stop()

    async def run(self, job: PromptJob) -> None:
        """Run *job* from its first event to its last."""
        started_ms = self._record.clock_ms()
        self._record.look_up_card()
        self._stop = CancelToken()
        self._record.queue.is_ending = False
        self._events.begin_turn(job.turn_id)
        self._policy.turn_rules = job.allow
        if job.command is None:
            self._record.spending.begin_prompt(job.budget)
        try:
            answer = await self._answer(job)
            if not answer.error_kind and answer.stop == "end_turn" and not answer.text:
                text = "Ask it to go on, or what it has found."
                self._events.emit(Notice("info", "The model ended its turn without a word", text))
            if answer.budget is not None:
                self._record.spending.stopped_by = answer.budget
                self._events.emit(Notice("warning", "A budget is used up", answer.budget.message, "budget"))
        except Exception as error:
            answer = _error_answer("a turn", error)
        await self._end(job, answer, started_ms)

    async def _answer(self, job: PromptJob) -> _Answer:
        """Run a command, or let the agent answer a prompt that no hook refuses."""
        self._record.notices.emit_pending()
        self._events.set_phase("invoking")
        extensions, refusal = self._extensions, None
        if job.command is not None and not job.command.is_answered:
            refusal = await extensions.expand(job)
        if refusal is None and job.command is None:
            refusal = await extensions.check_prompt(job, self._stop)
        if refusal is not None or job.command is not None:
            resolve(job.entered, None)
            self._events.emit(UserMessage(None, job.content, job.author))
            text = refusal or ""
            if refusal is None and job.command is not None:
                text = await self._commands.run(job.command, self._stop)
            self._events.emit_text(text)
            return _Answer("cancelled" if self._was_stopped() else "end_turn", text)
        if job.model is not None:
            answer = answer_of(await self.answer_with_model(job, job.model))
        else:
            answer = answer_of(await self._answer_prompt(job))
        answer = await self.go_on_after_cut(job, answer)
        return await self.go_on_for_hooks(job, answer)

    async def answer_with_model(self, job: PromptJob, model: str) -> RunSnapshot | None:
        """Return the end of the agent's run with *model*; the session's own is chosen again behind it."""
        own = self._record.info.model
        await self._options.prepare("model", model)
        try:
            self._options.choose("model", model)
        except ModelNotFound as error:
            self._events.emit(Notice("warning", f"{model} is not used for this command", error.message))
        self._record.own_models = {model: own}  # stored meanwhile, for a daemon that dies
        try:
            return await self._answer_prompt(job)
        finally:
            self._record.own_models = {}
            if self._record.info.model == model:  # else the user has chosen another one meanwhile
                self._options.choose("model", own)

    async def go_on_after_cut(self, job: PromptJob, answer: _Answer) -> _Answer:
        """Let the agent go on with an answer that was cut at its greatest length.

        Where a call was cut, its result says so to the model already.
        """
        for _ in range(_MOST_CONTINUATIONS):
            if answer.error_kind or answer.stop != "max_tokens" or self._was_stopped():
                break
            is_text = self._history.current[-1].kind == "assistant"
            if is_text:
                await self._history.append(note_entry(_GO_ON))
            following = await self._agent.go_on(job.max_model_calls)
            if following is None:
                break
            more = answer_of(following)
            answer = replace(more, text=f"{answer.text}{more.text}") if is_text else more
        return answer

    async def go_on_for_hooks(self, job: PromptJob, answer: _Answer) -> _Answer:
        """Let the agent go on while a hook does not let it stop, for a bounded number of times."""
        for _ in range(_MOST_STOPS_REFUSED):
            if answer.error_kind or answer.stop != "end_turn":
                break
            asked = await self._extensions.may_stop(answer.text, self._stop)
            if asked is None or self._was_stopped():
                break
            node = await self._history.append(Entry(asked, "user"))
            self._events.emit(UserMessage(node, turn_content(asked)))
            answer = answer_of(await self._agent.answer(self._stop, job.max_model_calls))
        return answer

    async def _answer_prompt(self, job: PromptJob) -> RunSnapshot | None:
        """Return the end of the agent's run, None when it was stopped before it began."""
        in_front = await self._context.read_mentions(job.turn, job.content)
        entering = [block for entry in in_front for block in entry.turn.blocks]
        prompt = UserTurn((*entering, *job.turn.blocks)) if entering else job.turn
        await self._agent.make_room(prompt, lambda: resolve(job.entered, None))
        self._record.notices.emit_pending()
        if self._stop.cancelled:
            return None
        # After a compaction, which drops the earlier notes.
        in_front = (*in_front, *await self._context.describe_editor())
        node = await self._store_prompt(job, in_front)
        resolve(job.entered, node)
        self._events.emit(UserMessage(node, job.content, job.author))
        snapshot = await self._agent.answer(self._stop, job.max_model_calls)
        error = snapshot.error if snapshot is not None else None
        refusal = error.cause if error is not None else None
        if snapshot is None or not isinstance(refusal, GatewayError) or not refusal.is_overflow:
            return snapshot
        refused_tokens = self._request.usage().used
        # Where the provider does not tell its window, what it refused is more than that.
        window = refusal.window_tokens or (refused_tokens if refused_tokens >= _MIN_WINDOW else None)
        if window is not None:
            self._record.models.learn_window(snapshot.model, window)
            self._record.look_up_card()
        if self._was_stopped():
            return snapshot
        again = await self._agent.answer_after_overflow(self._stop)
        return again if again is not None or self._was_stopped() else snapshot

    async def _store_prompt(self, job: PromptJob, in_front: tuple[Entry, ...]) -> str | None:
        """Store the prompt before it is answered, together with the session's record.

        The record says that the turn was interrupted, for a process that loads it before the turn has its
        end. The digest of a branch that was left stands in front of the prompt, and then the entries
        *in_front*.
        """
        news = self._background.take_news()
        # Not in the events: a client shows the prompt as it was typed.
        turn = UserTurn((*job.turn.blocks, TextBlock(news))) if news else job.turn
        prompt, left = (
            Entry(turn, "user", author=None if job.author is None else job.author.client_id),
            "\n\n".join(filter(None, (self._record.info.fork_digest, self._record.info.left_branch))),
        )
        title = self._record.info.title or prompt_title(job.turn.blocks)
        self._record.amend(partial(replace, title=title, left_branch="", left_head=None, fork_digest=""))
        async with self._history.transaction():
            node = await self._history.append(*([branch_entry(left)] if left else []), *in_front, prompt)
            await self._history.append_records(self._record.take_record())
        return node

    async def _end(self, job: PromptJob, answer: _Answer, started_ms: int) -> None:
        """Store the turn and publish its last event; a step that raises makes it a fault."""
        self._record.queue.is_ending = True
        self._history.forget_notes()
        head = self._history.head
        resolve(job.entered, head)
        usage = unknown_usage(head)

        def close(answer: _Answer) -> Settled | Faulted:
            """Return the last event of a turn with *answer*, which is stored from now on as its end."""
            end = self._record.work.closing = TurnEnd(
                turn_id=job.turn_id,
                head=head if job.item_id in self._record.queue.entered else None,
                stop_reason=None if answer.error_kind else answer.stop,
                error_kind=answer.error_kind,
                message=answer.message,
                duration_ms=max(0, self._record.clock_ms() - started_ms),
            )
            return last_event(end, head, usage)

        try:
            usage = self._request.usage()
            close(answer)
            await self._store(job, usage)
            self._events.emit(usage)
        except Exception as error:
            answer = _error_answer("the end of a turn", error)
        if self._was_stopped():  # at the last moment too: whoever stopped it was promised this end
            answer = replace(answer, stop="cancelled")
        self._record.queue.is_over = True
        last = close(answer)
        try:
            self._events.set_phase(last.kind)
            self._events.emit(last)
        except Exception as error:
            # Events that were collected before it may be the cause; they are gone now. A turn without a last
            # event never ends for its client.
            answer = _error_answer("the last event of a turn", error)
            last = close(answer)
            self._events.emit(last)
        finally:
            self._events.end_turn()
            if job.command is None:
                problem = {"error": answer.message} if answer.error_kind else {}
                told = {
                    "text": answer.text,
                    "stopReason": answer.stop,
                    "durationMs": last.duration_ms,
                    **problem,
                }
                self._extensions.report_end(told)
            # Done already when the client that waited for it was cancelled.
            if not job.outcome.done():
                job.outcome.set_result(TurnOutcome(last, answer.text))

    async def _store(self, job: PromptJob, usage: ContextUsage) -> None:
        now = self._record.clock_ms()
        title = self._record.info.title or ("" if job.command is not None else prompt_title(job.turn.blocks))
        self._record.amend(lambda info: replace(info, title=title))
        self._record.resize(usage, now)
        self._events.emit(InfoChanged(title, now))
        self._questions.forget_answered()
        await self._questions.store()
        await self._record.store()


def resolve(future: asyncio.Future[str | None], value: str | None) -> None:
    """Resolve *future* unless that has been done."""
    if not future.done():
        future.set_result(value)


def unknown_usage(head: str | None) -> ContextUsage:
    """Return the usage of a session that cannot be weighed."""
    return ContextUsage(0, 0, 0, 0.0, "estimate", head, {})


def _error_answer(where: str, error: Exception) -> _Answer:
    if isinstance(error, SidecarError):
        return _Answer("cancelled", error_kind=error.kind, message=error.message)
    log_fault(where, error)
    text = f"internal error ({type(error).__name__}); see the daemon's log"
    return _Answer("cancelled", error_kind="invalidState", message=text)


def answer_of(snapshot: RunSnapshot | None) -> _Answer:
    """Return the end of a run as the result of its turn; a run that was stopped on request did not fail."""
    error = snapshot.error if snapshot is not None else None
    if snapshot is None:
        return _Answer("cancelled")
    # The prose of the newest answer; none where the newest prompt has no answer.
    newest = next((turn for turn in reversed(snapshot.messages) if turn.role != "tool"), None)
    text = join_texts(newest.blocks) if isinstance(newest, AssistantTurn) else ""
    if error is None:
        return _Answer(_STOP_REASONS.get(snapshot.stop, "end_turn"), text)
    if error.kind == "aborted":
        return _Answer("cancelled", text)
    if isinstance(error.cause, BudgetReachedError):
        return _Answer("budget", text, budget=error.cause)
    is_auth = isinstance(error.cause, GatewayError) and error.cause.kind == "auth"
    kind = "authRequired" if is_auth else _FAULT_KINDS.get(error.kind, "invalidState")
    stop = _STOP_REASONS.get(snapshot.stop, "end_turn")
    return _Answer(stop, text, kind, error.message)
