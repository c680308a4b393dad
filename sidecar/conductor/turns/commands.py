"""Slash commands: each one runs and returns an answer in words.

A command is not part of the conversation: the model sees neither the command nor the answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import astuple, fields
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar.conductor.content import COMMANDS, GROUPS, SHELL, SlashCommand
from sidecar.conductor.contract import (
    PART_NAMES,
    Compaction,
    Loss,
    Plan,
    RuleSource,
    SessionRule,
    SessionSummary,
    TokenCounts,
    UsageBy,
    count_kind,
    describe_loss,
    fact_line,
)
from sidecar.conductor.deps import SessionHost
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import CommandInfo, SessionChosen
from sidecar.conductor.record.branching import before_prompts
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import text_tokens
from sidecar.conductor.turns.changes import Changes
from sidecar.conductor.turns.options import Options
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.extensions import describe_extensions
from sidecar.conductor.workbench.files import shown_uri
from sidecar.conductor.workbench.kept_changes import (
    TAKEN_BACK,
    CheckpointFile,
    FileCheckpoint,
    FileDiff,
    FileRestore,
)
from sidecar.conductor.workbench.user_shell import run_user_command
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.llmgateway.budget import describe_budgets, write_number
from sidecar.llmgateway.contract import Amount
from sidecar.runtime.store.place import SessionQuery
from sidecar.text.clip import one_line

_Handler: TypeAlias = Callable[[str], Awaitable[str]]

_MAX_COUNT_DIGITS: Final = 6
"""A longer number is the id of a node, not a count of prompts."""

_MAX_LINES: Final = 40
"""How many facts one answer lists."""

_BRIEF_CHARS: Final = 160
_SHOWN_ID: Final = 8
"""The characters of an id in an answer."""

_IN_PROMPT: Final = (
    CommandInfo("@FILE", "Let the model read a file or a folder; @selection, @diagnostics and @diff, too"),
    CommandInfo("!COMMAND", "Run a command; the model sees it and its output with the next prompt"),
)

_COUNTS: Final = {
    "input": "sent",
    "cache_read": "sent, and read from the cache",
    "cache_write": "sent, and written to the cache",
    "output": "written",
}
_PER_DAY: Final = "/budget 5usd per day one for all sessions of a day, and /budget none ends them"


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
        host: SessionHost,
    ) -> None:
        """*host* has the other sessions."""
        self._record = record
        self._workbench = workbench
        self._folder = record.roots[0]
        self._engines = window.engines
        self._planner = window.planner
        self._losses = window.losses
        self._pins = window.pins
        self._rules = window.rules
        self._request = window.request
        self._checkpoints = workbench.checkpoints
        self._extensions = workbench.extensions
        self._changes = changes
        self._options = options
        self._host = host
        self._files = workbench.files
        self._handlers: dict[str, _Handler] = {
            "help": self.help,
            "clear": self.clear,
            "resume": self.resume,
            "rewind": self.rewind,
            "fork": self.fork,
            "import": self.import_session,
            "quit": self.quit,
            "model": lambda rest: self.choose("model", rest),
            "compact": self.compact,
            "undo": self.undo,
            "preview": self.preview,
            "context": self.context,
            "cost": self.cost,
            "files": self.files,
            "expand": self.expand,
            "loss": self.loss,
            "pins": self.pins,
            "pin": self.pin,
            "unpin": self.unpin,
            "remember": self.remember,
            "rules": self.rules,
            "forget": self.forget,
            "diff": self.diff,
            "checkpoint": self.checkpoint,
            "permissions": lambda rest: self._workbench.permission_rules.run(rest, self.choose),
            "thinking": lambda rest: self.choose("thinking", rest),
            "engine": lambda rest: self.choose("engine", rest),
            "budget": self.budget,
            "status": self.status,
            "extensions": self.extensions,
        }

    async def run(self, command: SlashCommand, cancel: CancelToken) -> str:
        """Run *command* and return the answer for the user; a refusal is an answer too.

        *cancel* ends a command in the shell.
        """
        if command.name == SHELL:
            return await run_user_command(command.rest, self._record, self._workbench, cancel)
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
        engine, instructions = (word, after.strip()) if word in self._engines.names else ("", rest)
        request = CompactionRequest(engine=engine, instructions=instructions or None)
        done = await self._changes.compact(self._record.new_id(), self._engines.resolve(request))
        if done.status != "completed":
            return describe_result(done)
        loss = done.loss or (await self._losses.read(done)).loss
        listed = " /loss lists them." if loss.let_go else ""
        return f"{describe_result(done)}\n{describe_let_go(loss)}{listed}"

    async def preview(self, rest: str) -> str:
        """Describe the effect of a compaction with the engine *rest*."""
        request = self._engines.resolve(CompactionRequest(engine=rest))
        return describe_plan(await self._planner.preview(request), self._folder)

    async def undo(self, rest: str) -> str:
        """Undo the newest compaction; with ``force`` also where the conversation exceeds the window then."""
        undone = await self._changes.undo(None, force=rest == "force")
        done, what = undone.compaction, "compaction"
        if done.trigger == "expand":
            what = "expansion"
        size = f"{count_messages(len(self._record.history.current))}, {self._request.used():,} tokens"
        text = f"The {what} is undone: {size}.{describe_edited(undone.edited_files, self._folder)}"
        return text + await self._offer_restore(undone.changes)

    async def expand(self, rest: str) -> str:
        """Bring turns behind a summary back: all, some nodes, or a range; *rest* may name the compaction."""
        done = await self._changes.expand(self.parse_expansion(rest.split()))
        if done.trigger != "expand":
            seen = count_messages(len(self._record.history.current))
            text = f"The notes are gone; the model sees all {seen} again."
            return f"{text} /compact makes new ones."
        n_back = (done.info or {}).get("expandedCount", 0)
        tokens = f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens"
        are = "is" if n_back == 1 else "are"
        return f"{count_messages(n_back)} {are} back in view: {tokens}. /undo takes it back."

    def parse_expansion(self, words: Sequence[str]) -> ExpandRequest:
        """Return the request of the arguments of ``/expand``."""
        known = {done.compaction_id for done in self._record.compactions.all}
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
        return "\n".join((*lines, "\n/pin ID brings one back, /expand the messages themselves."))

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
        if usage.limit_why:
            lines.append(f"{self._record.info.engine} compacts at {usage.limit:,} tokens: {usage.limit_why}.")
        parts = {spec.name: getattr(usage.by, spec.name) for spec in fields(UsageBy)} if usage.by else {}
        lines += [f"- {PART_NAMES[name]}: {tokens:,}" for name, tokens in parts.items() if tokens]
        if brief := self._record.info.brief:
            n_tokens, shown = text_tokens(brief), one_line(brief, _BRIEF_CHARS)
            lines.append(f"- the brief of the client: {n_tokens:,} tokens in the system prompt: {shown}")
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

    async def rules(self, rest: str) -> str:
        """List the rules, or decide on the proposed ones: *rest* is ``keep`` or ``dismiss``, and a rule."""
        verb, _, wanted = rest.partition(" ")
        if verb not in ("keep", "dismiss"):
            return describe_rules(self._rules.all)
        decide = self._rules.keep if verb == "keep" else self._rules.dismiss
        decided = decide(wanted.strip() or None)
        if not decided:
            return "No rule is proposed."
        title = "Kept:" if verb == "keep" else "Dismissed:"
        return "\n- ".join((title, *(f"{rule.id} {rule.text}" for rule in decided)))

    async def forget(self, rest: str) -> str:
        """Take back the rule *rest*, an id or words."""
        rule = self._rules.remove(rest)
        return f"No longer a rule: {rule.id} {rule.text}"

    async def fork(self, _rest: str) -> str:
        """Fork the session at its head."""
        if self._record.history.head is None:
            return "There is nothing to fork yet."
        sid = await self._host.fork_of(self._record.sid)
        return f"A copy of this conversation begins, and this one stays as it is. {self._lead_to(sid)}"

    async def clear(self, _rest: str) -> str:
        """Begin another session with the settings of this one."""
        sid = await self._host.new_like(self._record.sid)
        back = f"/resume {self._record.sid[:_SHOWN_ID]}"
        return f"A new conversation begins; {back} goes back to this one. {self._lead_to(sid)}"

    async def resume(self, rest: str) -> str:
        """Go on with the session of this folder that *rest* names by its id or its title, or list them."""
        query = SessionQuery(cwd=self._record.info.cwd, archived=False)
        found = [
            each for each in await self._host.list(query) if each.sid != self._record.sid and each.messages
        ]
        if not found:
            return "There is no other conversation of this folder."
        if not rest:
            lines = map(describe_session, [each for each in found if each.kind is None][:_MOST_LISTED])
            return "\n".join(("/resume ID goes on with one of these:", *lines))
        word = rest.casefold()
        matching = [each for each in found if each.sid.startswith(word)]
        matching = matching or [each for each in found if word in each.title.casefold()]
        match matching:
            case [one]:
                return f"Going on with {one.title or 'an untitled conversation'!r}. {self._lead_to(one.sid)}"
            case []:
                return f"No conversation of this folder has the id or the title {rest!r}; /resume lists them."
        lines = map(describe_session, matching[:_MOST_LISTED])
        return "\n".join((f"Several conversations have {rest!r} in their title:", *lines))

    def _lead_to(self, sid: str) -> str:
        self._record.events.emit(SessionChosen(sid))
        return (
            f"An editor that does not show it now has it in its list of conversations, as {sid[:_SHOWN_ID]}."
        )

    async def import_session(self, _rest: str) -> str:
        """Say how a session of another agent is imported."""
        return 'In a terminal, "sidecar import" lists them and imports one; /resume goes on with it.'

    async def quit(self, _rest: str) -> str:
        """Say how to leave."""
        return "The conversation is stored. Close this view to leave; /resume goes on with it another time."

    async def cost(self, _rest: str) -> str:
        """Describe the tokens and the price of the session."""
        usage, total = self._request.usage(), self._request.usage().session_total
        if total is None or total == TokenCounts(0, 0):
            return "No model has answered yet."
        counts = ((spec.name, getattr(total, spec.name)) for spec in fields(TokenCounts))
        lines = [f"- {_COUNTS[name]}: {n_tokens:,} tokens" for name, n_tokens in counts if n_tokens]
        price = "The price is not known" if usage.cost is None else f"${usage.cost:,.2f} so far"
        return "\n".join((f"{price}; {self._record.info.model} answers now.", *lines))

    async def files(self, _rest: str) -> str:
        """List the files that the model has read."""
        found = await self._files.list_in_context()
        lines = [
            f"- {shown_uri(each.uri, self._folder)}: about {each.tokens:,} tokens"
            + (", changed since" if each.stale else "")
            + ("" if each.in_window else ", no longer in view")
            for each in found
        ]
        return "\n".join(lines) or "The model has read no file yet."

    async def rewind(self, rest: str) -> str:
        """Rewind to the node *rest*, or by so many prompts; by one prompt without an argument."""
        node: str | None = rest
        if not rest or (rest.isdecimal() and len(rest) <= _MAX_COUNT_DIGITS):
            node = before_prompts(self._record.history.current, int(rest or 1))
        moved = await self._changes.rewind(node)
        removed, size = count_messages(len(moved.removed)), _size(len(self._record.history.current))
        text = f"Removed {removed}; {size}{describe_edited(moved.edited_files, self._folder)}"
        return text + await self._offer_restore(moved.changes)

    async def diff(self, _rest: str) -> str:
        """Show the changes of files by this session."""
        diffs = await self._checkpoints.diff(self._checkpoints.since(None))
        shown = describe_diffs(diffs, self._folder) or "This session has changed no files with its tools."
        return "\n".join((shown, *describe_uncovered(self._checkpoints.uncovered)))

    async def checkpoint(self, rest: str) -> str:
        """List the checkpoints, or show the changes since one, or restore the files of one.

        Raises InvalidInput for an unknown checkpoint.
        """
        checkpoints, folder = self._checkpoints, self._folder
        match rest.split():
            case []:
                return describe_checkpoints(checkpoints.all)
            case ["diff", checkpoint_id]:
                diffs = await checkpoints.diff(checkpoints.since(checkpoint_id))
                return describe_diffs(diffs, folder) or "The files are as they were then."
            case ["restore", checkpoint_id]:
                restored = await self._changes.restore_files(checkpoints.since(checkpoint_id))
                return describe_restores(restored, folder)
        return "Use /checkpoint, /checkpoint diff ID or /checkpoint restore ID."

    async def _offer_restore(self, changes: Collection[str]) -> str:
        """Return the diffs of files with *changes*, and the command that takes them back; empty for none."""
        diffs = [each for each in await self._checkpoints.diff(changes) if each.outcome in TAKEN_BACK]
        if not diffs:
            return ""
        command = f"/checkpoint restore {self._checkpoints.first_of(changes)}"
        lines = (f"\n\n{command} takes these changes back:", describe_diffs(diffs, self._folder))
        return "\n".join((*lines, *describe_uncovered(self._checkpoints.uncovered)))

    async def choose(self, config_id: str, rest: str) -> str:
        """Set the option *config_id* to *rest*, or show it without an argument."""
        if rest:
            await self._options.prepare(config_id, rest)
            self._options.choose(config_id, rest)
        option = next(option for option in self._options.all() if option.id == config_id)
        others = ", ".join(choice.value for choice in option.options if choice.value != option.current_value)
        return f"{option.name}: {option.current_value}." + (f" Other choices: {others}." if others else "")

    async def budget(self, rest: str) -> str:
        """Set the budgets in *rest*, or show the budgets and the spent money."""
        spending = self._record.spending
        if rest:
            self._options.add_budgets(rest)
        await spending.day.refresh()
        budgets = describe_budgets(spending.budgets.values())
        lines = [f"Budgets: {budgets}. For example, /budget 0.50usd sets one for each prompt, {_PER_DAY}."]
        session = Amount(spending.cost or 0.0, sum(astuple(spending.total)))
        for subject, amount in (("This session", session), ("All sessions of today", spending.day.known)):
            is_priced = amount.usd > 0 or not amount.tokens
            dollars = f"${write_number(round(amount.usd, 4))}, " if is_priced else ""
            lines.append(f"- {subject}: {dollars}{amount.tokens:,} tokens")
        return "\n".join(lines)

    async def status(self, _rest: str) -> str:
        """Describe the settings and the size of the session."""
        info = self._record.info
        options = (f"- {option.name.lower()}: {option.current_value}" for option in self._options.all())
        lines = [f"Session {info.sid} in {info.cwd}: {_size(len(self._record.history.current))}", *options]
        lines.append(f"- compactions: {len(self._record.compactions.all)}")
        return "\n".join(lines)

    async def help(self, _rest: str) -> str:
        """List the commands; files of new ones are found now."""
        await self._extensions.refresh()
        own = self._extensions.commands[len(COMMANDS) :]
        parts = [("In a prompt", _IN_PROMPT), *GROUPS.items(), *([("Your own commands", own)] if own else ())]
        return "\n\n".join(
            "\n".join((f"**{title}**\n", *(describe_command(each) for each in group)))
            for title, group in parts
        )

    async def extensions(self, _rest: str) -> str:
        """List the skills, hooks and tool servers as they are now."""
        await self._extensions.refresh()
        lines = describe_extensions(self._extensions.list())
        return "\n".join(lines) or "There are no skills, hooks or tool servers."


def describe_command(command: CommandInfo) -> str:
    """Return the line of ``/help`` about *command*.

    >>> describe_command(CommandInfo("unpin", "Take a pin away", "pin"))
    '- `/unpin pin`: Take a pin away'
    """
    sign = "" if command in _IN_PROMPT else "/"
    return f"- `{sign}{' '.join(filter(None, (command.name, command.hint)))}`: {command.description}"


def format_time(at_ms: int) -> str:
    """Return a time in the zone of the daemon."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M")


