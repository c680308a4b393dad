"""Clients: which are connected, which sessions they follow, the terminals they lend, and their editors.

An editor reports its state at each move of the cursor, far more often than anybody looks. So a report is only
merged with the one that waits, member by member, and the merged one is taken in after a short delay, or at
once when somebody looks. A flood of reports costs one merge each, and memory for one report. A report is cut
to the limits before it is even decoded, and the state says how much was left out.

Nothing here touches the disk; a URI is judged by the session that shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol

from msgspec import field

from sidecar._internal.values import Value
from sidecar.capabilities.contract import AskEditor, RunInTerminal
from sidecar.conductor.contract import (
    EditorDiagnostic,
    EditorFile,
    EditorTab,
    Elicitation,
    ElicitationAnswer,
    FileDiagnostics,
    PermissionAnswer,
    PermissionRequest,
    SessionSummary,
)
from sidecar.workspace.contract import Dispose, PositionEncoding
from sidecar.workspace.path_index import PathIndexes


class ClientPort(Protocol):
    """One connected client. Contract: no method blocks or raises."""

    @property
    def client_id(self) -> str:
        """The id of the connection, unique in this process."""
        ...

    @property
    def name(self) -> str:
        """The client's own name for itself, such as ``Visual Studio Code``."""
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Show the question to the user and return the answer.

        Contract: returns ``cancelled`` when the client is gone or does not know the method. The caller keeps
        the deadline and cancels this call when it has passed.
        """
        ...

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Notify the client of the outcome of a question, which *by* decided."""
        ...

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show *form* to the user and return the answer, None from a client that cannot show it.

        Contract: does not return when the client has left, so that the form waits for another one. The caller
        keeps the deadline, as above.
        """
        ...

    def elicit_resolved(self, sid: str, elicitation_id: str, action: str, by: str) -> None:
        """Notify the client of the end of a form, which *by* decided."""
        ...

    def sessions_changed(self, changed: Sequence[SessionSummary], removed: Sequence[str]) -> None:
        """Notify the client of the lines of the list of sessions that changed, and of *removed* sessions."""
        ...

    def follow_child(self, sid: str) -> None:
        """Follow the new sub-agent *sid* of a session that the client follows, if it wants all of them."""
        ...

    def unfollow(self, sid: str) -> None:
        """Stop following session *sid*, which has ended."""
        ...


class ParentCall(Value):
    """The call of a tool in session *sid* that a sub-agent works for."""

    sid: str
    call_id: str


class _Attachment(Value):
    client: ClientPort
    controls: bool


class Audience:
    """The connected clients. A client is attached to a session once, as a listener or as a controller.

    A client that controls a session controls its sub-agents, too.

    Attributes:
        parent_calls: the calls that the sub-agents in memory work for, by the sub-agent.
        editors: the editors that clients have reported.
        path_indexes: the paths of folders, for completion.
    """

    def __init__(self) -> None:
        self._clients: dict[str, ClientPort] = {}
        self.path_indexes = PathIndexes()
        self._attached: dict[str, dict[str, _Attachment]] = {}
        self.parent_calls: dict[str, ParentCall] = {}
        self.editors = Editors(self._attached)

    @property
    def clients(self) -> tuple[ClientPort, ...]:
        """Every connected client."""
        return tuple(self._clients.values())

    def join(self, client: ClientPort) -> None:
        """Add a client that has connected."""
        self._clients[client.client_id] = client

    def leave(self, client: ClientPort) -> None:
        """Remove a client, and detach it from every session."""
        self._clients.pop(client.client_id, None)
        self.editors.forget(client.client_id)
        for attached in self._attached.values():
            attached.pop(client.client_id, None)

    def attach(self, client: ClientPort, sid: str, *, controls: bool) -> None:
        """Attach *client* to session *sid*; one that *controls* it may also answer its questions."""
        self._attached.setdefault(sid, {})[client.client_id] = _Attachment(client, controls)

    def detach(self, client: ClientPort, sid: str) -> None:
        """Detach *client* from session *sid*."""
        self._attached.get(sid, {}).pop(client.client_id, None)

    def dismiss(self, sid: str) -> None:
        """Detach every client from session *sid*."""
        self._attached.pop(sid, None)
        self.parent_calls.pop(sid, None)

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may act on a session and answer its questions, each once."""
        call = self.parent_calls.get(sid)
        found = {} if call is None else {each.client_id: each for each in self.controllers(call.sid)}
        return tuple((found | {each.client_id: each for each in self.openers(sid)}).values())

    def openers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that control this very session."""
        return tuple(each.client for each in self._attached.get(sid, {}).values() if each.controls)

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow a session, the ones that opened it included."""
        return tuple(each.client for each in self._attached.get(sid, {}).values())


