"""The workbench of one session: its files, its tools and its permissions.

It stands on the record and knows nothing of the model's window or of turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from sidecar.capabilities.ask import ASK
from sidecar.capabilities.background import BackgroundCommands
from sidecar.capabilities.contract import (
    PermissionDecision,
    PermissionQuestion,
    PlanEntry,
    ToolContext,
)
from sidecar.capabilities.output import output_folder
from sidecar.capabilities.recall import RECALL
from sidecar.capabilities.subagent import TASK
from sidecar.chronicle import entries_by_place
from sidecar.conductor.deps import SessionDeps, SessionHost
from sidecar.conductor.events import PlanChanged
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import FileRename, find_renames, to_record
from sidecar.conductor.workbench.checkpoints import Checkpoints
from sidecar.conductor.workbench.extensions import SessionExtensions, SessionServers
from sidecar.conductor.workbench.files import SessionFiles
from sidecar.conductor.workbench.permissions import PermissionBroker, PermissionRules
from sidecar.conductor.workbench.prompt_context import PromptContext
from sidecar.conductor.workbench.questions import QuestionBoard, Questions
from sidecar.conductor.workbench.rule_files import RuleFiles
from sidecar.conductor.workbench.session_editor import SessionEditor
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders
from sidecar.rooms import Participant

_PERMISSION_TIMEOUT_MS: Final = 300_000
"""How long a question waits for an answer."""

_MAX_OUTPUT_CHARS: Final = 30_000
"""The length of a reply of a tool."""


class Workbench:
    """The workbench of one session.

    Attributes:
        tools: the tools, which are given their surroundings at each call.
        files: the files that the model has seen.
        rule_files: the rule files of the user and of the project.
        checkpoints: the files as they were before the session changed them.
        background: the commands that run in the background.
        policy: decides which actions are allowed.
        board: the open questions to the user, of every kind.
        permissions: the questions for permission.
        questions: the forms of the model and of tool servers.
        permission_rules: the user's rules for permissions.
        servers: the tool servers.
        extensions: the commands, skills, hooks and configured servers of the user and of the folder.
        prompt_context: the content of mentions in prompts, and the user's editor.
        is_sandboxed: whether commands run in a sandbox.
    """

    def __init__(self, record: SessionRecord, deps: SessionDeps, host: SessionHost) -> None:
        self._record = record
        self._deps = deps
        self._host = host
        self.background = BackgroundCommands()
        self._editor = SessionEditor(record.sid, host.audience.editors, record.roots)
        self.files = SessionFiles(record, deps.workspace, deps.resolve)
        self.tools = tools = deps.toolbox(self.make_context, record.events.on_tool)
        if record.info.reads_only:
            tools.limit_to_reading()
        # Declared from the first request on, so that a compaction changes nothing before the conversation.
        tools.offer("recall", (RECALL,))
        tools.offer("subagents", (TASK,) if record.info.kind is None else ())
        tools.offer("questions", (ASK,))
        self.rule_files = RuleFiles(record, deps, self.files, tools)
        self.checkpoints = Checkpoints(record, deps, self.files)
        settings = deps.permission_rules
        self.policy = Policy(
            SessionFolders(record.roots, deps.home), read_rules=None if settings is None else settings.read
        )
        self.board = QuestionBoard(record.sid, host.audience, record.work)
        self.permissions = PermissionBroker(
            self.board, deps.new_id, deps.clock_ms, _PERMISSION_TIMEOUT_MS, self.policy
        )
        self.questions = Questions(record, self.board, deps.question_timeout_s)
        self.permission_rules = PermissionRules(self.policy, tools, settings)
        self.servers = SessionServers(record, deps, tools, self.questions)
        self.extensions = SessionExtensions(
            record, deps, tools=tools, servers=self.servers, policy=self.policy, ask=self.ask
        )
        self.prompt_context = PromptContext(record, deps.workspace, self._editor, tools, self.make_context)
        self.is_sandboxed = deps.confine is not None
        home = None if record.info.ephemeral else deps.home
        self._outputs = None if home is None else output_folder(home, record.sid)
        self._stop_following = deps.workspace.on_rename(self.follow_rename)

    async def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take in the loaded conversation, which may be long, and the stored *records*."""
        self.checkpoints.load(records)
        self.questions.load(records)
        self._record.history.renames = find_renames(records)

        def fold() -> None:
            self.files.fold()
            self.rule_files.reached.of(self._record.history.current)

        await asyncio.to_thread(fold)
        self.files.sync()

    async def aclose(self) -> None:
        """End the commands and servers, and stop watching the files."""
        await self.background.aclose()
        await self.extensions.aclose()
        await self.servers.aclose()
        self._stop_following()
        self.files.close()

    async def ask(self, question: PermissionQuestion) -> PermissionDecision:
        """Return the decision on *question* of a tool of the running turn."""
        return await self.permissions.ask(question, self._record.events.turn_id)

    def participants(self) -> tuple[Participant, ...]:
        """Return the clients that follow the session."""
        clients = self._host.audience.listeners(self._record.sid)
        return tuple(Participant(each.client_id, each.name) for each in clients)

    def make_context(self, call_id: str) -> ToolContext:
        """Return the surroundings of the tool call *call_id*."""
        record, deps, card = self._record, self._deps, self._record.card
        return ToolContext(
            call_id=call_id,
            cwd=record.roots[0],
            roots=record.roots,
            workspace=deps.workspace,
            reads=self.files,
            ask=self.ask,
            ask_form=self.questions.ask,
            progress=lambda text: None,
            set_plan=self._set_plan,
            child_started=deps.child_started,
            max_output_chars=_MAX_OUTPUT_CHARS,
            terminal=self._host.terminals.find(record.sid),
            confine=deps.confine,
            show_rules=self.rule_files.show,
            sees_images=card is not None and "image" in card.modalities,
            reads_only=self.policy.mode == "plan" or record.info.reads_only,
            list_folded=lambda: record.history.current.list_folded(),
            list_by_place=lambda: entries_by_place(record.history.current),
            may_fetch_private=deps.may_fetch_private,
            output_folder=self._outputs,
            background=self.background,
            checkpoints=self.checkpoints.of_call(call_id),
            guard=self.extensions.guard,
            problems=self._editor,
            ask_editor=self._editor.ask,
            run_subagent=partial(self._host.run_subagent, record.sid) if record.info.kind is None else None,
        )

    async def follow_rename(self, old: Path, new: Path) -> None:
        """Know a file, or a folder with all below it, by its new path; on disk when this returns."""
        history = self._record.history
        # Not before the newest entry, though the machine's clock may have been set back.
        at = max([self._record.clock_ms(), *(entry.created_at for entry in history.current[-1:])])
        rename = FileRename(at=at, path=str(old), to_path=str(new))
        changes = self.checkpoints.rename(rename)
        if changes or self.files.has_read(rename):
            self.files.rename(rename)
            records = [to_record("checkpoint", change) for change in changes]
            await history.append_records(to_record("rename", rename), *records)

    def _set_plan(self, entries: tuple[PlanEntry, ...]) -> None:
        self._record.todo = entries
        self._record.events.emit(PlanChanged(self._record.plan_items()))
