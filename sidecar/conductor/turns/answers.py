"""Answers to the questions of an earlier process, which died while they waited: each becomes a prompt.

A question that had its answer is a prompt of the queue at once; like the other restored ones it runs with the
next prompt. Any other question is shown again, and its answer is sent to the model when it comes. A question
that is declined or expires ends without a prompt. See :mod:`sidecar.conductor.workbench.questions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.errors import SidecarError
from sidecar.conductor.content import Content
from sidecar.conductor.contract import Elicitation
from sidecar.conductor.events import Notice
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.turns.prompts import Prompts
from sidecar.conductor.workbench.questions import Questions, StoredQuestion
from sidecar.text.forms import describe_answer


class Answers:
    """The answers of one session."""

    def __init__(self, record: SessionRecord, questions: Questions, prompts: Prompts) -> None:
        self._record = record
        self._questions = questions
        self._prompts = prompts
        self._waiting: set[asyncio.Task[None]] = set()

    async def restore(self) -> None:
        """Take over the questions of the loaded session."""
        restored, self._questions.restored = self._questions.restored, ()
        for each in restored:
            if each.answer is not None:
                self._prompts.hold(answer_content(each.question, each.answer))
                self._questions.forget(each.question.elicitation_id)
            else:
                keep_until_done(asyncio.create_task(self.wait_for(each)), self._waiting)
        await self._store()

    async def wait_for(self, restored: StoredQuestion) -> None:
        """Show a question again, and send its answer to the model."""
        answer = await self._questions.ask_again(restored)
        self._questions.forget(restored.question.elicitation_id)
        if answer.action == "accept":
            try:
                self._prompts.submit(answer_content(restored.question, answer.content))
            except SidecarError as error:
                text = f"{error.message}. Send it as a prompt."
                self._record.events.emit(Notice("warning", "Your answer was not sent to the model", text))
        await self._store()

    async def aclose(self) -> None:
        """Stop waiting; the questions stay stored where the session does."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _store(self) -> None:
        """Store the questions and the queue in one piece, so that no crash loses or repeats an answer."""
        if records := self._questions.take_records():
            async with self._record.history.transaction():
                await self._record.history.append_records(*records, self._record.queue.take_record())


def answer_content(question: Elicitation, answer: Mapping[str, Any]) -> Content:
    """Return the prompt that brings an answer to the model."""
    text = f"My answer to your question from before:\n{describe_answer(question.schema, answer)}"
    return ({"type": "text", "text": text},)
