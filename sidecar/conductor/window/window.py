"""The model's window of one session: the next request, and the compactions that keep it inside the window.

It stands on the record and the workbench and knows nothing of turns.
"""

from __future__ import annotations

import asyncio

from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.chronicling import Keeping, SessionChronicle
from sidecar.conductor.window.compaction.compacting import Compactor
from sidecar.conductor.window.compaction.expanding import Expander
from sidecar.conductor.window.compaction.loss import LossReports
from sidecar.conductor.window.compaction.planner import CompactionPlanner
from sidecar.conductor.window.compaction.preparing import SummaryPreparer
from sidecar.conductor.window.compaction.summarizer import Summarizer
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.knowledge import Knowledge
from sidecar.conductor.window.pins import Pins
from sidecar.conductor.window.request import NextRequest
from sidecar.conductor.window.session_engines import SessionEngines
from sidecar.conductor.window.session_rules import SessionRules
from sidecar.conductor.workbench.workbench import Workbench


class SessionWindow:
    """The window of one session.

    Attributes:
        rules: the rules of the user.
        head: the system prompt and the tools.
        engines: the compaction engines.
        knowledge: the sources that are searched before an answer.
        request: the next request, and how full the window is with it.
        losses: the loss reports.
        pins: the passages that the model always sees.
        planner: the plans of compactions.
        preparer: prepares a summary before it is needed.
        compactor: runs the compactions.
        expander: brings originals back into view.
    """

    def __init__(self, record: SessionRecord, workbench: Workbench, deps: SessionDeps) -> None:
        self.rules = SessionRules(record)
        self.head = RequestHead(record, workbench, self.rules, deps)
        self.engines = SessionEngines(record, deps, self.head)
        self.knowledge = Knowledge(record, deps)
        self.request = NextRequest(record, workbench, self.head, self.engines, self.knowledge, deps.factors)
        chronicle = SessionChronicle(deps.compaction.view_share)
        self.losses = LossReports(record, chronicle)
        self.pins = Pins(record, self.losses)
        summarizer = Summarizer(record, deps, self.head)
        self.planner = CompactionPlanner(
            record,
            self.request,
            self.engines,
            summarizer,
            Keeping(look=workbench.files.look, chronicle=chronicle),
            workbench.files,
        )
        self.preparer = SummaryPreparer(record, self.planner, prepares=deps.compaction.prepare)
        self.compactor = Compactor(record, self.planner, self.preparer, self.rules, workbench.extensions)
        self.expander = Expander(record, self.planner, self.compactor)

    async def load(self) -> None:
        """Take in the loaded conversation."""
        # Each index folds the whole conversation once; nobody else asks for one yet.
        await asyncio.to_thread(self.request.usage)
        await self.rules.load()

    async def aclose(self) -> None:
        """End the preparation of a summary."""
        self.head.close()
        await self.preparer.aclose()
