"""Questions to the user: put to every client that controls the session, answered by the first of them.

One board holds every open question of a session, those for permission and the forms of the model and of tool
servers. Each controller is asked at once, and one that takes control later is asked then. The first answer
that counts decides; the question is taken back from all others, and when it expires.

A form survives the death of the daemon. No call waits for it any more then: loading a session gives a call
without a result one that says it was cut off, so that every call has exactly one. So the question is shown
again by itself, and its answer becomes the next prompt. The ``questions`` record of the session's file holds
the open forms of the model:

- It is stored before anyone is asked. A daemon that dies later asks again after the session is loaded.
- An answer is stored in it before anyone learns of it. A daemon that dies before the result of the call is
  stored does not ask again: the answer waits in the queue as a prompt.
- A call with a real result in the conversation is over, even where the record has it. The record is written
  without it before the turn settles.
- The record without a question that was shown again and the queue with its answer are stored in one piece.

So nothing is asked twice, answered twice or lost. The form of a tool server ends with the daemon, as the
server does: it would ask again itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import structs

from sidecar.capabilities.contract import Form, FormAnswer
from sidecar.conductor.clients import Audience, ClientPort
from sidecar.conductor.contract import Elicitation, ElicitationAnswer, PermissionRequest, WaitingFor
from sidecar.conductor.events import QuestionResolved
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.record.work import SessionWork
from sidecar.conductor.records import newest_record
from sidecar.llmgateway.contract import ToolResultBlock
from sidecar.text.forms import describe_form, fit_content
from sidecar.text.visible import make_visible

A = TypeVar("A")
Q = TypeVar("Q", PermissionRequest, Elicitation)

_log = logging.getLogger(__name__)

AGENT: Final = "agent"
_TYPE: Final = "questions"


class Poll(Generic[A]):
    """One question that waits for its first answer.

    Attributes:
        refusal: why a hook has answered with a no, None where none has.
    """

    def __init__(self, put: Callable[[ClientPort], Awaitable[A | None]], no: A) -> None:
        """Make a question.

        Args:
            put: asks one client, and returns None for no answer; it is cancelled when another one answers.
            no: the answer of a hook that refuses.
        """
        self._put = put
        self._no = no
        self._asked: dict[str, asyncio.Task[tuple[A | None, str]]] = {}
        self._done: asyncio.Queue[asyncio.Future[tuple[A | None, str]]] = asyncio.Queue()
        self._n_open = 0
        self.refusal: str | None = None

    def put(self, client: ClientPort) -> None:
        """Ask *client*, unless it is being asked."""
        asked = self._asked.get(client.client_id)
        if asked is None or asked.done():
            self._n_open += 1
            asked = self._asked[client.client_id] = asyncio.create_task(self.ask(client))
            asked.add_done_callback(self._done.put_nowait)

    def refuse(self, why: str) -> None:
        """Answer with a no, in place of the user."""
        answered: asyncio.Future[tuple[A | None, str]] = asyncio.get_running_loop().create_future()
        answered.set_result((self._no, "a hook"))
        self.refusal = why
        self._n_open += 1
        self._done.put_nowait(answered)

    async def first_answer(self) -> tuple[A | None, str]:
        """Return the first answer and its client; None once all that were asked have none.

        Where nobody was asked so far, the first client is waited for.
        """
        while self._n_open or not self._asked:
            answer, by = (await self._done.get()).result()
            self._n_open -= 1
            if answer is not None:
                return answer, by
        return None, "no client"

    async def withdraw(self) -> None:
        """Ask nobody any more."""
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def ask(self, client: ClientPort) -> tuple[A | None, str]:
        """Return the answer of *client*, and its name."""
        return await self._put(client), client.name


class QuestionBoard:
    """The open questions of one session, of every kind; *work* says that it waits meanwhile."""

    def __init__(self, sid: str, audience: Audience, work: SessionWork) -> None:
        self.sid = sid
        self.work = work
        self._audience = audience
        self._open: list[Poll[Any]] = []

    @property
    def controllers(self) -> Sequence[ClientPort]:
        """The clients that are asked."""
        return self._audience.controllers(self.sid)

    @property
    def listeners(self) -> Sequence[ClientPort]:
        """The clients that are notified of an end, the ones that are asked included."""
        found = (*self.controllers, *self._audience.listeners(self.sid))
        return tuple({each.client_id: each for each in found}.values())

    def as_asked(self, question: Q, client: ClientPort) -> Q:
        """Return *question* as *client* is asked.

        A client that controls the parent of a sub-agent, and does not follow the sub-agent, is asked in the
        name of the parent, about the call that the sub-agent works for.
        """
        call = self._audience.parent_calls.get(self.sid)
        if call is None or client in self._audience.listeners(self.sid):
            return question
        shared: dict[str, Any] = {"sid": call.sid, "turn_id": None, "child": self.sid}
        if isinstance(question, PermissionRequest):
            shared["title"] = f"{question.title} (sub-agent)"
            shared["subject"] = replace(question.subject, tool_call_id=call.call_id)
        else:
            shared |= {"message": f"{question.message} (sub-agent)", "tool_call_id": call.call_id}
        return replace(question, **shared)

    def ask_newcomer(self, client: ClientPort) -> None:
        """Put the open questions to *client*, which has just taken control of the session."""
        for poll in self._open:
            poll.put(client)

    async def ask(
        self, poll: Poll[A], timeout_ms: int, *, waiting_for: WaitingFor, text: str, **details: Any
    ) -> tuple[A | None, str]:
        """Return the first answer of a controller, and its name; None when none of them has one.

        Args:
            poll: the question.
            timeout_ms: how long to wait.
            waiting_for: the kind of decision.
            text: one line about it.
            **details: JSON values about it, for hooks.

        Raises:
            TimeoutError: no answer came in time.
        """
        for client in self.controllers:
            poll.put(client)
        self._open.append(poll)
        try:
            with self.work.wait_for(waiting_for, text, poll.refuse, **details):
                async with asyncio.timeout(timeout_ms / 1000):
                    return await poll.first_answer()
        finally:
            self._open.remove(poll)
            await poll.withdraw()


class StoredQuestion(msgspec.Struct, frozen=True):
    """A form as it is stored.

    *after* is the newest node when it was asked: ids of calls may repeat, but not behind it. *answer* is None
    until the user has accepted the form.
    """

    question: Elicitation
    after: str | None
    answer: Mapping[str, Any] | None = None


class _Record(msgspec.Struct, frozen=True):
    """The ``questions`` record, without its type."""

    items: tuple[StoredQuestion, ...]


class Questions:
    """The forms of one session; see the head of this module.

    Attributes:
        restored: the questions of an earlier process, which :class:`~sidecar.conductor.turns.answers.Answers`
            takes over.
    """

    def __init__(self, record: SessionRecord, board: QuestionBoard, timeout_s: float) -> None:
        self._record = record
        self._board = board
        self._timeout_ms = round(timeout_s * 1000)
        self._open: dict[str, Elicitation] = {}
        self._kept: dict[str, StoredQuestion] = {}
        self._stored: tuple[StoredQuestion, ...] = ()
        self.restored: tuple[StoredQuestion, ...] = ()

    @property
    def open(self) -> tuple[Elicitation, ...]:
        """The forms that wait for an answer, oldest first."""
        return tuple(self._open.values())

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take in the newest record of *records*, for the loaded conversation."""
        found = newest_record(_Record, _TYPE, records)
        if found is None or not found.items:
            return
        self._stored = found.items
        entries = self._record.history.graph.entries

        def has_result(stored: StoredQuestion) -> bool:
            """Whether the call has a result of its own, on any branch."""
            newer = dropwhile(lambda name: name != stored.after, entries) if stored.after else entries
            blocks = (block for name in newer for block in entries[name].turn.blocks)
            return any(
                isinstance(block, ToolResultBlock)
                and block.call_id == stored.question.tool_call_id
                and not block.is_error
                for block in blocks
            )

        self.restored = tuple(
            structs.replace(each, question=replace(each.question, turn_id=None))
            for each in found.items
            if not has_result(each)
        )
        self._kept = {each.question.elicitation_id: each for each in self.restored}

    async def ask(self, form: Form) -> FormAnswer:
        """Put *form* to the user and return the answer."""
        record = self._record
        question = Elicitation(
            sid=record.sid,
            turn_id=record.events.turn_id,
            elicitation_id=record.new_id(),
            asker=form.asker,
            message=make_visible(form.message),
            schema=form.schema,
            expires_at=record.clock_ms() + self._timeout_ms,
            tool_call_id=form.call_id,
            url=form.url,
        )
        if form.asker == AGENT:
            self._kept[question.elicitation_id] = StoredQuestion(question, record.history.head)
            await self.store()
        return await self._put(question)

    async def ask_again(self, restored: StoredQuestion) -> FormAnswer:
        """Put a restored question to the user, for the whole time again; no call waits for its answer."""
        expires_at = self._record.clock_ms() + self._timeout_ms
        return await self._put(replace(restored.question, expires_at=expires_at, tool_call_id=None))

    def forget(self, elicitation_id: str) -> None:
        """Keep a form no longer; it is stored with the next record."""
        self._kept.pop(elicitation_id, None)

    def forget_answered(self) -> None:
        """Keep no form of a turn any more, now that it has ended and its results are stored."""
        self._kept = {name: each for name, each in self._kept.items() if each.question.turn_id is None}

    async def store(self) -> None:
        """Store the forms that are kept, where that changes the record."""
        if records := self.take_records():
            await self._record.history.append_records(*records)

    def take_records(self) -> Sequence[Mapping[str, Any]]:
        """Return the record that is about to be stored; none where it would be as it is."""
        items = tuple(self._kept.values())
        if items == self._stored or self._record.queue.is_frozen:
            return ()
        self._stored = items
        return ({"type": _TYPE, **msgspec.to_builtins(_Record(items))},)

    async def _put(self, question: Elicitation) -> FormAnswer:
        """Ask, and report the question and its end to every client."""
        name, answer, by = question.elicitation_id, FormAnswer("cancel"), "the tool call"
        self._open[name] = question
        self._record.events.emit(question)
        try:
            answer, by = await self.first_answer(question)
            if answer.action == "accept" and name in self._kept:
                self._kept[name] = structs.replace(self._kept[name], answer=answer.content)
                await self.store()
        finally:
            # Also when the tool call was cancelled: no client may go on showing the question.
            del self._open[name]
            if answer.action != "accept" and not self._record.queue.is_frozen:
                self.forget(name)
            self._record.events.emit(QuestionResolved(name, answer.action, by))
            for client in self._board.listeners:
                sid = self._board.as_asked(question, client).sid
                client.elicit_resolved(sid, name, answer.action, by)
        if answer.action == "unasked":
            self._record.events.emit_text(describe_form(question.message, question.schema, question.url))
        return answer

    async def first_answer(self, question: Elicitation) -> tuple[FormAnswer, str]:
        """Return the answer to a form, and its client."""

        async def put(client: ClientPort) -> FormAnswer | None:
            answer = await client.elicit(self._board.as_asked(question, client))
            return None if answer is None else read_answer(question.schema, answer)

        poll, details = Poll(put, no=FormAnswer("decline")), {"from": question.asker}
        asking = self._board.ask(
            poll, self._timeout_ms, waiting_for="question", text=question.message, **details
        )
        try:
            answer, by = await asking
        except TimeoutError:
            return FormAnswer("expired"), "timeout"
        if poll.refusal is not None:
            return FormAnswer("decline", why=poll.refusal), by
        return answer or FormAnswer("unasked"), by


def read_answer(schema: Mapping[str, Any], answer: ElicitationAnswer) -> FormAnswer | None:
    """Return a client's answer to a form, None for one that does not count.

    >>> read_answer({"properties": {"n": {"type": "integer"}}}, ElicitationAnswer("accept", {"n": "one"}))
    >>> read_answer({}, ElicitationAnswer("shrug"))
    """
    match answer.action:
        case "decline":
            return FormAnswer("decline")
        case "cancel":
            return FormAnswer("cancel")
        case "accept":
            try:
                return FormAnswer("accept", fit_content(schema, answer.content))
            except ValueError as error:
                _log.warning("an answer to a form does not fit it and is not used")
                _log.debug("it does not fit: %s", error)
    return None
