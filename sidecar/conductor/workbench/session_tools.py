"""The tools of a session, and the surroundings that each of their calls is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.background import BackgroundCommands
from sidecar.capabilities.command_output import output_folder
from sidecar.capabilities.contract import (
    AskUser,
    CallGuard,
    PlanEntry,
    SubagentEnd,
    SubagentTask,
    Tool,
    ToolContext,
)
from sidecar.capabilities.recall import RECALL
from sidecar.capabilities.subagent import TASK
from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.events import PlanChanged
from sidecar.conductor.ports import SessionHost, SessionTools
from sidecar.conductor.record.history import HistoryWriter
from sidecar.conductor.record.records import from_record
from sidecar.conductor.record.session_events import SessionEvents
from sidecar.conductor.record.session_meta import SessionMeta
from sidecar.conductor.window.meter import ContextMeter
from sidecar.conductor.workbench.checkpoints import Checkpoints
from sidecar.conductor.workbench.editor.prompt_context import PromptContext
from sidecar.conductor.workbench.editor.session_editor import SessionEditor
from sidecar.conductor.workbench.files import SessionFiles
from sidecar.conductor.workbench.rule_files import RuleFiles
from sidecar.permissions.policy import Policy

_MAX_OUTPUT_CHARS: Final = 30_000
"""The length of a reply of a tool."""


def make_tools(
    meta: SessionMeta,
    deps: SessionDeps,
    roots: Sequence[Path],
    *,
    files: SessionFiles,
    rules: RuleFiles,
    events: SessionEvents,
    policy: Policy,
    ask: AskUser,
    host: SessionHost,
    background: BackgroundCommands,
    checkpoints: Checkpoints,
    meter: ContextMeter,
    guard: Callable[[], CallGuard | None],
    server_tools: Callable[[], Sequence[Tool]],
    history: HistoryWriter,
) -> tuple[SessionTools, PromptContext]:
    """Return the session's tools, with its surroundings for each call, and the context of its prompts.

    *guard* returns the judge of the calls, None while there is none; *server_tools* the tools of the servers.
    """

    async def run_subagent(task: SubagentTask, context: ToolContext, cancel: CancelToken) -> SubagentEnd:
        assert deps.run_subagent is not None
        end = await deps.run_subagent(deps, meta.info, task, context, server_tools(), cancel)
        meter.add_total(from_record(TokenCounts, end.tokens), end.cost)
        return end

    def set_plan(entries: tuple[PlanEntry, ...]) -> None:
        meta.set_todo(entries)
        events.emit(PlanChanged(meta.plan_items()))

    editor = SessionEditor(meta.info.sid, host.editors, roots)
    home = None if meta.info.ephemeral else deps.home
    outputs = None if home is None else output_folder(home, meta.info.sid)

    def make_context(call_id: str) -> ToolContext:
        return ToolContext(
            call_id=call_id,
            cwd=roots[0],
            roots=tuple(roots),
            workspace=deps.workspace,
            reads=files,
            ask=ask,
            progress=lambda text: None,
            set_plan=set_plan,
            child_started=deps.child_started,
            max_output_chars=_MAX_OUTPUT_CHARS,
            terminal=host.terminal(meta.info.sid),
            confine=deps.confine,
            show_rules=rules.show,
            sees_images=(card := meta.card) is not None and "image" in card.modalities,
            reads_only=policy.mode == "plan",
            list_folded=lambda: history.current.list_folded(),
            may_fetch_private=deps.may_fetch_private,
            output_folder=outputs,
            background=background,
            checkpoints=deps.checkpoints or checkpoints.of_call(call_id),
            guard=guard(),
            problems=editor,
            run_subagent=None if deps.run_subagent is None else run_subagent,
        )

    tools = deps.toolbox(make_context, events.on_tool)
    # Declared from the first request on, so that a compaction changes nothing before the conversation.
    tools.offer("recall", (RECALL,))
    tools.offer("subagents", () if deps.run_subagent is None else (TASK,))
    prompts = PromptContext(
        editor,
        history,
        tools,
        make_context=make_context,
        window=lambda: meta.window,
        emit=events.emit,
    )
    return tools, prompts
