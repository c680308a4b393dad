"""Slash commands: each one runs and returns an answer in words.

A command is not part of the conversation: the model sees neither the command nor the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from typing import Final, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar.conductor.content import COMMANDS, SHELL, SlashCommand
from sidecar.conductor.contract import UsageBy
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.loss_values import fact_line
from sidecar.conductor.record.branching import before_prompts
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.turns.answers import (
    describe_edited,
    describe_let_go,
    describe_plan,
    describe_result,
    describe_rule,
    describe_rules,
)
from sidecar.conductor.turns.changes import Changes
from sidecar.conductor.turns.checkpoint_commands import offer_restore, run_checkpoint, show_changes
from sidecar.conductor.turns.options import Options
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.extensions import describe_extensions
from sidecar.conductor.workbench.files import shown_uri
from sidecar.conductor.workbench.workbench import Workbench

_Handler: TypeAlias = Callable[[str], Awaitable[str]]

_MAX_COUNT_DIGITS: Final = 6
"""A longer number is the id of a node, not a count of prompts."""

_MAX_LINES: Final = 40
"""How many facts one answer lists."""

_PARTS: Final = {
    "system": "the system prompt",
    "tool_defs": "tools",
    "user": "prompts",
    "assistant": "answers",
    "thinking": "thinking",
    "tool_results": "tool results",
    "images": "images",
    "summary": "summaries",
    "files": "restored files",
    "rules": "the user's rules",
}


class Commands:
    """The slash commands of one session."""

    def __init__(
        self,
        record: SessionRecord,
        workbench: Workbench,
        window: SessionWindow,
        *,
        changes: Changes,
        options: Options,
        fork: Callable[[str], Awaitable[str]],
    ) -> None:
        """*fork* starts a session from the head of another and returns its id."""
        self._record = record
        self._folder = record.roots[0]
        self._history = record.history
        self._compactions = record.compactions
        self._engines = window.engines
        self._planner = window.planner
        self._losses = window.losses
        self._pins = window.pins
        self._rules = window.rules
        self._request = window.request
        self._checkpoints = checkpoints = workbench.checkpoints
        self._extensions = workbench.extensions
        self._shell = workbench.shell
        self._changes = changes
        self._options = options
        self._fork = fork
        self._handlers: dict[str, _Handler] = {
            "compact": self.compact,
            "preview": self.preview,
            "uncompact": self.uncompact,
            "expand": self.expand,
            "loss": self.loss,
            "pins": self.pins,
            "pin": self.pin,
            "unpin": self.unpin,
            "context": self.context,
            "remember": self.remember,
            "rules": self.rules,
            "forget": self.forget,
            "fork": self.fork,
            "rewind": self.rewind,
            "diff": lambda _: show_changes(checkpoints, self._folder),
            "checkpoint": lambda rest: run_checkpoint(checkpoints, rest, self._folder),
            "model": lambda rest: self.choose("model", rest),
            "engine": lambda rest: self.choose("engine", rest),
            "permissions": lambda rest: workbench.permission_rules.run(rest, self.choose),
            "status": self.status,
            "help": self.help,
        }

    async def run(self, command: SlashCommand, cancel: CancelToken) -> str:
        """Run *command* and return the answer for the user; a refusal is an answer too.

        *cancel* ends a command in the shell.
        """
        if command.name == SHELL:
            return await self._shell.run(command.rest, cancel)
        hint = next(known.hint for known in COMMANDS if known.name == command.name)
        if command.rest and hint is None:
            return f"/{command.name} takes no arguments; to send this to the model, begin with another word."
        try:
            return await self._handlers[command.name](command.rest)
        except SidecarError as error:
            text = "; ".join(filter(None, (error.message, error.hint)))
            return f"{text[0].upper()}{text[1:].rstrip('.')}."

    async def compact(self, rest: str) -> str:
        """Compact with the engine that *rest* begins with, or else the session's own; instructions follow."""
        word, _, after = rest.partition(" ")
        engine, instructions = (word, after.strip()) if word in self._engines.names else (None, rest)
        request = CompactionRequest(engine=engine, instructions=instructions or None)
        done = await self._changes.compact(self._record.new_id(), self._engines.resolve(request))
        if done.status != "completed":
            return describe_result(done)
        loss = done.loss or (await self._losses.read(done)).loss
        listed = " /loss lists them." if loss.let_go else ""
        return f"{describe_result(done)}\n{describe_let_go(loss)}{listed}"

    async def preview(self, rest: str) -> str:
        """Describe the effect of a compaction with the engine *rest*."""
        request = self._engines.resolve(CompactionRequest(engine=rest or None))
        return describe_plan(await self._planner.preview(request), self._folder)

    async def uncompact(self, rest: str) -> str:
        """Undo the newest compaction; with ``force`` also where the conversation exceeds the window then."""
        undone = await self._changes.undo(None, force=rest == "force")
        done, what = undone.compaction, "compaction"
        if done.trigger == "expand":
            what = "expansion"
        size = f"{done.post_count} turns, about {done.post_tokens or 0:,} tokens"
        text = f"The {what} is undone: {size}.{describe_edited(undone.edited_files, self._folder)}"
        return text + await offer_restore(self._checkpoints, undone.changes, self._folder)

    async def expand(self, rest: str) -> str:
        """Bring turns behind a summary back: all, some nodes, or a range; *rest* may name the compaction."""
        done = await self._changes.expand(self.parse_expansion(rest.split()))
        if done.trigger != "expand":
            text = f"The notes are gone; the model sees all {done.post_count} turns again."
            return f"{text} /compact makes new ones."
        n_back = (done.info or {}).get("expandedCount", 0)
        tokens = f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens"
        return f"{n_back} turns are back in view: {tokens}. /uncompact takes it back."

    def parse_expansion(self, words: Sequence[str]) -> ExpandRequest:
        """Return the request of the arguments of ``/expand``."""
        known = {done.compaction_id for done in self._compactions.all}
        compaction_id = words[0] if words and words[0] in known else None
        nodes = words[1:] if compaction_id is not None else words
        if len(nodes) == 1 and ".." in nodes[0]:
            first, _, last = nodes[0].partition("..")
            return ExpandRequest(compaction_id=compaction_id, first=first or None, last=last or None)
        return ExpandRequest(compaction_id=compaction_id, node_ids=tuple(nodes))

    async def loss(self, rest: str) -> str:
        """List the facts that the model does not see whole any more; *rest* is a kind, or empty for all."""
        report = await self._losses.read_now()
        if not report.facts:
            return "The model sees the whole conversation; nothing is lost."
        kinds = [each.kind for each in report.loss.kinds]
        if rest and rest not in kinds:
            return f"There are no facts of the kind {rest!r} in it. There are: {', '.join(kinds) or 'none'}."
        lost = report.select([kind for kind in kinds if rest in ("", kind)], ("shortened", "line", "gone"))
        lines = [describe_let_go(report.loss), *map(fact_line, lost[:_MAX_LINES])]
        if len(lost) > _MAX_LINES:
            lines.append(f"\n{len(lost) - _MAX_LINES} more; /loss KIND lists those of one kind.")
        return "\n".join((*lines, "\n/pin ID brings one back, /expand the turns themselves."))

    async def pins(self, _rest: str) -> str:
        """List the pins."""
        pins = self._pins.all
        size = f"{self._pins.used_tokens:,} of {self._pins.limit_tokens:,} tokens"
        if not pins:
            return f"There are no pins; /pin adds one. They may take {self._pins.limit_tokens:,} tokens."
        return "\n".join((f"Pins: {size}.", *(f"- {pin.pin_id}: {pin.text}" for pin in pins)))

    async def pin(self, rest: str) -> str:
        """Pin the fact, the node or the text *rest*."""
        pin = await self._pins.add(await self._pins.find(rest))
        return f"Pinned, from the next request on; /unpin {pin.pin_id} takes it away:\n{pin.text}"

    async def unpin(self, rest: str) -> str:
        """Take the pin *rest* away."""
        await self._pins.remove(rest)
        return "Unpinned. The conversation is as it was."

    async def context(self, _rest: str) -> str:
        """Describe the fill level of the window, and the origin of its tokens."""
        usage = self._request.usage(detail=True)
        source = "as counted by the provider" if usage.source == "provider" else "estimated"
        size = f"{usage.used:,} of {usage.window:,} tokens ({usage.pct:g} %)"
        if not usage.window:
            size = f"{usage.used:,} tokens of a window whose size is not known"
        lines = [f"{size}, {source}."]
        if usage.limit:
            ground = ", where that saves more than it costs" if usage.limit_by == "price" else ""
            lines.append(f"{self._record.info.engine} compacts at {usage.limit:,} tokens{ground}.")
        parts = {spec.name: getattr(usage.by, spec.name) for spec in fields(UsageBy)} if usage.by else {}
        lines += [f"- {_PARTS[name]}: {tokens:,}" for name, tokens in parts.items() if tokens]
        for each in usage.rules or ():
            where = "in the system prompt" if each.in_system else "in the conversation"
            cut = f", {each.cut_chars:,} characters cut" if each.cut_chars else ""
            lines.append(
                f"- rules of {shown_uri(each.uri, self._folder)}: {each.tokens:,} tokens {where}{cut}"
            )
        return "\n".join(lines)

    async def remember(self, rest: str) -> str:
        """Set the rule *rest*, and name the rules that it takes back."""
        held = {rule.id for rule in self._rules.standing}
        lines = [f"Remembered: {describe_rule(self._rules.add(rest))}"]
        lines += [describe_rule(rule) for rule in self._rules.all if rule.id in held and not rule.holds]
        return "\n- ".join(lines)

    async def rules(self, _rest: str) -> str:
        """List the rules."""
        return describe_rules(self._rules.all)

    async def forget(self, rest: str) -> str:
        """Take back the rule *rest*, an id or words."""
        rule = self._rules.remove(rest)
        return f"No longer a rule: {rule.id} {rule.text}"

    async def fork(self, _rest: str) -> str:
        """Fork the session at its head."""
        sid = await self._fork(self._record.sid)
        return (
            f"Session {sid} begins with this conversation; open it to go on there. This one stays as it is."
        )

    async def rewind(self, rest: str) -> str:
        """Rewind to the node *rest*, or by so many prompts; by one prompt without an argument."""
        node: str | None = rest
        if not rest or (rest.isdecimal() and len(rest) <= _MAX_COUNT_DIGITS):
            node = before_prompts(self._history.current, int(rest or 1))
        moved = await self._changes.rewind(node)
        size = _size(len(self._history.current))
        text = (
            f"Removed {len(moved.removed)} turns; {size}{describe_edited(moved.edited_files, self._folder)}"
        )
        return text + await offer_restore(self._checkpoints, moved.changes, self._folder)

    async def choose(self, config_id: str, rest: str) -> str:
        """Set the option *config_id* to *rest*, or show it without an argument."""
        if rest:
            await self._options.prepare(config_id, rest)
            self._options.choose(config_id, rest)
        option = next(option for option in self._options.all() if option.id == config_id)
        others = ", ".join(choice.value for choice in option.options if choice.value != option.current_value)
        return f"{option.name}: {option.current_value}." + (f" Other choices: {others}." if others else "")

    async def status(self, _rest: str) -> str:
        """Describe the settings and the size of the session."""
        info = self._record.info
        options = (f"- {option.name.lower()}: {option.current_value}" for option in self._options.all())
        lines = [f"Session {info.sid} in {info.cwd}: {_size(len(self._history.current))}", *options]
        lines.append(f"- compactions: {len(self._compactions.all)}")
        return "\n".join(lines)

    async def help(self, _rest: str) -> str:
        """List the commands, and the extensions as they are now."""
        await self._extensions.refresh()
        commands = self._extensions.commands
        shown = [(f"/{each.name} {each.hint or ''}".strip(), each.description) for each in commands]
        shown.append(("!COMMAND", "runs a command; the model sees it and its output with the next prompt"))
        lines = [f"- {usage}: {description}" for usage, description in shown]
        return "\n".join((*lines, *describe_extensions(self._extensions.list())))


def _size(n_turns: int) -> str:
    return f"the conversation has {n_turns} turns." if n_turns else "the conversation is empty."
