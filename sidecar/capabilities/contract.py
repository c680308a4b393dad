"""Tools as other rooms see them: the contract of a tool, its context and its replies. No behaviour.

A tool answers the model with text, and the client with a title, locations and diffs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import ImageBlock, ToolDescriptor
from sidecar.permissions.access import Access
from sidecar.text.calls import ToolEffects, ToolKind
from sidecar.workspace.contract import FileView, PositionEncoding, QueryKind

if TYPE_CHECKING:  # these stand above this module, and the first one imports it
    from sidecar.capabilities.background import BackgroundCommands
    from sidecar.workspace.workspace import Workspace

PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Location(Value):
    """A place a tool looks at or changes; *line* counts from 1."""

    path: Path
    line: int | None = None


class Diff(Value):
    """A change of a file; *old_text* is None for a new one, and one that *is_whole* has no hunks."""

    path: Path
    old_text: str | None
    new_text: str
    is_whole: bool = False


class PlanEntry(Value):
    """One item of the todo list; priority is ``high``, ``medium`` or ``low``."""

    content: str
    status: PlanStatus = "pending"
    priority: str = "medium"


class PermissionQuestion(Value, kw_only=True):
    """A question before a tool does something: may it have *access*?

    *subject* is ``toolCall``, ``command`` or ``path``; *detail* the command line or path in question.
    """

    call_id: str
    tool: str
    title: str
    subject: str
    detail: str
    access: Access
    diffs: tuple[Diff, ...] = ()


class PermissionDecision(Value):
    """The answer to a question; *why* is the reason of a refusal that did not come from the user.

    *hunks* are the ones that the user did not keep as proposed, by the indices of the diff and the hunk: with
    the text in their place, or None where refused.
    """

    is_allowed: bool
    why: str | None = None
    hunks: Mapping[tuple[int, int], str | None] = field(default_factory=dict)


AskUser: TypeAlias = Callable[[PermissionQuestion], Awaitable[PermissionDecision]]
"""Asks the user where that is needed. Contract: never raises but for cancellation; no answer is a refusal."""


class Form(Value, kw_only=True):
    """Questions to the user that are no question for permission, as one form.

    *schema* is flat, see :mod:`sidecar.text.forms`. *call_id* is the call that asks, None where that is not
    known; *asker* is ``agent`` or the name of a tool server. A form with *url* asks to open that address.
    """

    message: str
    schema: Mapping[str, Any]
    call_id: str | None = None
    asker: str = "agent"
    url: str | None = None


FormAction: TypeAlias = Literal["accept", "decline", "cancel", "expired", "unasked"]
"""The end of a form: answered, declined, dismissed, not answered in time, or shown to nobody as a form."""


class FormAnswer(Value):
    """The answer to a form; *content* fits its schema where the user has accepted it, else it is empty.

    *why* is the reason of a hook that declined in place of the user.
    """

    action: FormAction
    content: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


AskForm: TypeAlias = Callable[[Form], Awaitable[FormAnswer]]
"""Puts a form to the user. Contract: never raises but for cancellation, which takes the form back."""


class TerminalCommand(Value, kw_only=True):
    """A command for a terminal of the client.

    *environment* is added to the client's own; of an output beyond *max_output_bytes* the end is enough.
    """

    call_id: str
    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float
    max_output_bytes: int


class TerminalEnd(Value):
    """The end of a command in a terminal: its output, its exit code (None for a signal), and the reason."""

    output: str
    exit_code: int | None
    reason: Literal["exited", "timeout", "cancelled"]


RunInTerminal: TypeAlias = Callable[[TerminalCommand, CancelToken], Awaitable[TerminalEnd | None]]
"""Runs a command where the client's user sees it; None when the client does not run it after all.

Contract: never raises but for cancellation; everything it started has ended when it returns.
"""


class SubagentTask(Value):
    """A task for a sub-agent, in so many seconds and calls of tools at most.

    *max_tokens* bounds the tokens of its model calls together, None for no bound; *model* answers it, None
    for the model of its parent. With *reads_only* it has no tool that may change anything. It works in
    *folder*, None for the folders of its parent.
    """

    title: str
    prompt: str
    timeout_s: float
    max_calls: int
    max_tokens: int | None = None
    model: str | None = None
    reads_only: bool = False
    folder: Path | None = None


class SubagentEnd(Value, kw_only=True):
    """The end of a sub-agent: its answer, and the reason where it did not finish.

    *cost* is the price of its *n_tokens* in US dollars where that is known.
    """

    text: str
    problem: str | None
    n_calls: int
    n_tokens: int
    cost: float | None


TakeBack: TypeAlias = Callable[[], Awaitable[tuple[Path, ...]]]
"""Moves the files away that a command has made and must not make, and returns their new paths."""


class ConfinedCommand(Value):
    """A command that runs another one in the sandbox."""

    argv: list[str]
    take_back: TakeBack


Confine: TypeAlias = Callable[[Sequence[str], Path, Sequence[Path]], Awaitable[ConfinedCommand]]
"""``async (argv, cwd, roots)``: returns the command that runs another one in the sandbox.

