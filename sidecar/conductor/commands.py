"""Carries out slash commands and says in words how it went.

A command is no part of the conversation: the model never sees it, nor its answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Final, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar.conductor.branching import before_prompts
from sidecar.conductor.changes import Changes
from sidecar.conductor.contract import Compaction, ConfigOption, Plan, UsageBy
from sidecar.conductor.core import Core
from sidecar.conductor.options import Options
from sidecar.conductor.slash import COMMANDS, SlashCommand

__all__ = ["Commands"]

_Handler: TypeAlias = Callable[[str], Awaitable[str]]

_MOST_PROMPTS_DIGITS: Final = 6
"""A longer number is the name of a node."""

_PARTS: Final = {
    "system": "the system prompt",
    "tool_defs": "tools",
    "user": "prompts",
    "assistant": "answers",
    "thinking": "thinking",
    "tool_results": "tool results",
    "images": "images",
    "summary": "digests",
    "files": "restored files",
}


class Commands:
    """The slash commands of one session."""

    def __init__(self, core: Core, changes: Changes, options: Options) -> None:
        self._core = core
        self._changes = changes
        self._options = options
        self._handlers: dict[str, _Handler] = {
            "compact": self._compact,
            "preview": self._preview,
            "uncompact": self._uncompact,
            "context": self._context,
            "fork": self._fork,
            "rewind": self._rewind,
            "model": lambda rest: self._choose("model", rest),
            "engine": lambda rest: self._choose("engine", rest),
            "status": self._status,
            "help": self._help,
        }

    async def run(self, command: SlashCommand) -> str:
        """Carry out *command* and return what to tell the user, also of what speaks against it."""
        takes = next(known.hint for known in COMMANDS if known.name == command.name)
        if command.rest and takes is None:
            return f"/{command.name} stands alone; to say this to the model, begin with another word."
        try:
            return await self._handlers[command.name](command.rest)
        except SidecarError as error:
            return _sentence("; ".join(filter(None, (error.message, error.hint))))

    async def _compact(self, rest: str) -> str:
        engine, instructions = self._engine_first(rest)
        ask = self._core.ask(force=True, instructions=instructions or None)
        return _outcome(await self._changes.compact(self._core.deps.new_id(), engine, ask))

    async def _preview(self, rest: str) -> str:
        engine = self._core.engine_name(rest or None)
        return _forecast(self._core.compactor.preview(engine, self._core.ask(force=True)))

    async def _uncompact(self, _rest: str) -> str:
        undone = await self._changes.undo(None, force=False)
        return (
            f"Took the compaction back: {undone.post_count} turns, about {undone.post_tokens or 0:,} tokens."
        )

    async def _context(self, _rest: str) -> str:
        usage = self._core.usage(detail=True)
        told = "as the provider counts" if usage.source == "provider" else "estimated"
        lines = [f"{usage.used:,} of {usage.window:,} tokens ({usage.pct:g} %), {told}."]
        if usage.limit:
            lines.append(f"{self._core.info.engine} condenses at {usage.limit:,}.")
        parts = {spec.name: getattr(usage.by, spec.name) for spec in fields(UsageBy)} if usage.by else {}
        lines += [f"- {_PARTS[name]}: {tokens:,}" for name, tokens in parts.items() if tokens]
        return "\n".join(lines)

    async def _fork(self, _rest: str) -> str:
        sid = await self._core.host.fork_of(self._core.info.sid)
        return f"Session {sid} goes on from here; this one stays as it is."

    async def _rewind(self, rest: str) -> str:
        moved = await self._changes.rewind(self._node_to_go_to(rest))
        return f"Left {len(moved.removed)} turns behind; {_stands(len(self._core.history.turns))}"

    async def _choose(self, config_id: str, rest: str) -> str:
        if rest:
            await self._options.prepare(config_id, rest)
            self._options.choose(config_id, rest)
        return _knob(next(option for option in self._options.all() if option.id == config_id))

    async def _status(self, _rest: str) -> str:
        core, info = self._core, self._core.info
        knobs = (f"- {option.name.lower()}: {option.current_value}" for option in self._options.all())
        lines = [f"Session {info.sid} in {info.cwd}: {_stands(len(core.history.turns))}", *knobs]
        lines.append(f"- compactions: {len(core.compactor.compactions)}")
        return "\n".join(lines)

    async def _help(self, _rest: str) -> str:
        shown = [(f"/{each.name} {each.hint or ''}".strip(), each.description) for each in COMMANDS]
        return "\n".join(f"- {usage}: {description}" for usage, description in shown)

    def _engine_first(self, rest: str) -> tuple[str, str]:
        """Return the engine that *rest* begins with, the session's own if it names none, and what follows."""
        word, _, after = rest.partition(" ")
        if word in self._core.deps.engines:
            return word, after.strip()
        return self._core.info.engine, rest

    def _node_to_go_to(self, rest: str) -> str | None:
        if rest and not (rest.isdecimal() and len(rest) <= _MOST_PROMPTS_DIGITS):
            return rest
        history = self._core.history
        return before_prompts(history.turns, history.node_ids, int(rest or 1))


def _outcome(done: Compaction) -> str:
    match done.status:
        case "completed":
            tokens = f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens"
            return f"{_done_to_turns(done)}: {tokens}. /uncompact takes it back."
        case "noop":
            return f"Nothing to do: {done.reason}."
        case "cancelled":
            return "Cancelled; the conversation is as it was."
    return f"That failed, the conversation is as it was: {done.error}."


def _done_to_turns(done: Compaction) -> str:
    match done.summary_source:
        case "model":
            return f"Condensed {done.dropped_count} turns, digest by a model"
        case "localFallback":
            return f"Condensed {done.dropped_count} turns, digest by local rules"
        case _:
            return "Cut down what alone was too large"


def _forecast(plan: Plan) -> str:
    if plan.noop is not None or plan.dropped is None or plan.kept is None or plan.projected is None:
        return f"{plan.engine} would do nothing: {plan.noop.reason if plan.noop else 'nothing to condense'}."
    dropped, kept = plan.dropped, plan.kept
    lines = [
        f"{plan.engine} would fold {dropped.count} turns ({dropped.tokens:,} tokens) into a digest.",
        f"{kept.count} turns ({kept.tokens:,} tokens) would stay as they are.",
        f"About {plan.projected.tokens:,} tokens afterwards, {plan.projected.pct:g} % of the window.",
    ]
    lines += [f"- back comes {file.uri}{', as it is now' if file.stale else ''}" for file in plan.rehydrate]
    return "\n".join(lines)


def _knob(option: ConfigOption) -> str:
    others = ", ".join(choice.value for choice in option.options if choice.value != option.current_value)
    return f"{option.name}: {option.current_value}." + (f" There are also: {others}." if others else "")


def _stands(n_turns: int) -> str:
    return f"the conversation has {n_turns} turns." if n_turns else "the conversation is empty."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