def describe_session(session: SessionSummary) -> str:
    """Return the line of ``/resume`` about *session*."""
    when = format_time(session.updated_at)
    title = session.title or "(untitled)"
    return f"- {session.sid[:_SHOWN_ID]}, {when}: {title}, {session.messages} messages"


def count_messages(n_messages: int) -> str:
    """Return a number of messages in words: prompts, answers and results of tools alike.

    >>> count_messages(1), count_messages(1200)
    ('1 message', '1,200 messages')
    """
    return f"{n_messages:,} message{'s' * (n_messages != 1)}"


def _size(n_messages: int) -> str:
    return (
        f"the conversation has {count_messages(n_messages)}." if n_messages else "the conversation is empty."
    )


_MOST_LISTED: Final = 40
_MOST_DIFF_CHARS: Final = 20_000
"""The characters of diffs in one answer."""


def describe_uncovered(names: Sequence[str]) -> Sequence[str]:
    """Return a line about changes that no checkpoint covers; none for no *names*.

    >>> describe_uncovered(["the background command bg1"])
    ['- not covered: changes of files by the background command bg1']
    """
    more = f", and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return [f"- not covered: changes of files by {', '.join(names[:_MOST_LISTED])}{more}"] if names else []


def describe_diffs(diffs: Sequence[FileDiff], folder: Path) -> str:
    """Return *diffs* for a user in *folder*, bounded; empty for none that says anything."""
    parts: list[str] = []
    n_left = _MOST_DIFF_CHARS
    for each in diffs:
        if each.outcome == "unchanged":
            continue
        name = shown_uri(each.uri, folder)
        text = each.diff[: max(0, n_left)]
        n_left -= len(text)
        if text:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            parts.append(f"{fence}diff\n{text}\n{fence}")
        if each.truncated or len(text) < len(each.diff):
            parts.append(f"- {name}: more lines are not shown")
        if each.outcome not in TAKEN_BACK:
            parts.append(f"- {name}: a restore leaves it as it is; {each.reason}")
        elif not each.diff:
            parts.append(f"- {name}: {'is new' if each.outcome == 'removed' else 'has changed'}")
    return "\n".join(parts)


