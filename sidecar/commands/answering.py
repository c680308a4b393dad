"""The turn of ``sidecar run``: it is followed, shown and judged, and its result printed.

Where the answer goes to a terminal it is shown as it is written. Else standard output gets the last answer
alone; texts before a tool call are narration, and go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.env import expand_home
from sidecar.commands.run import WRONG_ARGUMENTS
from sidecar.commands.sessions import SessionLookupError, open_session, read_commands
from sidecar.commands.terminal import Screen, is_typed_in, read_stdin
from sidecar.commands.views import StopTurn, show_event, text_of
from sidecar.commands.with_daemon import INTERRUPTED, on_first_interrupt, print_json, print_text
from sidecar.conductor.content import SHELL, parse_command
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar_client import ClientEvent, Session, SidecarClient, TurnLimits, reject

if TYPE_CHECKING:
    from argparse import Namespace

    from sidecar.commands.structured_output import OutputSchema
    from sidecar.commands.talking.forms import LineAsker

ANSWERED: Final = 0
FAILED: Final = 1
NOT_MATCHING: Final = 3
OUT_OF_BOUNDS: Final = 4

OFFLINE_MODEL: Final = "offline-1"

_NO_MODEL: Final = """\
sidecar run: no model is set up, and offline-1 finds and cites alone; choose one with --model or
INDUSAGI_MODEL; "sidecar doctor" says which are within reach"""


class Answering:
    """One run: its turn, and the questions of the daemon during it.

    Args:
        options: the command's.
        prompt: the task.
        limits: the limits of the turn.
        schema: the schema of the answer, None for an answer in words.
    """

    def __init__(
        self, options: Namespace, prompt: str, limits: TurnLimits, schema: OutputSchema | None
    ) -> None:
        self._options = options
        self._folder = expand_home(options.cwd).resolve()
        self._prompt = prompt
        self._limits = limits
        self._output = _Output(as_result=options.json, as_events=options.stream_json, schema=schema)
        self._asker: LineAsker | None = None

    def refuse(self, request: PermissionRequest) -> PermissionAnswer:
        """Refuse *request*, and show the options that allow such an action."""
        hint = "--allow RULE allows such an action, --yes every one"
        self._output.screen.note(f"· not allowed: {request.title}; {hint}", "yellow")
        return reject(request)

    async def fill_in(self, form: Elicitation) -> ElicitationAnswer:
        """Ask the user the questions of *form* in the terminal; without a terminal it is declined."""
        screen = self._output.screen
        if not (is_typed_in() and sys.stderr.isatty()):
            screen.note(f"· not answered: {form.message}; there is no terminal to ask in", "yellow")
            return ElicitationAnswer("decline")
        from sidecar.commands.talking.forms import LineAsker, answer_form  # not above: few runs are asked

        screen.end_line()
        if self._asker is None:
            self._asker = LineAsker(read_stdin(), screen)
        return await answer_form(form, screen, self._asker)

    async def answer(self, client: SidecarClient) -> int:
        """Answer the prompt in a session, and return the exit code."""
        options, screen = self._options, self._output.screen
        try:
            session = await open_session(client, options, self._folder, screen)
        except SessionLookupError as error:
            screen.problem(f"sidecar run: {error}")
            return WRONG_ARGUMENTS
        if options.require_model and await is_offline(session):
            screen.problem(_NO_MODEL)
            if options.resume is None:
                await client.session_delete(session.sid)
            return WRONG_ARGUMENTS
        with on_first_interrupt(StopTurn(session, screen)):
            return await answer_prompt(session, self._prompt, self._limits, self._output)


async def is_offline(session: Session) -> bool:
    """Whether no model would answer in *session*, but the built-in one that finds and cites."""
    loaded = await session.client.session_load(session.sid)
    model = next(each.current_value for each in loaded.config_options if each.id == "model")
    return model == OFFLINE_MODEL


async def answer_prompt(session: Session, prompt: str, limits: TurnLimits, output: _Output) -> int:
    """Answer *prompt*, once more where the answer does not match the schema; return the exit code."""
    schema = output.schema
    asked: Sequence[Mapping[str, Any]] = [{"type": "text", "text": prompt}]
    if schema is not None:
        asked = [*asked, {"type": "text", "text": schema.request}]
    ended = await output.follow(session, asked, limits)
    value, problems = schema.parse(output.answer) if schema is not None else (None, ())
    if problems and _is_answered(ended):
        output.screen.note(f"· asked again, because the answer does not match the schema: {problems[0]}")
        assert schema is not None
        ended = await output.follow(session, schema.request_again(problems), limits)
        value, problems = schema.parse(output.answer)
    if not _is_answered(ended):
        problems = ()
    output.finish(session.sid, ended, value, problems)
    return output.exit_code(ended, problems)


async def is_refused(session: Session, prompt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether *prompt*, which the daemon has not stored, was none of its commands."""
    names = [SHELL, *(each["name"] for each in await read_commands(session))]
    command = parse_command(tuple(prompt), names)
    return command is None or command.name not in names


