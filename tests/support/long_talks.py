"""Sessions at work: conversations that are long enough to be compacted, their compactions and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.conductor.contract import Compaction
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.record.compactions import with_undoable_now
from sidecar.conductor.session import Session
from sidecar.llmgateway.scripted import Say
from turns import texts

LONG: Final = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 40
"""An answer of a thousand tokens or so."""

DIGEST: Final = "# Objective\nFix the parser.\n# Guardrails\nnone\n# Carryover\nnone"
"""A summary that a model may write of it."""


_OF_SESSION: Final = {"title", "engine", "policy", "ephemeral", "servers", "roots", "knowledge", "brief"}


async def open_session(
    make_stage: Any, script: Any = (), *prompts: str, files: Mapping[str, str] | None = None, **options: Any
) -> tuple[Any, Session]:
    """Return a stage with a model that plays *script*, and a session of it that has answered *prompts*.

    Its folder has *files*; the *options* are those of a new session, and else of the stage.
    """
    wanted = {name: options.pop(name) for name in _OF_SESSION & options.keys()}
    stage = await make_stage(script, **options)
    for name, content in (files or {}).items():
        stage.workspace.put(stage.folder / name, content)
    session = await stage.session(**wanted)
    for prompt in prompts:
        await stage.ask(session, prompt)
    return stage, session


async def a_long_talk(
    make_stage: Any, *after: Any, engine: str | None = None, **options: Any
) -> tuple[Any, Session]:
    """Return a stage and its session after three turns with long answers; *after* are further model calls."""
    stage = await make_stage([[Say(LONG)]] * 3 + list(after), **options)
    session = await stage.session(**({} if engine is None else {"engine": engine}))
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    return stage, session


async def compact(session: Session, **request: Any) -> Compaction:
    """Compact *session* as *request* says, and return the record of that."""
    return await session.compact(CompactionRequest(**request)).outcome


def undoable(session: Session) -> list[bool]:
    """Return which compactions can be undone now, in the order they were made."""
    listed = with_undoable_now(session.record.compactions.all, session.record.history.current)
    return [each.undoable for each in listed]


def sent(stage: Any, call: int = -1) -> list[str]:
    """Return the texts of a model call, those of tools left out."""
    return texts(stage.model.calls[call].conversation.turns)


def emitted(session: Session, kind: type[Any]) -> list[Any]:
    """Return the payloads of *kind* that *session* has emitted so far."""
    return [
        event.data for event in session.record.log.after(0, limit=100_000) if isinstance(event.data, kind)
    ]