def describe_checkpoints(checkpoints: Sequence[FileCheckpoint]) -> str:
    """Return the answer of ``/checkpoint``, the newest first."""
    if not checkpoints:
        return "There are no checkpoints; this session has changed no files with its tools."
    lines = []
    for each in checkpoints[: -_MOST_LISTED - 1 : -1]:
        names = ", ".join(map(name_with_old, each.files[:5]))
        more = f" and {len(each.files) - 5} more" if len(each.files) > 5 else ""
        what = "before a turn changed" if each.cause == "turn" else "before a restore changed"
        when = format_time(each.at)
        lines.append(f"- {each.checkpoint_id}, {when}: {what} {names}{more}")
    return "\n".join(
        (*lines, "\n/checkpoint restore ID takes files back to one; /checkpoint diff ID shows it.")
    )


def name_with_old(file: CheckpointFile) -> str:
    """Return the name of a file, with its name at that time where the user has renamed it since."""
    name, before = (uri.rpartition("/")[2] for uri in (file.uri, file.renamed_from or file.uri))
    return name if before == name else f"{name} (then {before})"


def describe_restores(files: Sequence[FileRestore], folder: Path) -> str:
    """Return the answer of ``/checkpoint restore``.

    >>> files = [FileRestore("file:///p/a", "restored"), FileRestore("file:///b", "outside", "no")]
    >>> describe_restores(files, Path("/p"))
    '- a: restored\\n- /b: stays as it is; no'
    """
    lines = []
    for each in files:
        done = each.outcome if each.outcome in TAKEN_BACK else "was so already"
        name = shown_uri(each.uri, folder)
        lines.append(f"- {name}: {f'stays as it is; {each.reason}' if each.reason else done}")
    return "\n".join(lines) or "There was nothing to take back."