class Terminals:
    """The terminals that clients lend to sessions; a session uses the one that was lent last."""

    def __init__(self) -> None:
        self._lent: dict[str, list[RunInTerminal]] = {}

    def lend(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run commands with *run*, until the returned function is called."""
        self._lent.setdefault(sid, []).append(run)

        def take_back() -> None:
            lent = self._lent.get(sid, [])
            if run in lent:
                lent.remove(run)
            if not lent:
                self._lent.pop(sid, None)

        return take_back

    def find(self, sid: str) -> RunInTerminal | None:
        """Return the terminal of session *sid*, None when no client lends one."""
        lent = self._lent.get(sid)
        return lent[-1] if lent else None


DELAY_S: Final = 0.05
"""How long reports are gathered before they are taken in."""

MAX_TABS: Final = 200
MAX_PULLED: Final = 20
MAX_FILES: Final = 500
MAX_IN_FILE: Final = 100
MAX_DIAGNOSTICS: Final = 1_000
_MAX_SELECTIONS: Final = 16
_SELECTION_CHARS: Final = 20_000
_MESSAGE_CHARS: Final = 500
_NAME_CHARS: Final = 100
_URI_CHARS: Final = 2_000


class EditorReport(Value, kw_only=True):
    """A report: only the members that changed.

    Attributes:
        has_active: whether *active* is part of it.
        active: the file, None for none.
        tabs: the open files, None for no change.
        n_tabs_cut: the number of tabs that were left out of it.
        diagnostics: the problems of some files by URI, None for no change.
        n_cut: the number of problems that were left out of it, by URI.
        replaces_diagnostics: whether the files that it does not name have none.
        encoding: the unit of characters.
    """

    has_active: bool = False
    active: EditorFile | None = None
    tabs: tuple[EditorTab, ...] | None = None
    n_tabs_cut: int = 0
    diagnostics: Mapping[str, FileDiagnostics] | None = None
    n_cut: Mapping[str, int] = field(default_factory=dict)
    replaces_diagnostics: bool = False
    encoding: PositionEncoding = "utf-16"


class EditorState(Value, kw_only=True):
    """The editor as it was reported last.

    Attributes:
        active: the file that the user looks at, None for none.
        tabs: the open files.
        n_tabs_cut: the number of further open files.
        diagnostics: the problems by URI, of files that have any.
        n_cut: the number of further problems, by URI.
        has_diagnostics: whether the client provides diagnostics.
        encoding: the unit of characters in all positions.
    """

    active: EditorFile | None = None
    tabs: tuple[EditorTab, ...] = ()
    n_tabs_cut: int = 0
    diagnostics: Mapping[str, FileDiagnostics] = field(default_factory=dict)
    n_cut: Mapping[str, int] = field(default_factory=dict)
    has_diagnostics: bool = False
    encoding: PositionEncoding = "utf-16"


class EditorContext:
    """The state of one client's editor.

    Attributes:
        pull: asks the client for the diagnostics of a URI and returns their report, None where it cannot.
        kinds: the questions that the language servers of the editor answer.
        query: asks them; None where it cannot. Raises SidecarError when the client refuses or is gone.
        report_number: the number of the newest report, 0 before the first one.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        """*numbers* counts the reports of all editors, so that the newest one is known."""
        self._numbers = numbers
        self.pull: Callable[[str], Awaitable[EditorReport | None]] | None = None
        self.kinds: frozenset[str] = frozenset()
        self.query: AskEditor | None = None
        self._state = EditorState()
        self._waiting: EditorReport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._listeners: list[Callable[[Mapping[str, FileDiagnostics]], None]] = []
        self.report_number = 0

    @property
    def state(self) -> EditorState:
        """The editor as it is now, with every report taken in."""
        self.take_in()
        return self._state

    def report(self, report: EditorReport) -> None:
        """Merge *report* with the one that waits; it is taken in after a delay or when somebody looks."""
        self.report_number = next(self._numbers)
        self._waiting = report if self._waiting is None else merge_reports(self._waiting, report)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self.take_in)

    async def pull_diagnostics(self, uris: Sequence[str]) -> None:
        """Ask the client for the diagnostics of *uris* at once, and take in each answer as it comes."""

        async def ask(pull: Callable[[str], Awaitable[EditorReport | None]], uri: str) -> None:
            if (report := await pull(uri)) is not None:
                self.report(report)
                self.take_in()

        if self.pull is not None and uris:
            async with asyncio.TaskGroup() as group:
                for uri in uris[:MAX_PULLED]:
                    group.create_task(ask(self.pull, uri))

    def on_diagnostics(self, listener: Callable[[Mapping[str, FileDiagnostics]], None]) -> Dispose:
        """Call *listener* with the diagnostics that were reported, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def take_in(self) -> None:
        """Take in the reports that wait."""
        if self._timer is not None:
            self._timer.cancel()
        report, self._waiting, self._timer = self._waiting, None, None
        if report is None:
            return
        self._state = apply_report(self._state, report)
        if report.diagnostics is not None:
            for notify in tuple(self._listeners):
                notify(report.diagnostics)

    def close(self) -> None:
        """Forget everything: the client is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._waiting, self._state = None, None, EditorState()


