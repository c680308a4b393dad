"""The diagnostics tool: the problems that the user's editor shows, such as errors of compilers and linters.

It is on offer while a client provides them. The same lines come back with the result of a tool that changed a
file, for the errors that the change brought. Nothing is run, and no file is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Problem, ProblemWatch, ToolContext, ToolReply
from sidecar.capabilities.output import lines_that_fit
from sidecar.capabilities.paths import display_path, resolve
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.text.calls import READS_FILE

SEVERITIES: Final = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_MESSAGE_CHARS: Final = 300
_MOST_NEW: Final = 20


class DiagnosticsArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the diagnostics tool."""

    path: Annotated[str, msgspec.Meta(description="A file or folder; the whole workspace by default.")] = ""
    severity: Annotated[
        int,
        msgspec.Meta(ge=1, le=4, description="The least severe: 1 error, 2 warning, 3 information, 4 hint."),
    ] = 2
    limit: Annotated[int, msgspec.Meta(ge=1, le=500, description="How many at most.")] = 100


async def list_diagnostics(
    arguments: DiagnosticsArguments, context: ToolContext, cancel: CancelToken
) -> ToolReply:
    """Answer with the problems as the editor shows them now."""
    if context.problems is None:
        return error_reply("diagnostics: no editor provides any", "run the project's own checks")
    listed = await context.problems.all()
    found = [each for each in listed.problems if each.severity <= arguments.severity]
    where = ""
    if arguments.path:
        path = (await resolve(context, arguments.path)).path
        found = [each for each in found if each.path == path or path in each.path.parents]
        where = f" in {display_path(path, context.cwd)}"
    if not found:
        return ToolReply(f"the editor shows no {describe_severities(arguments.severity)}{where}")
    lines = problem_lines(found[: arguments.limit], context.cwd, context.max_output_chars - 200)
    n_more = len(found) - len(lines)
    if n_more:
        lines.append(f"[cut: {n_more} more; name a path to see them]")
    if listed.n_left_out:
        lines.append(f"[{listed.n_left_out} more were not reported, or are of other files]")
    return ToolReply("\n".join(lines))


def describe_severities(least: int) -> str:
    """Return the names of the severities down to *least*.

    >>> describe_severities(2)
    'error or warning'
    """
    return " or ".join(name for severity, name in SEVERITIES.items() if severity <= least)


def problem_lines(problems: Iterable[Problem], cwd: Path, cap_chars: int) -> list[str]:
    """Return one line for each of *problems*, as many as fit in *cap_chars*.

    >>> found = Problem(path=Path("/p/a.py"), line=3, severity=1, message="broken", source="mypy")
    >>> problem_lines([found], Path("/p"), 99)
    ['a.py:3: error: broken (mypy)']
    """

    def line_of(each: Problem) -> str:
        text = " ".join(each.message.split())[:_MESSAGE_CHARS]
        origin = " ".join(filter(None, (each.source, each.code)))
        place = f"{display_path(each.path, cwd)}:{each.line}"
        return f"{place}: {SEVERITIES.get(each.severity, 'error')}: {text}{f' ({origin})' if origin else ''}"

    return lines_that_fit(map(line_of, problems), cap_chars)


async def new_problems(watch: ProblemWatch, reply: ToolReply, cwd: Path, cancel: CancelToken) -> str:
    """Return the lines about the errors that a change has brought; empty where none came in time.

    Args:
        watch: began before the change, and ends here.
        reply: the reply of the tool; its diffs name the changed files.
        cwd: the folder that paths are shown relative to.
        cancel: ends the wait.
    """
    paths: Sequence[Path] = () if reply.is_error else tuple({diff.path: None for diff in reply.diffs})
    try:
        found = await unless_cancelled(watch.wait_for_new(paths), cancel) if paths else None
    finally:
        watch.close()
    if not found:
        return ""
    lines = problem_lines(found[:_MOST_NEW], cwd, 4_000)
    more = [f"[{len(found) - len(lines)} more]"] if len(found) > len(lines) else []
    return "\n".join(("[the editor shows new errors after this change]", *lines, *more))


DIAGNOSTICS = TypedTool(
    name="diagnostics",
    description=(
        "List the problems that the user's editor shows now: errors and warnings of compilers, type checkers "
        "and linters, by file and line. They may be a moment behind the files; after an edit the new errors "
        "of its files come with the result of the edit."
    ),
    kind="read",
    effects=READS_FILE,
    arguments=DiagnosticsArguments,
    describe=lambda arguments: f"Diagnostics {arguments.path}".rstrip(),
    perform=list_diagnostics,
)