_SOURCES: Final[dict[RuleSource, str]] = {
    "user": "set by hand",
    "summary": "proposed by a summary",
    "found": "found in a prompt by an earlier version",
}


def describe_result(done: Compaction) -> str:
    """Return the answer of ``/compact``."""
    match done.status:
        case "completed":
            tokens = f"{done.pre_tokens:,} to {done.post_tokens or 0:,} tokens"
            if done.summary_source is None:
                return f"Shortened the texts that were too large: {tokens}. /undo takes it back."
            is_noted = done.summary_source == "model"
            made = "a summary by a model" if is_noted else "a chronicle without a model"
            folded = f"Compacted {count_messages(done.dropped_count)} into {made}"
            return f"{folded}: {tokens}. /undo takes it back."
        case "noop":
            return f"Nothing to do: {done.reason}."
        case "cancelled":
            return "Cancelled; the conversation is unchanged."
    return f"The compaction failed and the conversation is unchanged: {done.error}."


def describe_let_go(loss: Loss) -> str:
    """Return the counts of *loss*, and the kinds of the facts let go.

    >>> from sidecar.conductor.contract import KindLoss
    >>> print(describe_let_go(Loss(9, 0, 2, kinds=(KindLoss("command", 9, 0, 2),))))
    Facts of the folded part: 9 kept word for word, 0 shortened, 2 let go.
    Let go: 2 commands.
    """
    kinds = ", ".join(count_kind(each.kind, each.let_go) for each in loss.kinds if each.let_go)
    return f"{describe_loss(loss)}\nLet go: {kinds}." if kinds else describe_loss(loss)