class Editors:
    """The editors that clients have reported.

    Attributes:
        reported: by the id of the client; a client without a report is not in it.
    """

    def __init__(self, attached: Mapping[str, Collection[str]]) -> None:
        """*attached* has the ids of the clients of each session."""
        self._attached = attached
        self._numbers = count(1)
        self.reported: dict[str, EditorContext] = {}

    def report(self, client_id: str, report: EditorReport) -> EditorContext:
        """Take in a report of a client, and return its editor."""
        if client_id not in self.reported:
            self.reported[client_id] = EditorContext(self._numbers)
        self.reported[client_id].report(report)
        return self.reported[client_id]

    def state_of(self, client_id: str) -> EditorState:
        """Return the state of a client's editor, an empty one before its first report."""
        return self.reported[client_id].state if client_id in self.reported else EditorState()

    def forget(self, client_id: str) -> None:
        """Remove the editor of a client, which is gone."""
        if client_id in self.reported:
            self.reported.pop(client_id).close()

    def is_client_of(self, sid: str, editor: EditorContext) -> bool:
        """Whether *editor* is that of a client of session *sid*."""
        return any(self.reported.get(each) is editor for each in self._attached.get(sid, ()))

    def list_for(self, sid: str) -> Sequence[EditorContext]:
        """Return every editor, the ones of the clients of session *sid* first, then the newest first."""
        attached = self._attached.get(sid, ())
        found = [
            (client_id in attached, each.report_number, each) for client_id, each in self.reported.items()
        ]
        return [editor for *_, editor in sorted(found, key=lambda each: each[:2], reverse=True)]


def merge_reports(older: EditorReport, newer: EditorReport) -> EditorReport:
    """Return one report that has the effect of *older* and then of *newer*."""
    diagnostics, n_cut = older.diagnostics, older.n_cut
    if newer.diagnostics is not None:
        kept = {} if newer.replaces_diagnostics else older.diagnostics or {}
        diagnostics = {**kept, **newer.diagnostics}
        if len(diagnostics) > 2 * MAX_FILES:
            diagnostics = dict(list(diagnostics.items())[-MAX_FILES:])
        n_cut = {uri: n for uri, n in {**older.n_cut, **newer.n_cut}.items() if uri in diagnostics}
    return EditorReport(
        has_active=older.has_active or newer.has_active,
        active=newer.active if newer.has_active else older.active,
        tabs=older.tabs if newer.tabs is None else newer.tabs,
        n_tabs_cut=older.n_tabs_cut if newer.tabs is None else newer.n_tabs_cut,
        diagnostics=diagnostics,
        n_cut=n_cut,
        replaces_diagnostics=older.replaces_diagnostics or newer.replaces_diagnostics,
        encoding=newer.encoding,
    )


