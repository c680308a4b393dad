"""The ask tool: one form for all questions, and a result for every end of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sidecar._internal.values import replace
from sidecar.capabilities.ask import ASK
from sidecar.capabilities.contract import Form, FormAnswer

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

WHICH = {"question": "Which database?", "choices": ["Postgres", "SQLite"], "default": "SQLite"}
TABLES = {"question": "Which tables?", "choices": ["users", "logs"], "multiple": True, "default": "logs"}
NAME = {"question": "Which name?", "default": "main"}


async def test_all_questions_are_one_form(desk: Desk) -> None:
    asked: list[Form] = []

    async def answer(form: Form) -> FormAnswer:
        asked.append(form)
        return FormAnswer("accept", {"q1": "Postgres", "q2": ["users", "logs"], "q3": "test"})

    context = replace(desk.context(), ask_form=answer)
    reply = await ASK.run({"questions": [WHICH, TABLES, NAME]}, context, desk.cancel)
    assert reply.output == (
        "The user answered:\nWhich database? Postgres\nWhich tables? users, logs\nWhich name? test"
    )
    (form,) = asked
    assert (form.message, form.call_id, form.asker) == ("3 questions", "c1", "agent")
    assert form.schema["properties"] == {
        "q1": {
            "title": "Which database?",
            "type": "string",
            "enum": ["Postgres", "SQLite"],
            "default": "SQLite",
        },
        "q2": {
            "title": "Which tables?",
            "type": "array",
            "items": {"type": "string", "enum": ["users", "logs"]},
            "default": ["logs"],
        },
        "q3": {"title": "Which name?", "type": "string", "default": "main"},
    }


async def test_a_cancel_takes_the_form_back(desk: Desk) -> None:
    is_asked, was_taken_back = asyncio.Event(), asyncio.Event()

    async def answer(form: Form) -> FormAnswer:
        is_asked.set()
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never set
        finally:
            was_taken_back.set()

    context: Any = replace(desk.context(), ask_form=answer)
    asking = asyncio.ensure_future(ASK.run({"questions": [NAME]}, context, desk.cancel))
    await is_asked.wait()
    desk.cancel.cancel("stopped")
    assert (await asking).is_error, "it is no answer, so that a restart asks again"
    assert was_taken_back.is_set()


async def test_without_a_user_it_says_so(desk: Desk) -> None:
    assert "the user cannot be asked here; decide yourself" in await desk.failure(ASK, questions=[NAME])
