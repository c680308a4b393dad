"""The turns of one session: prompts, the agent that answers them, and the changes between turns.

It stands on the record, the workbench and the window.
"""

from __future__ import annotations

from sidecar.conductor.deps import SessionDeps, SessionHost
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.turns.agent import SessionAgent
from sidecar.conductor.turns.answers import Answers
from sidecar.conductor.turns.changes import Changes
from sidecar.conductor.turns.commands import Commands
from sidecar.conductor.turns.options import Options
from sidecar.conductor.turns.prompts import Prompts
from sidecar.conductor.turns.runner import TurnRunner
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.workbench import Workbench


class Turns:
    """The turns of one session.

    Attributes:
        agent: answers prompts.
        changes: the changes of the conversation; one is made through the queue of the session.
        options: the config options.
        runner: runs one turn after another.
        prompts: the prompts that clients send.
        answers: the answers to questions of an earlier process.
    """

    def __init__(
        self,
        record: SessionRecord,
        workbench: Workbench,
        window: SessionWindow,
        deps: SessionDeps,
        host: SessionHost,
    ) -> None:
        self.agent = SessionAgent(record, workbench, window, deps)
        self.changes = Changes(record, workbench, window, deps)
        self.options = Options(record, workbench.policy, window, deps.library.names)
        commands = Commands(record, workbench, window, changes=self.changes, options=self.options, host=host)
        self.runner = TurnRunner(
            record,
            workbench,
            window.request,
            agent=self.agent,
            commands=commands,
            options=self.options,
        )
        self.prompts = Prompts(record, workbench.extensions, window.request, self.agent, self.runner)
        self.answers = Answers(record, workbench.questions, self.prompts)