Contract: raises SidecarError when it cannot be confined; then it must not run at all.
"""


class ToolReply(Value):
    """The result of a call; *output* is text for the model, already bounded, and *images* stand behind it."""

    output: Any
    is_error: bool = False
    title: str | None = None
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    images: tuple[ImageBlock, ...] = ()


RunSubagent: TypeAlias = Callable[[SubagentTask, "ToolContext", CancelToken], Awaitable[SubagentEnd]]
"""Runs a sub-agent for a call with these surroundings. Contract: it has ended when this returns."""


class PlannedChange(Value):
    """A change of a file that a tool is about to make: the view before it, and the text after it.

    *before* is None for a new file, *text* for a file that is deleted.
    """

    path: Path
    before: FileView | None
    text: str | None


class CheckpointPort(Protocol):
    """Keeps the contents of files that one call changes. Contract: never raises but for cancellation."""

    async def keep(self, changes: Sequence[PlannedChange]) -> None:
        """Keep the files of *changes* as they are; on disk when this returns."""
        ...

    async def watch_command(self, named: Sequence[Path] = ()) -> Callable[[], Awaitable[None]]:
        """Keep the files that the model has read or that a command line names, as they are.

        Args:
            named: the files that the command is to change, resolved; they need not exist.

        Returns:
            The function to call after the command.
        """
        ...

    def leave_uncovered(self, name: str) -> None:
        """Note that the changes of files by *name* are not kept, so that the user can be told."""
        ...

    async def correct(self, view: FileView) -> None:
        """Record that the newest change of a file has led to *view* and not to the planned text."""
        ...


class Problem(Value, kw_only=True):
    """One problem that an editor shows, such as an error of a compiler.

    Attributes:
        path: the file, resolved.
        line: its line, from 1.
        severity: 1 for an error, 2 for a warning, 3 for information, 4 for a hint.
        message: the text.
        source: the program that found it, empty for unknown.
        code: the name or number that this program gives it, empty for none.
    """

    path: Path
    line: int
    severity: int
    message: str
    source: str = ""
    code: str = ""


class ProblemList(Value):
    """The problems of the session's files; *n_left_out* are further ones, not reported or of other files."""

    problems: tuple[Problem, ...]
    n_left_out: int = 0


class ProblemWatch(Protocol):
    """The problems as they were when the watch began. Contract: never raises but for cancellation."""

    async def wait_for_new(self, paths: Sequence[Path]) -> Sequence[Problem] | None:
        """Return the errors of *paths* that came since, None when the client reported nothing in time.

        Returns as soon as each of *paths* was reported, within a second.
        """
        ...

    def close(self) -> None:
        """End the watch."""
        ...


class ProblemsPort(Protocol):
    """The problems that the user's editor shows."""

    async def all(self) -> ProblemList:
        """Return the problems of the files of the session, errors first."""
        ...

    def watch(self) -> ProblemWatch | None:
        """Begin to watch for new problems; None while no client provides any."""
        ...


class EditorQuery(Value, kw_only=True):
    """A question to the user's editor.

    Attributes:
        kind: the question.
        path: the file that it is about, resolved.
        line: the line of the place in it, from 0; None for the whole file.
        before: the text of that line in front of the place, which each editor counts in a unit of its own.
        text: the words of a search for symbols, or the new name of a rename.
    """

    kind: QueryKind
    path: Path
    line: int | None = None
    before: str = ""
    text: str | None = None


class EditorAnswer(Value):
    """The answer of an editor.

    Attributes:
        value: JSON in the shape that the Language Server Protocol has for the question, not checked.
        encoding: the unit of characters in its positions.
        problem: the words of the language server that could not answer, empty for none.
    """

    value: Any
    encoding: PositionEncoding
    problem: str = ""


AskEditor: TypeAlias = Callable[[EditorQuery], Awaitable[EditorAnswer]]
"""Asks the user's editor. Contract: raises SidecarError when no editor answers, within some seconds."""


class HookVerdict(Value):
    """The answer of the user's hooks: why they refuse, None to go on, and a note for the model."""

    refusal: str | None = None
    note: str = ""