def describe_edited(uris: Sequence[str], folder: Path) -> str:
    """Return the sentence about files that turns edited which a change took back or went past.

    >>> describe_edited(["file:///p/a.py"], Path("/p"))
    '\\nThe files that these messages edited stay as they are:\\n- a.py'
    """
    names = (f"- {shown_uri(uri, folder)}" for uri in uris)
    return "\n".join(("\nThe files that these messages edited stay as they are:", *names)) if uris else ""


def describe_rules(rules: Sequence[SessionRule]) -> str:
    """Return the answer of ``/rules``."""
    holding = [describe_rule(rule) for rule in rules if rule.holds]
    ended = [describe_rule(rule) for rule in rules if not rule.holds]
    if not holding and not ended:
        return "There are no rules. /remember sets one, such as: /remember never push to main."
    lines = ["These rules hold:" if holding else "No rule holds.", *(f"- {rule}" for rule in holding)]
    if any(rule.proposed for rule in rules):
        lines.append(
            "\n/rules keep ID keeps a proposed rule, /rules dismiss ID ends it; without ID all of them."
        )
    lines += ["\nThese were taken back:"] * bool(ended) + [f"- {rule}" for rule in ended]
    return "\n".join(lines)


def describe_rule(rule: SessionRule) -> str:
    """Return *rule* with its id and origin, and the words against it.

    >>> describe_rule(SessionRule(id="r1", text="Never push.", source="user", at=0))
    'r1 Never push. (set by hand)'
    """
    kept = "" if rule.proposed or rule.source == "user" or not rule.holds else ", kept"
    shown = f"{rule.id} {rule.text} ({_SOURCES[rule.source]}{kept})"
    if rule.revoked_by is not None:
        by = rule.revoked_by.text
        return f"{shown}, taken back by /forget" if by is None else f"{shown}, taken back by: {by}"
    if rule.conflicts:
        return f"{shown}, perhaps at odds with: {'; '.join(rule.conflicts)}. /forget {rule.id} takes it back"
    return shown