def _is_answered(ended: ClientEvent) -> bool:
    return ended.kind == "settled" and ended.data["stopReason"] not in ("cancelled", "budget")


class _Output:
    """The output of one run.

    Where the answer goes to a terminal it is shown as it is written. Else standard output gets the last
    answer alone; texts before a tool call are narration, and go to standard error.

    Attributes:
        as_result: print the result as one JSON object.
        as_events: print each event as a line of JSON, and then the result.
        schema: the schema of the answer, None for an answer in words.
        answer: the newest answer of the model.
        is_refused: whether the daemon has taken the newest prompt neither to the model nor for a command.
        is_live: whether the answer is shown as it is written.
        screen: where the turn is shown.
    """

    def __init__(self, *, as_result: bool, as_events: bool, schema: OutputSchema | None) -> None:
        self.as_result = as_result
        self.as_events = as_events
        self.schema = schema
        self.answer = ""
        self.is_refused = False
        self.is_live = sys.stdout.isatty() and not (as_result or as_events or schema)
        self.screen = Screen(sys.stdout, notes=sys.stderr) if self.is_live else Screen(sys.stderr)

    async def follow(
        self, session: Session, prompt: Sequence[Mapping[str, Any]], limits: TurnLimits
    ) -> ClientEvent:
        """Send *prompt*, show its turn, and return the last event of it."""
        screen, streamed, event, is_stored = self.screen, set[str](), None, True
        screen.wait("thinking, Ctrl-C stops it")
        self.answer = ""
        async for event in session.stream(prompt, **limits):
            if self.as_events:
                print_json(as_wire(event))
            if event.kind == "userMessage":
                is_stored = event.data.get("nodeId") is not None
            if event.kind == "message":
                self._narrate()
                self.answer = text_of(event.data["content"])
            if self.is_live or event.kind not in ("message", "textDelta"):
                if event.kind == "toolStarted":
                    self._narrate()
                show_event(event, screen, streamed)
        assert event is not None, "a turn has a last event"
        screen.end_line()
        self.is_refused = not is_stored and await is_refused(session, prompt)
        return event

    def exit_code(self, ended: ClientEvent, problems: Sequence[str]) -> int:
        """Return the exit code for the last event of a turn."""
        if ended.kind == "faulted":
            return OUT_OF_BOUNDS if ended.data["kind"] == "turnBudget" else FAILED
        if ended.data["stopReason"] == "budget":
            return OUT_OF_BOUNDS
        if ended.data["stopReason"] == "cancelled":
            return INTERRUPTED
        if self.is_refused:
            return WRONG_ARGUMENTS
        return NOT_MATCHING if problems else ANSWERED

    def _narrate(self) -> None:
        """Show the newest answer as a note, now that more follows it."""
        if self.answer and not self.is_live:
            self.screen.note(self.answer)
        self.answer = ""

    def finish(self, sid: str, ended: ClientEvent, value: Any, problems: Sequence[str]) -> None:
        """Print the result, and its problems on standard error."""
        data, screen = ended.data, self.screen
        if self.as_result or self.as_events:
            print_json(self.result_of(sid, ended, value, problems))
        elif self.schema is not None:
            if self.exit_code(ended, problems) == ANSWERED:
                print_text(json.dumps(value, ensure_ascii=False) + "\n")
        elif not self.is_live and self.answer:
            print_text(self.answer if self.answer.endswith("\n") else self.answer + "\n")
        if ended.kind == "faulted":
            screen.problem(f"sidecar: {data['message']} ({data['kind']})")
        elif data["stopReason"] in ("cancelled", "budget"):
            screen.note(f'stopped; "sidecar chat --resume {sid}" continues from here')
        for problem in problems:
            screen.problem(f"sidecar run: the answer does not match the schema: {problem}")

    def result_of(
        self, sid: str, ended: ClientEvent, value: Any, problems: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return the result as ``--json`` prints it."""
        data, is_fault = ended.data, ended.kind == "faulted"
        code = self.exit_code(ended, problems)
        return {
            "kind": "result",
            "sid": sid,
            "turnId": ended.turn_id,
            "exitCode": code,
            "stopReason": None if is_fault else data["stopReason"],
            "text": self.answer,
            **({"output": value} if self.schema is not None and code == ANSWERED else {}),
            **({"problems": [*problems]} if problems else {}),
            **({"error": {"kind": data["kind"], "message": data["message"]}} if is_fault else {}),
            "usage": data["usage"],
            "durationMs": data["durationMs"],
        }


def as_wire(event: ClientEvent) -> Mapping[str, Any]:
    """Return *event* in its wire form."""
    turn = {"turnId": event.turn_id} if event.turn_id else {}
    head = {"sid": event.sid, "seq": event.seq, **turn, "at": event.at, "kind": event.kind}
    return {**head, "data": event.data}
