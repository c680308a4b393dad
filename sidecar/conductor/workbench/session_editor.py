"""The user's editor as one session may see it: only files of the session's folders, with resolved paths.

A session takes the newest report of its own clients that concerns its folders. Without one it takes that of
another client, because an editor and its agent panel may be two clients of one daemon. Ignored files, and
files outside of the folders, are counted and not named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import EditorAnswer, EditorQuery, Problem, ProblemList
from sidecar.conductor.clients import EditorContext, Editors, EditorState
from sidecar.conductor.contract import FileDiagnostics
from sidecar.conductor.errors import EditorSilentError
from sidecar.workspace.files import real_path
from sidecar.workspace.ignore import IgnoreRules
from sidecar.workspace.paths import is_inside, uri_to_path

WAIT_S: Final = 1.0
"""How long the result of a change waits at most for the errors that it brings."""

QUERY_S: Final = 10.0
"""How long the language servers of an editor may take to answer."""

_LEAST_S: Final = 0.05
_PATIENCE: Final = 3
"""A wait is so many times as long as the newest answer took; each wait for nothing halves the next one."""


class SessionEditor:
    """The editor of one session; its tools see the problems (``ProblemsPort``).

    Args:
        sid: the session.
        editors: the reported editors.
        roots: the resolved folders of the session.
    """

    def __init__(self, sid: str, editors: Editors, roots: Sequence[Path]) -> None:
        self._sid = sid
        self.editors = editors
        self.roots = tuple(roots)
        self._wait_s = WAIT_S
        self._newest: NewProblems | None = None

    @property
    def state(self) -> EditorState | None:
        """The state of the newest reported editor that shows a file of the session, None for none."""
        states = (each.state for each in self.editors.list_for(self._sid))
        return next((state for state in states if shows_any(state, self.roots)), None)

    @property
    def provider(self) -> EditorContext | None:
        """The newest editor that provides diagnostics, None for none."""
        return next((each for each in self.editors.list_for(self._sid) if each.state.has_diagnostics), None)

    @property
    def answering(self) -> Sequence[EditorContext]:
        """The editors of the session's clients and in its folders that answer questions about code."""
        return [
            each
            for each in self.editors.list_for(self._sid)
            if each.query is not None
            and (self.editors.is_client_of(self._sid, each) or shows_any(each.state, self.roots))
        ]

    async def ask(self, query: EditorQuery) -> EditorAnswer:
        """Return the first answer with anything in it. Raises EditorSilentError when no editor answers."""
        answer, problem = None, "the user's editor answers no such question"
        try:
            async with asyncio.timeout(QUERY_S):
                for editor in self.answering:
                    if editor.query is None or query.kind not in editor.kinds:
                        continue
                    try:
                        answer = await editor.query(query)
                    except SidecarError as error:
                        problem = error.message
                    if answer is not None and (answer.value or answer.problem):
                        return answer
        except TimeoutError:
            problem = (
                f"the editor has not answered in {QUERY_S:g} seconds; its language server may be starting"
            )
        if answer is None:
            raise EditorSilentError(problem)
        return answer

    async def all(self) -> ProblemList:
        """Return the problems of the files of the session, errors first."""
        provider = self.provider
        if provider is None:
            return ProblemList(())
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await provider.pull_diagnostics([tab.uri for tab in provider.state.tabs])
        return await asyncio.to_thread(list_problems, provider.state, self.roots)

    def watch(self) -> NewProblems | None:
        """Begin to watch for new problems; None while no client provides any."""
        if self._newest is not None:
            self._newest.forget()
        provider = self.provider
        self._newest = None if provider is None else NewProblems(self, provider)
        return self._newest

    @property
    def wait_s(self) -> float:
        """How long the next answer is waited for: as the client is known to answer."""
        return min(self._wait_s, WAIT_S)

    def learn(self, answered_s: float | None) -> None:
        """Learn that an answer took *answered_s*, also too long; None for no answer in time."""
        wait_s = self._wait_s / 2 if answered_s is None else _PATIENCE * answered_s
        self._wait_s = max(_LEAST_S, min(WAIT_S, wait_s))