def describe_plan(plan: Plan, folder: Path) -> str:
    """Return the answer of ``/preview``; files are named as in *folder*."""
    if plan.noop is not None or plan.dropped is None or plan.kept is None or plan.projected is None:
        reason = plan.noop.reason if plan.noop else "there is nothing to compact"
        return f"{plan.engine} would do nothing: {reason}."
    dropped, kept, after = plan.dropped, plan.kept, plan.projected
    gone, before = count_messages(dropped.count), plan.pre_tokens or plan.gate.tokens
    about = "about " if after.low < after.high else ""
    lines = [
        f"{plan.engine} would replace {gone} ({dropped.tokens:,} tokens) with a summary.",
        f"{count_messages(kept.count)} ({kept.tokens:,} tokens) would stay unchanged.",
        f"Of {before:,} tokens {about}{after.tokens:,} would remain, {after.pct:g} % of the window.",
    ]
    if after.low < after.high:
        lines.append(f"The summary decides: at least {after.low:,}, at most {after.high:,} tokens.")
    if after.high >= before:
        lines.append("With a long summary nothing would be saved, and then nothing changes.")
    if plan.loss is not None:
        lines.append(f"Without a model: {describe_loss(plan.loss)}")
    lines += [
        f"- {shown_uri(file.uri, folder)} would be restored{', as it is now' if file.stale else ''}: "
        f"{file.tokens:,} tokens"
        for file in plan.rehydrate
    ]
    return "\n".join(lines)
