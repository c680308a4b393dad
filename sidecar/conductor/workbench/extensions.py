"""The extensions of one session: its commands, skills, hooks and configured tool servers.

They are found when the session begins, and again for ``/help`` and for the list on the wire. A prompt passes
them by: it sees attributes that are empty in a session without extensions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.cancel import CancelToken
from sidecar._internal.secrets import mask_secrets
from sidecar.capabilities.contract import AskUser, PermissionQuestion, Tool
from sidecar.capabilities.mcp.contract import McpServer, ServerHost, ServerState
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.conductor.content import COMMANDS, INIT_PROMPT, describe_unknown, prompt_text
from sidecar.conductor.contract import (
    ListedCommand,
    ListedExtensions,
    ListedHook,
    ListedServer,
    ListedSkill,
)
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.events import CommandInfo, CommandsChanged, Notice
from sidecar.conductor.record.queue import PromptJob
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.record.work import PendingQuestion
from sidecar.conductor.workbench.questions import Questions
from sidecar.extensions.contract import CustomCommand, Extensions, Skill
from sidecar.extensions.hooks import HookGuard, Hooks
from sidecar.extensions.skills import list_skills, make_skill_tool, write_command_prompt
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.permissions.access import ProjectTextAccess
from sidecar.permissions.policy import Policy

_LINE_CHARS: Final = 120
_LAST_HOOKS_S: Final = 0.5
"""How long a session that is closed waits for the hooks of its last turn."""

_NOTE: Final = "<hook>\n{}\n</hook>"


class SessionExtensions:
    """The extensions of one session; none before :meth:`load`.

    Attributes:
        found: the extensions.
        names: the names of the commands.
        commands: all commands, beginning with the built-in ones, as clients are shown them.
        hooks: the hooks.
        skills: the list of the skills for the model, empty for none.
    """

    def __init__(
        self,
        record: SessionRecord,
        deps: SessionDeps,
        *,
        tools: SessionToolBox,
        servers: SessionServers,
        policy: Policy,
        ask: AskUser,
    ) -> None:
        self._record = record
        self._deps = deps
        self._tools = tools
        self._servers = servers
        self._policy = policy
        self._ask = ask
        self.found = Extensions()
        self.names: frozenset[str] = frozenset()
        self.commands: tuple[CommandInfo, ...] = COMMANDS
        self.hooks = self._make_hooks()
        self.skills = ""
        self._guard = HookGuard(lambda: self.hooks)
        self._after_turns = CancelToken()
        self._running: set[asyncio.Task[object]] = set()
        record.work.follow(self.on_work)

    @property
    def guard(self) -> HookGuard | None:
        """The judge of the calls of tools, None while there are no hooks."""
        return self._guard if self.found.hooks else None

    async def load(self) -> bool:
        """Find the extensions as they are now; return whether the commands are others than before."""
        before, self.found = (
            self.commands,
            await asyncio.to_thread(self._deps.extensions.find, self._record.roots),
        )
        found = self.found
        self.names = frozenset(each.name for each in found.commands)
        own = (CommandInfo(each.name, each.description or "A prompt", each.hint) for each in found.commands)
        self.commands = (*COMMANDS, *own)
        self.hooks = self._make_hooks()
        self.skills = list_skills(found.skills)
        skill_tools = (make_skill_tool(found.skills, self.open_folder),) if found.skills else ()
        self._tools.offer("skills", skill_tools)
        self._servers.configure([each.server for each in found.servers])
        for problem in found.problems:
            self._record.notices.add_once(Notice("warning", "An extension is not used", problem))
        return self.commands != before

    async def refresh(self) -> None:
        """Find the extensions again, and report other commands to the clients."""
        if await self.load():
            self._record.events.emit(CommandsChanged(self.commands))

    def list(self) -> ListedExtensions:
        """Return the extensions as clients are shown them."""
        found = self.found
        sources = {each.server.name: each.source for each in found.servers}
        named = {server.name for server in self._servers.named}
        return ListedExtensions(
            commands=tuple(
                ListedCommand(
                    name=each.name,
                    description=each.description,
                    hint=each.hint,
                    model=each.model,
                    uri=each.path.as_uri(),
                    source=each.source,
                    trusted=each.is_trusted,
                )
                for each in found.commands
            ),
            skills=tuple(
                ListedSkill(
                    name=each.name, description=each.description, uri=each.path.as_uri(), source=each.source
                )
                for each in found.skills
            ),
            hooks=tuple(
                ListedHook(
                    event=each.event,
                    command=mask_secrets(each.command),
                    tools=each.tools,
                    source=each.source,
                )
                for each in found.hooks
            ),
            servers=tuple(
                ListedServer(
                    name=each.name,
                    source="client" if each.name in named else sources.get(each.name, "client"),
                    state=each.state,
                    tools=each.n_tools,
                    problem=each.problem,
                )
                for each in self._servers.states()
            ),
            problems=found.problems,
        )

    async def expand(self, job: PromptJob) -> str | None:
        """Make the command of *job* the prompt that it stands for; return why it is refused, None if not.

        A command of a folder that is not trusted asks once for its content. A word that names a file, as in
        "/etc is not readable", is no command.
        """
        assert job.command is not None
        name, arguments = job.command.name, job.command.rest
        if name == "init" and self._record.info.model == OFFLINE_CARD.id:
            return f"{OFFLINE_CARD.id} finds and cites, it cannot write AGENTS.md; /model chooses another."
        if name == "init":
            job.turn = UserTurn((TextBlock("\n".join(filter(None, (INIT_PROMPT, arguments)))),))
            job.command = None
            return None
        if name not in self.names:  # it may be a new one
            await self.refresh()
        command = next((each for each in self.found.commands if each.name == name), None)
        if command is None:
            paths = (Path("/", name), self._record.roots[0] / name)
            if not await asyncio.to_thread(lambda: any(map(os.path.lexists, paths))):
                return describe_unknown(name, self.names)
            job.command = None
            return None
        if not command.is_trusted and not await self.may_use(command):
            return f"/{name} was not used: its file came with the folder, and you did not allow it."
        job.turn = UserTurn((TextBlock(write_command_prompt(name, command.text, arguments)),))
        job.command, job.model = None, command.model
        return None

    async def check_prompt(self, job: PromptJob, cancel: CancelToken) -> str | None:
        """Run the hooks of a prompt: return why it is refused; a note of theirs enters with it."""
        verdict = await self.hooks.run("prompt", {"prompt": prompt_text(job.turn.blocks)}, cancel)
        if verdict.refusal is not None:
            return f"A hook refused this prompt: {verdict.refusal}"
        if verdict.note:
            job.turn = UserTurn((*job.turn.blocks, TextBlock(_NOTE.format(verdict.note))))
        return None

    async def may_stop(self, text: str, cancel: CancelToken) -> UserTurn | None:
        """Run the hooks of the end of a turn: return the prompt to go on with, None to end it."""
        verdict = await self.hooks.run("stop", {"text": text}, cancel)
        if verdict.refusal is None:
            return None
        asked = f"A hook of the user does not let you stop yet:\n{_NOTE.format(verdict.refusal)}"
        return UserTurn((TextBlock(asked),))

    def report_end(self, details: Mapping[str, Any]) -> None:
        """Run the hooks of a turn that has settled, in the background: nothing waits for them."""
        # The end of a sub-agent is its parent's business.
        if self.found.hooks and self._record.info.kind is None:
            self._start(self.hooks.run("settled", details, self._after_turns))

    def on_work(self, question: PendingQuestion | None) -> None:
        """Run the hooks of a question that was opened."""
        if self.found.hooks and question is not None:
            self._start(self.judge_question(question))

    async def judge_question(self, question: PendingQuestion) -> None:
        """Run the hooks of *question*, which end with it; one that refuses answers it."""
        told = {"waitingFor": question.waiting_for, "text": question.text, **question.details}
        verdict = await self.hooks.run("question", told, question.closed)
        if verdict.refusal is not None and not question.closed.cancelled:
            question.refuse(verdict.refusal)

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        keep_until_done(asyncio.ensure_future(work), self._running)

    async def aclose(self) -> None:
        """End the hooks that run, after a moment for the ones of a turn that has just settled."""
        if self._running:
            await asyncio.wait(self._running, timeout=_LAST_HOOKS_S)
        self._after_turns.cancel("the session is closed")
        await asyncio.gather(*self._running, return_exceptions=True)

    async def refuse_compaction(self, engine: str, trigger: str) -> str | None:
        """Run the hooks of a compaction with *engine*: return why it is refused, None where it is not."""
        verdict = await self.hooks.run("compaction", {"engine": engine, "trigger": trigger}, CancelToken())
        return verdict.refusal

    async def may_use(self, command: CustomCommand) -> bool:
        question = PermissionQuestion(
            call_id=self._deps.new_id(),
            tool="command",
            title=f"Use the command /{command.name} of this folder",
            subject="path",
            detail=f"{command.path}\n\n{command.text}",
            access=ProjectTextAccess(command.path),
        )
        decision = await self._ask(question)
        if decision.is_allowed:
            await asyncio.to_thread(self._deps.extensions.trust, command)
            await self.load()
        return decision.is_allowed

    def open_folder(self, skill: Skill) -> None:
        """Let the files of *skill* be read without a question."""
        self._policy.granted.add(f"tree:{skill.path.parent}")

    def _make_hooks(self) -> Hooks:
        return Hooks(
            self.found.hooks,
            self._record.sid,
            self._record.roots[0],
            self._deps.child_started,
            lambda title, text: self._record.events.emit(Notice("warning", title, mask_secrets(text))),
        )


def describe_extensions(found: ListedExtensions) -> list[str]:
    """Return lines for people about the skills, hooks and tool servers of *found*."""
    lines = [f"- skill {each.name}: {each.description[:_LINE_CHARS]}" for each in found.skills]
    for hook in found.hooks:
        about = f" of {', '.join(hook.tools)}" if hook.tools else ""
        lines.append(f"- hook {hook.event}{about}: {hook.command[:_LINE_CHARS]}")
    for server in found.servers:
        state = f"{server.state}, {server.tools} tools" if server.state == "running" else server.state
        lines.append(
            f"- tool server {server.name}: {state}{f' ({server.problem})' if server.problem else ''}"
        )
    return [*lines, *(f"- not used: {problem}" for problem in found.problems)]


class SessionServers:
    """The tool servers that clients named for one session.

    A session's file names the servers that the session had, but not how to start them. A session that is
    loaded again therefore lacks their tools until a client names them again, and warns of that once, before
    its next answer.

    The user's settings may name servers as well: they start with the session, and a client's of the same
    name stand in their place.

    Attributes:
        named: the servers that clients named for this session since it was loaded.
        configured: the servers of the settings.
        tools: the tools of all servers that run.
        missing: the names of servers that it had before, until it was warned of them; empty for none.
    """

    def __init__(
        self, record: SessionRecord, deps: SessionDeps, offered: SessionToolBox, questions: Questions
    ) -> None:
        """Make the runner of servers that work in the session's folder; their tools join those *offered*."""
        self.named: tuple[McpServer, ...] = ()
        self.configured: tuple[McpServer, ...] = ()
        self.tools: tuple[Tool, ...] = ()
        self._emit = record.events.emit

        def offer(tools: Sequence[Tool]) -> None:
            self.tools, n_before = tuple(tools), len(offered.hidden)
            offered.offer("servers", tools)
            if (n_hidden := len(offered.hidden)) > n_before:
                self.warn(
                    f"{n_hidden} of {len(tools)} tools of servers are not declared to the model",
                    "They would take too much of each request. The model finds them with find_tools and "
                    "calls them with call_tool; name fewer servers to declare all of them.",
                )

        self._servers = deps.tool_servers(
            ServerHost(record.roots[0], offer, self.warn, deps.child_started, questions.ask)
        )
        self.missing = ", ".join(str(server.get("name", "?")) for server in record.info.mcp_servers)

    def warn(self, title: str, text: str) -> None:
        """Show the user a warning."""
        self._emit(Notice("warning", title, text))

    def add(self, servers: Sequence[McpServer]) -> None:
        """Add *servers*, each in place of one with the same name. Returns before they have started.

        Servers with other names stay: a client that loads a session takes nothing from other clients.
        """
        names = {server.name for server in servers}
        others = (server for server in self.named if server.name not in names)
        self.named, self.missing = (*others, *servers), ""
        self._use()

    def configure(self, servers: Sequence[McpServer]) -> None:
        """Use *servers* as the servers of the settings. Returns before they have started."""
        if tuple(servers) != self.configured:
            self.configured = tuple(servers)
            self._use()

    def states(self) -> Sequence[ServerState]:
        """Return the states of all servers."""
        return self._servers.states()

    def _use(self) -> None:
        names = {server.name for server in self.named}
        self._servers.use((*(each for each in self.configured if each.name not in names), *self.named))

    async def ready(self, cancel: CancelToken) -> None:
        """Warn of servers that are missing and wait for the others, as ``SessionToolServers.ready`` does."""
        if self.missing:
            title, self.missing = f"Tool servers are not connected: {self.missing}", ""
            self.warn(title, "How to start them is not stored. Load the session with mcpServers for them.")
        await self._servers.ready(cancel)

    async def aclose(self) -> None:
        """Stop every server."""
        await self._servers.aclose()
