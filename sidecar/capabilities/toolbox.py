"""The tools of one session, as the runtime sees them: checked calls in, outcomes out, every step reported.

Each call is reported as started once and as finished once, and has one outcome, also when its tool raises,
hangs or is gone. No stack trace reaches the model; a call that is cancelled ends, with or without the tool's
help.

A tool asks for permission in the middle of its work. :func:`access_of_call` puts the same question from the
arguments alone, before there is any call, so that a user can ask which rule would answer it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sidecar._internal.async_cancel import cancel_future, keep_until_done, unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar._internal.surrogates import encodable
from sidecar._internal.values import replace
from sidecar.capabilities.background import BASH_KILL, BASH_OUTPUT
from sidecar.capabilities.bash import BASH, runs_posix_shell
from sidecar.capabilities.contract import (
    Location,
    PermissionDecision,
    PermissionQuestion,
    ProblemWatch,
    Tool,
    ToolActivity,
    ToolContext,
    ToolObserver,
    ToolReply,
)
from sidecar.capabilities.edit import EDIT, WRITE
from sidecar.capabilities.fetch import FETCH
from sidecar.capabilities.grep import GREP
from sidecar.capabilities.listing import FIND, GLOB, LS
from sidecar.capabilities.read import READ
from sidecar.capabilities.todo import TODO
from sidecar.capabilities.tool_search import divide_by_budget, named_call, search_tools
from sidecar.capabilities.typed_tool import error_reply
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.permissions.access import (
    Access,
    CommandAccess,
    EditAccess,
    FetchAccess,
    PatchAccess,
    ReadAccess,
    ServerToolAccess,
)
from sidecar.runtime.contract import ToolCall, ToolOutcome
from sidecar.text.calls import (
    FETCHES_PAGE,
    FOLDER_ARGUMENTS,
    NO_EFFECTS,
    ToolEffects,
    first_text,
    own_name,
)
from sidecar.text.mend import mend_object, place_of_mistake
from sidecar.workspace.paths import resolve_path

_log = logging.getLogger(__name__)

_CANCEL_GRACE_S = 0.5
_ERROR_CHARS = 500
_UNPARSED = "__unparsed"

UNLISTED_TOOLS: Final[tuple[Tool, ...]] = (GLOB,)
"""Tools of earlier versions that still answer: a stored conversation may lead a model to call them."""

_TOLD_AFTER: Final = 3
_FAILED_ALIKE: Final = (
    "[This very call has failed {} times in a row with the same words. Do not repeat it: look for the cause, "
    "try another way, or tell the user what you need.]"
)
"""What the model is told behind the result of such a call; the turn ends a little later."""

_SAME_RESULT: Final = (
    "[This very call has had the same result {} times, and nothing new came in between. Do not repeat "
    "it: use the result, try another way, or tell the user what you need. To wait, wait within one call.]"
)
_WAIT_S: Final = 5.0
"""A call that takes so long waits for something: its repeats are told, and end no turn."""


def default_tools() -> tuple[Tool, ...]:
    """Return the tools of our own, in the order of the list that a model is given."""
    return (READ, GREP, FIND, LS, EDIT, WRITE, BASH, BASH_OUTPUT, BASH_KILL, FETCH, TODO)


class SessionToolBox:
    """A ``ToolBox`` and its own ``ToolRunner``.

    Args:
        tools: the tools on offer; of two tools of one name the later counts.
        make_context: makes the context of a call from its id. Progress is reported to *observe* instead of
            the context's own ``progress``, and an open question is given up when the call is cancelled.
        observe: receives the reports on every call.

    Attributes:
        hidden: the tools of servers that a request does not declare, by name; they are found by a search.
        n_failed_alike: how often the newest call has failed with the same arguments and the same words since
            a call has not failed; 0 for one that has not.
        n_same_results: how often the newest call has had the same result with the same arguments since the
            prompt, and since a result was new; 0 for a call that failed or waited.
    """

    def __init__(
        self, tools: Iterable[Tool], make_context: Callable[[str], ToolContext], observe: ToolObserver
    ) -> None:
        self._own = tuple(tools)
        self._reads_only = False
        self._make_context = make_context
        self._observe = observe
        self._failures: Counter[str] = Counter()
        self.n_failed_alike = 0
        self._results: Counter[bytes] = Counter()
        self._earlier_results: set[bytes] = set()
        self.n_same_results = 0
        self._stubborn: set[asyncio.Task[ToolReply]] = set()
        self._extra: dict[str, tuple[Tool, ...]] = {}
        self.offer("", ())

    def offer(self, group: str, tools: Iterable[Tool]) -> None:
        """Offer *tools* besides the first ones; they replace the earlier tools of their *group*.

        Tools of the group ``servers`` are declared within a budget, with a search for the others.
        """
        offer = tuple(each for each in tools if not self._reads_only or each.effects.may_read)
        if group in self._extra and self._extra[group] == offer:
            return
        self._extra[group] = offer
        n_others = len(self._own) + sum(len(each) for name, each in self._extra.items() if name != "servers")
        declared, hidden = divide_by_budget(self._extra.get("servers", ()), n_others)
        groups = self._extra | {"servers": (*declared, *search_tools(hidden))}
        extra = (tool for each in groups.values() for tool in each)
        offered = {tool.descriptor.name: (tool, tool.descriptor) for tool in (*self._own, *extra)}
        self.hidden = {tool.descriptor.name: tool for tool in hidden}
        unlisted = {tool.descriptor.name: tool for tool in UNLISTED_TOOLS}
        self._tools = unlisted | self.hidden | {name: tool for name, (tool, _) in offered.items()}
        self._effects = {name: tool.effects for name, tool in self._tools.items()}
        self._descriptors = tuple(descriptor for _, descriptor in offered.values())

    def limit_to_reading(self) -> None:
        """Offer no tool that changes something with each call, now and later."""
        self._reads_only = True
        self._own = tuple(each for each in self._own if each.effects.may_read)
        groups, self._extra = self._extra, {}
        for group, tools in groups.items():
            self.offer(group, tools)

    def descriptors(self) -> Sequence[ToolDescriptor]:
        """Return the tools on offer."""
        return self._descriptors

    def effects(self) -> Mapping[str, ToolEffects]:
        """Return the effects of the tools on offer, by name."""
        return self._effects

    def describe(self, call: ToolCall) -> ToolActivity:
        """Return the report on the start of *call*; that of a tool that is gone has its name alone."""
        call = self.read_call(call)
        tool = self._tools.get(call.name)
        started = ToolActivity(
            phase="started",
            call_id=call.id,
            name=call.name,
            title=call.name,
            kind="other",
            input=call.input,
        )
        if tool is None:
            return started
        arguments = call.input if isinstance(call.input, Mapping) else {}
        # The files are named from the start, so that a client can show them before they are read or changed.
        effects = tool.effects.of(arguments)
        paths = effects.paths_in(arguments) if effects.names_file else ()
        cwd, line = self._make_context(call.id).cwd, arguments.get("offset")
        return replace(
            started,
            title=tool.title(arguments),
            kind=tool.kind,
            locations=tuple(
                Location(Path(os.path.normpath(cwd / path)), line if isinstance(line, int) else None)
                for path in paths
            ),
        )

    def read_call(self, call: ToolCall) -> ToolCall:
        """Return the call of a tool here that *call* means: mended, by its name here, or by its own."""
        call = named_call(mend_call(call), self.hidden)
        if call.name in self._tools:
            return call
        own = {each.descriptor.name: each.effects for each in (*self._own, *UNLISTED_TOOLS)}
        meant = own_name(call.name, own, call.input)
        return call if meant is None else replace(call, name=meant)

    @property
    def runner(self) -> SessionToolBox:
        """The runner of the calls: this box."""
        return self

    async def run(self, call: ToolCall, cancel: CancelToken) -> ToolOutcome:
        """Run *call* and return its outcome; never raises but for cancellation."""
        call = self.read_call(call)
        tool, started = self._tools.get(call.name), self.describe(call)
        self._observe(started)
        reply = _cancel_reply(call.name)
        started_s = time.monotonic()
        watch: ProblemWatch | None = None
        try:
            problems = self._make_context(call.id).problems
            effects = NO_EFFECTS if tool is None else tool.effects.of(call.input)
            if problems is not None and effects.names_file and effects.may_change:
                watch = problems.watch()
            reply = await self.reply_to(call, tool, started, cancel)
            if isinstance(reply.output, str):
                # Names on disk may hold bytes that are not text; from here on all can be encoded.
                reply = replace(reply, output=encodable(reply.output))
        finally:
            # Also when this very task is cancelled: a report on a start is followed by one on an end.
            self._observe(
                replace(
                    started,
                    phase="finished",
                    title=reply.title or started.title,
                    output=reply.output,
                    is_error=reply.is_error,
                    is_cancelled=reply.is_error and cancel.cancelled,
                    locations=reply.locations or started.locations,
                    diffs=reply.diffs,
                )
            )
        # For the model alone: a client shows the output of the tool.
        notes = await self.rules_for(tool, reply, call.id)
        if watch is not None:
            from sidecar.capabilities.diagnostics import new_problems  # not above: most sessions need it not

            notes.append(await new_problems(watch, reply, self._make_context(call.id).cwd, cancel))
        background = self._make_context(call.id).background
        news = "" if background is None else background.take_news()
        result = (reply.output, *notes, news, reply.images)
        notes.append(
            self.note_failure(call, reply)
            if reply.is_error
            else self.note_result(call, result, waited=time.monotonic() - started_s >= _WAIT_S)
        )
        notes.append(news)
        told = list(filter(None, notes))
        output = "\n\n".join((str(reply.output), *told)) if told else reply.output
        return ToolOutcome(call.id, output, reply.is_error, reply.images)

    async def reply_to(
        self, call: ToolCall, tool: Tool | None, started: ToolActivity, cancel: CancelToken
    ) -> ToolReply:
        """Return the reply of *tool* to *call*, or the reason why it is not run."""
        if tool is None:
            hint = f"use one of {', '.join(each.name for each in self._descriptors)}"
            return error_reply(f"there is no tool {call.name!r}", hint)
        arguments, context = check_arguments(call), self._make_context(call.id)
        if isinstance(arguments, ToolReply):
            return arguments
        effects = tool.effects.of(arguments)
        if context.reads_only and effects.may_change and effects.kind != "runs":
            return error_reply(f"{call.name} is off: the mode is plan", "describe the change instead")
        if cancel.cancelled:
            return _cancel_reply(call.name)

        async def ask(question: PermissionQuestion) -> PermissionDecision:
            return await unless_cancelled(context.ask(question), cancel) or PermissionDecision(False)

        def progress(text: str) -> None:
            self._observe(replace(started, phase="progress", output=text))

        own_context = replace(context, ask=ask, progress=progress)
        return await self._run_guarded(tool, arguments, own_context, cancel)

    async def rules_for(self, tool: Tool | None, reply: ToolReply, call_id: str) -> list[str]:
        """Return the rules of the project that become known with the files of a call."""
        show_rules = self._make_context(call_id).show_rules
        if show_rules is None or tool is None or not tool.effects.names_file or reply.is_error:
            return []
        paths = {place.path: None for place in reply.locations}
        return [await show_rules(path, call_id) for path in paths]

    def begin_turn(self) -> None:
        """Count the same results from 1 again: a prompt may ask for the same as the one before."""
        self._results.clear()
        self._earlier_results.clear()
        self.n_same_results = 0

    def note_result(self, call: ToolCall, result: object, *, waited: bool) -> str:
        """Count how often *call* has had this *result*, and return the words about it; mostly none.

        A result that the turn has not seen shows that something has changed, or was learnt: all counts begin
        again. So two calls that take turns are counted, and a command that is looked at while its output
        grows is not.
        """
        self._failures.clear()
        self.n_failed_alike = 0
        key = blake2b(repr((call.name, call.input, result)).encode(errors="replace"), digest_size=16).digest()
        if key not in self._earlier_results:
            self._earlier_results.add(key)
            self._results.clear()
        self._results[key] += 1
        n_alike = self._results[key]
        self.n_same_results = 0 if waited else n_alike
        return _SAME_RESULT.format(n_alike) if n_alike >= _TOLD_AFTER else ""

    def note_failure(self, call: ToolCall, reply: ToolReply) -> str:
        """Count how often *call* has failed alike, and return the words about it; mostly none."""
        self.n_same_results = 0
        failure = repr((call.name, call.input, reply.output))
        self._failures[failure] += 1
        self.n_failed_alike = self._failures[failure]
        return _FAILED_ALIKE.format(self.n_failed_alike) if self.n_failed_alike >= _TOLD_AFTER else ""

    async def _run_guarded(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken
    ) -> ToolReply:
        """Return the reply of a call that its guard lets through, with the notes of the guard."""
        name, guard = tool.descriptor.name, context.guard
        if guard is None:
            return await self._run_to_the_end(tool.run(arguments, context, cancel), name, cancel)
        before = await guard.before(name, arguments, cancel)
        if before.refusal is not None:
            return error_reply(f"{name}: a hook of the user refused this call: {before.refusal}")
        if cancel.cancelled:
            return _cancel_reply(name)
        reply = await self._run_to_the_end(tool.run(arguments, context, cancel), name, cancel)
        after = await guard.after(name, arguments, reply, cancel)
        objection = f"It objects to this result: {after.refusal}" if after.refusal is not None else ""
        notes = "\n".join(filter(None, (before.note, after.note, objection)))
        return replace(reply, output=f"{reply.output}\n\n[a hook of the user: {notes}]") if notes else reply

    async def _run_to_the_end(
        self, work: Coroutine[Any, Any, ToolReply], name: str, cancel: CancelToken
    ) -> ToolReply:
        """Return the reply of *work*; after a cancel it has a moment to end itself, then it is ended."""
        task = asyncio.ensure_future(work)
        try:
            with cancel_future(cancel) as cancelled:
                await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait((task,), timeout=_CANCEL_GRACE_S)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,), timeout=_CANCEL_GRACE_S)
        if not task.done():
            keep_until_done(task, self._stubborn)
            return _cancel_reply(name)
        if task.cancelled():
            return _cancel_reply(name)
        error = task.exception()
        if error is None:
            return task.result()
        _log.warning("tool %s raised %s", name, type(error).__name__)
        _log.debug("tool %s raised", name, exc_info=error)
        text = str(error)[:_ERROR_CHARS]
        return error_reply(f"{name} failed: {type(error).__name__}{': ' if text else ''}{text}")


def check_arguments(call: ToolCall) -> Mapping[str, Any] | ToolReply:
    """Return the arguments of *call*, or the reply that refuses them: not an object, or not valid JSON."""
    arguments = call.input
    if isinstance(arguments, Mapping) and _UNPARSED not in arguments:
        return arguments
    text = arguments[_UNPARSED] if isinstance(arguments, Mapping) else arguments
    if not isinstance(text, str):
        message = f"{call.name}: the arguments are {type(text).__name__}, not an object"
        return error_reply(message, "send an object")
    message = f"{call.name}: the arguments are not valid JSON, perhaps cut off ({place_of_mistake(text)})"
    return error_reply(message, "send the call again, in smaller parts")


def mend_call(call: ToolCall) -> ToolCall:
    """Return *call* with its arguments as an object, also where their text has small mistakes."""
    given = call.input
    text = given.get(_UNPARSED) if isinstance(given, Mapping) else given
    mended = mend_object(text) if isinstance(text, str) else None
    return call if mended is None else replace(call, input=mended)


def _cancel_reply(name: str) -> ToolReply:
    return error_reply(f"{name}: cancelled")


def access_of_call(
    tool: str, effects: ToolEffects, arguments: Mapping[str, Any], cwd: Path, roots: tuple[Path, ...]
) -> Access | None:
    """Return the action that a call of *tool* needs permission for, None for a call that asks for nothing.

    Args:
        tool: its name; that of a server's tool is ``mcp__SERVER__TOOL``.
        effects: its declared effects.
        arguments: the arguments of the call.
        cwd: the folder of the session, resolved.
        roots: all its folders, resolved.

    Raises:
        InvalidInput: an argument is missing.
        FileAccessError: a path can name no file.
    """
    prefix, _, rest = tool.partition("__")
    if prefix == "mcp" and rest:
        server, _, name = rest.partition("__")
        return ServerToolAccess(server, name, is_read_only=effects.kind != "anything")
    effects = effects.of(arguments)
    if effects.kind in ("none", "anything"):
        return None
    text = first_text(arguments, effects.arguments)
    if not text and effects.kind == "searches" and effects != FETCHES_PAGE:
        text = "."
    if not text:
        hint = f"its input has {' or '.join(map(repr, effects.arguments))}, a string"
        raise InvalidInput(f"the input does not say what {tool} is to do", hint=hint)
    if effects == FETCHES_PAGE:
        return FetchAccess(urlsplit(text).netloc.lower())
    if effects.kind == "runs":
        folders = (arguments[name] for name in FOLDER_ARGUMENTS if arguments.get(name) is not None)
        folder = resolve_path(str(next(folders, "") or "."), cwd, roots).path
        return CommandAccess(text, folder, is_posix=runs_posix_shell())
    paths = [resolve_path(path, cwd, roots) for path in effects.paths_in({effects.arguments[0]: text})]
    if not effects.may_change:
        return next((ReadAccess(each.path) for each in paths if not each.inside), None)
    edits = tuple(EditAccess(each.path, each.inside) for each in paths)
    if not edits:
        raise InvalidInput(
            f"the input of {tool} names no file", hint="a patch names its files in its headings"
        )
    return edits[0] if len(edits) == 1 else PatchAccess(edits)