class CallGuard(Protocol):
    """Judges calls of tools. Contract: never raises but for cancellation; ends soon after *cancel*."""

    async def before(self, name: str, arguments: Mapping[str, Any], cancel: CancelToken) -> HookVerdict:
        """Return whether the tool *name* may be called."""
        ...

    async def after(
        self, name: str, arguments: Mapping[str, Any], reply: ToolReply, cancel: CancelToken
    ) -> HookVerdict:
        """Return the objection to the *reply* of a call, and a note about it."""
        ...


class ReadsPort(Protocol):
    """The files that the model of one session has read."""

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Record that the result of *call_id* shows *view*, or a range of its lines, to the model."""
        ...

    def get(self, path: Path) -> FileRead | None:
        """Return the newest content of the resolved *path* that the model has seen, None for none."""
        ...

    def path_now(self, path: Path) -> Path:
        """Return the path that the user has given to the file *path* since the model read it there."""
        ...


class ToolContext(Value, kw_only=True):
    """The surroundings of one call of a tool.

    Attributes:
        cwd: the folder that relative paths begin at.
        roots: the resolved trees that a path must lie in, unless the user allows another.
        reads: the record of the files that the model has read.
        ask: asks the user for permission.
        ask_form: asks the user anything else, None where nobody can be asked.
        progress: shows output to the client before the call has ended.
        child_started: called with the id and name of each started process; returns a function to call when
            the process is gone.
        max_output_chars: the length of a reply.
        terminal: runs commands in the client's terminal, where it lends one.
        confine: confines commands, where the user's settings ask for it.
        show_rules: returns the rules for a file that the model has not seen yet, to be shown by a call's
            result.
        reads_only: whether no call may change anything, as the user has chosen.
        sees_images: whether the model of the session sees images.
        may_fetch_private: whether pages may be fetched from this machine and its network.
        output_folder: the folder for the files of long outputs, None for no files.
        background: the commands that run in the background, None where none can.
        run_subagent: runs a sub-agent, None where there are none.
        list_folded: returns the entries that the model does not see any more, oldest first.
        list_by_place: returns all entries of the conversation; the first has the place #1 of its chronicle.
        checkpoints: keeps the contents of files before they are changed, None for nothing.
        guard: judges each call, None where there is nothing to judge by.
        problems: the problems that the user's editor shows, None where there is no editor.
        ask_editor: asks the language servers of the user's editor, None where there is no editor.
    """

    call_id: str
    cwd: Path
    roots: tuple[Path, ...]
    workspace: Workspace
    reads: ReadsPort
    ask: AskUser
    progress: Callable[[str], None]
    set_plan: Callable[[tuple[PlanEntry, ...]], None]
    child_started: Callable[[int, str], Callable[[], None]]
    max_output_chars: int
    ask_form: AskForm | None = None
    terminal: RunInTerminal | None = None
    confine: Confine | None = None
    show_rules: Callable[[Path, str], Awaitable[str]] | None = None
    reads_only: bool = False
    sees_images: bool = False
    may_fetch_private: bool = False
    output_folder: Path | None = None
    background: BackgroundCommands | None = None
    run_subagent: RunSubagent | None = None
    list_folded: Callable[[], tuple[Entry, ...]] = tuple
    list_by_place: Callable[[], Sequence[Entry]] = tuple
    checkpoints: CheckpointPort | None = None
    guard: CallGuard | None = None
    problems: ProblemsPort | None = None
    ask_editor: AskEditor | None = None


class Tool(Protocol):
    """One tool."""

    @property
    def descriptor(self) -> ToolDescriptor:
        """The name, description and parameters that a model is given."""
        ...

    @property
    def kind(self) -> ToolKind:
        """The kind of its work, for clients."""
        ...

    @property
    def effects(self) -> ToolEffects:
        """The effects of its calls, for rooms that order, summarise or show them."""
        ...

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return one short line for clients, such as ``Read sidecar/cli.py``; tolerant of bad arguments."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Run one call.

        Contract: bad arguments and expected failures are error replies, not exceptions; *cancel* ends it
        within 100 ms, children included; nothing blocks the event loop.
        """
        ...


class ToolActivity(Value, kw_only=True):
    """A report on one call for clients; *phase* is ``started``, ``progress`` or ``finished``.

    *is_cancelled* is True at the end of a call that failed and was cancelled before.
    """

    phase: Literal["started", "progress", "finished"]
    call_id: str
    name: str
    title: str
    kind: ToolKind
    input: Any = None
    output: Any = None
    is_error: bool = False
    is_cancelled: bool = False
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()


ToolObserver: TypeAlias = Callable[[ToolActivity], None]
"""Receives the reports on every call. Contract: returns soon, never raises."""