def apply_report(state: EditorState, report: EditorReport) -> EditorState:
    """Return *state* with the members of *report*, all within the limits."""
    diagnostics, n_cut = state.diagnostics, state.n_cut
    if report.diagnostics is not None:
        known = {} if report.replaces_diagnostics else {**diagnostics}
        for uri in report.diagnostics:
            known.pop(uri, None)  # the files that were reported last stay, where there are too many
        known |= report.diagnostics
        diagnostics, n_cut = limit_diagnostics(known, {**n_cut, **report.n_cut})
    return EditorState(
        active=limit_active(report.active) if report.has_active else state.active,
        tabs=state.tabs if report.tabs is None else report.tabs,
        n_tabs_cut=state.n_tabs_cut if report.tabs is None else report.n_tabs_cut,
        diagnostics=diagnostics,
        n_cut=n_cut,
        has_diagnostics=state.has_diagnostics or report.diagnostics is not None,
        encoding=report.encoding,
    )


def limit_active(active: EditorFile | None) -> EditorFile | None:
    """Return *active* with its texts and ranges within the limits."""
    if active is None:
        return None
    return replace(
        active,
        language_id=None if active.language_id is None else active.language_id[:_NAME_CHARS],
        selections=active.selections[:_MAX_SELECTIONS],
        selected_text=None if active.selected_text is None else active.selected_text[:_SELECTION_CHARS],
        visible_ranges=active.visible_ranges[:_MAX_SELECTIONS],
    )


def limit_diagnostics(
    files: Mapping[str, FileDiagnostics], n_cut: Mapping[str, int]
) -> tuple[dict[str, FileDiagnostics], dict[str, int]]:
    """Return the newest files that have diagnostics with the worst ones of each, and the numbers left out."""
    kept: dict[str, FileDiagnostics] = {}
    left_out: dict[str, int] = {}
    room = MAX_DIAGNOSTICS
    for uri, found in reversed(list(files.items())):
        if not found.diagnostics:
            continue
        worst = sorted(found.diagnostics, key=lambda each: each.severity)[: min(room, MAX_IN_FILE)]
        room -= len(worst)
        if worst and len(kept) < MAX_FILES:
            kept[uri] = replace(found, diagnostics=tuple(map(limit_diagnostic, worst)))
        left_out[uri] = n_cut.get(uri, 0) + len(found.diagnostics) - len(kept.get(uri, found).diagnostics)
    return dict(reversed(kept.items())), {uri: n for uri, n in left_out.items() if n and uri in kept}


def limit_diagnostic(found: EditorDiagnostic) -> EditorDiagnostic:
    """Return *found* with its texts within the limits."""
    code = found.code[:_NAME_CHARS] if isinstance(found.code, str) else found.code
    source = None if found.source is None else found.source[:_NAME_CHARS]
    return replace(found, message=found.message[:_MESSAGE_CHARS], code=code, source=source)


def cut_report(raw: Mapping[str, Any]) -> tuple[dict[str, Any], int, dict[str, int]]:
    """Return the JSON of a report within the limits, and the numbers of tabs and, by URI, problems left out.

    A member of another shape is returned as it is; the decoder refuses it.
    """
    cut, n_tabs_cut, n_cut = dict(raw), 0, {}
    tabs, files = raw.get("tabs"), raw.get("diagnostics")
    if isinstance(tabs, list):
        cut["tabs"] = [tab for tab in tabs[:MAX_TABS] if _has_short_uri(tab)]
        n_tabs_cut = len(tabs) - len(cut["tabs"])
    if isinstance(files, list):
        room, kept = 2 * MAX_DIAGNOSTICS, []
        for file in files[:MAX_FILES]:
            found = file.get("diagnostics") if isinstance(file, Mapping) else None
            if not isinstance(found, list) or not _has_short_uri(file):
                kept.append(file)
                continue
            taken = found[: min(room, 2 * MAX_IN_FILE)]
            room -= len(taken)
            kept.append({**file, "diagnostics": taken})
            if len(taken) < len(found):
                n_cut[str(file.get("uri"))] = len(found) - len(taken)
        cut["diagnostics"] = [file for file in kept if _has_short_uri(file)]
    active = raw.get("active")
    if not _has_short_uri(active):
        cut["active"] = None
    return cut, n_tabs_cut, n_cut


def _has_short_uri(value: Any) -> bool:
    """Whether *value* may be kept: a path on disk is shorter than the limit on every system."""
    uri = value.get("uri") if isinstance(value, Mapping) else None
    return not isinstance(uri, str) or len(uri) <= _URI_CHARS