class NewProblems:
    """The reports of one editor since a moment; a ``ProblemWatch``."""

    def __init__(self, editor: SessionEditor, provider: EditorContext) -> None:
        self._editor = editor
        self._provider = provider
        self._before = provider.state
        self._reported: dict[str, FileDiagnostics] = {}
        self._changed = asyncio.Event()
        self._paths: Sequence[Path] = ()
        self._asked_at: float | None = None
        self._listens = True
        self._dispose = provider.on_diagnostics(self.add)

    def add(self, reported: Mapping[str, FileDiagnostics]) -> None:
        """Take in a report."""
        self._reported.update(reported)
        self._changed.set()
        if self._asked_at is not None and match_uris(reported, self._paths):
            self._editor.learn(time.monotonic() - self._asked_at)
            self._asked_at = None

    async def wait_for_new(self, paths: Sequence[Path]) -> Sequence[Problem] | None:
        """Return the errors of *paths* that came since the watch began, None when nothing was reported."""
        tabs = (tab.uri for tab in self._before.tabs)
        known = match_uris((*self._before.diagnostics, *tabs), paths)
        self._paths, self._asked_at = paths, time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._editor.wait_s):
                await self._provider.pull_diagnostics([path.as_uri() for path in paths])
                while len(set(match_uris(self._reported, paths).values())) < len(set(paths)):
                    self._changed.clear()
                    await self._changed.wait()
        reported = match_uris(self._reported, paths)
        if not reported:
            self._editor.learn(None)
            return None
        before = {
            shape_of(each)
            for uri, path in known.items()
            if (found := self._before.diagnostics.get(uri)) is not None
            for each in problems_of(path, found)
        }
        return [
            each
            for uri, path in reported.items()
            for each in problems_of(path, self._reported[uri])
            if each.severity == 1 and shape_of(each) not in before
        ]

    def close(self) -> None:
        """End the watch. An answer that is still due is listened for, to learn how long it takes."""
        if self._asked_at is None:
            self.forget()

    def forget(self) -> None:
        """Listen no more, also for a late answer."""
        if self._listens:
            self._listens = False
            self._dispose()


def match_uris(uris: Iterable[str], paths: Sequence[Path]) -> dict[str, Path]:
    """Return the *uris* of the resolved *paths*; only a URI with the name of one is resolved."""
    names, wanted = {path.name for path in paths}, set(paths)
    spelled = ((uri, uri_to_path(uri)) for uri in uris)
    real = ((uri, real_path(path)) for uri, path in spelled if path is not None and path.name in names)
    return {uri: path for uri, path in real if path in wanted}


def shape_of(problem: Problem) -> tuple[Path, str, str, str]:
    """Return a problem without its line, which moves with an edit above it."""
    return problem.path, problem.message, problem.source, problem.code


def real_path_of(uri: str) -> Path | None:
    """Return the file that *uri* names with all links followed, None when it names none."""
    path = uri_to_path(uri)
    return None if path is None else real_path(path)


def shows_any(state: EditorState, roots: Iterable[Path]) -> bool:
    """Whether the editor shows a file below *roots*, or reports about one."""
    folders = tuple(roots)
    active = None if state.active is None else real_path_of(state.active.uri)
    if active is not None and is_inside(active, folders):
        return True
    uris = (*(tab.uri for tab in state.tabs), *state.diagnostics)
    return any(path is not None and is_inside(path, folders) for path in map(uri_to_path, uris))


class SessionPaths:
    """Judges paths for one session: inside of its folders, and not ignored. Looks at the disk."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._rules = {root: IgnoreRules(root) for root in roots}

    def is_inside(self, path: Path) -> bool:
        """Whether one of the folders holds the resolved *path*."""
        return is_inside(path, self._rules)

    def is_ignored(self, path: Path) -> bool:
        """Whether the ignore rules leave *path* out, which lies in one of the folders."""
        return any(
            path.is_relative_to(root) and rules.is_ignored(path) for root, rules in self._rules.items()
        )

    def find(self, uri: str) -> Path | None:
        """Return the file that *uri* names where the session may see it, else None."""
        path = real_path_of(uri)
        return path if path is not None and self.is_inside(path) and not self.is_ignored(path) else None


def list_problems(state: EditorState, roots: Sequence[Path]) -> ProblemList:
    """Return the problems of the files below *roots*, errors first, then by file and line."""
    paths, n_left_out = SessionPaths(roots), sum(state.n_cut.values())
    problems: list[Problem] = []
    for uri, found in state.diagnostics.items():
        path = paths.find(uri)
        if path is None:
            n_left_out += len(found.diagnostics)
        else:
            problems += problems_of(path, found)
    problems.sort(key=lambda each: (each.severity, str(each.path), each.line))
    return ProblemList(tuple(problems), n_left_out)


def problems_of(path: Path, found: FileDiagnostics) -> list[Problem]:
    """Return the problems that were reported of the file *path*."""
    return [
        Problem(
            path=path,
            line=each.range.start.line + 1,
            severity=each.severity if each.severity in (1, 2, 3, 4) else 1,
            message=each.message,
            source=each.source or "",
            code="" if each.code is None else str(each.code),
        )
        for each in found.diagnostics
    ]
