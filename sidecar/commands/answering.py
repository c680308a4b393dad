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
from sidecar.commands.with_daemon import INTERRUPTED, Interrupts, print_json, print_text
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
    """One run: its turn, the questions of the daemon during it, and its output.

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
        self._schema = schema
        self._is_live = sys.stdout.isatty() and not (options.json or options.stream_json or schema)
        self._screen = Screen(sys.stdout, notes=sys.stderr) if self._is_live else Screen(sys.stderr)
        self._asker: LineAsker | None = None
        self._answer = ""
        """The newest answer of the model."""
        self._is_refused = False
        """Whether the daemon has taken the newest prompt neither to the model nor for a command."""

    def refuse(self, request: PermissionRequest) -> PermissionAnswer:
        """Refuse *request*, and show the options that allow such an action."""
        hint = "--allow RULE allows such an action, --yes every one"
        self._screen.note(f"· not allowed: {request.title}; {hint}", "yellow")
        return reject(request)

    async def fill_in(self, form: Elicitation) -> ElicitationAnswer:
        """Ask the user the questions of *form* in the terminal; without a terminal it is declined."""
        screen = self._screen
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
        options, screen = self._options, self._screen
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
        with Interrupts() as interrupts, interrupts.on_first(StopTurn(session, screen)):
            return await self.answer_in(session)

    async def answer_in(self, session: Session) -> int:
        """Answer the prompt, once more where the answer does not match the schema; return the exit code."""
        schema, value = self._schema, None
        problems: Sequence[str] = ()
        asked: Sequence[Mapping[str, Any]] = [{"type": "text", "text": self._prompt}]
        if schema is not None:
            asked = [*asked, {"type": "text", "text": schema.request}]
        ended = await self.follow(session, asked)
        code = self.judge(ended)
        if schema is not None and code == ANSWERED:
            value, problems = schema.parse(self._answer)
            if problems:
                self._screen.note(
                    f"· asked again, because the answer does not match the schema: {problems[0]}"
                )
                ended = await self.follow(session, schema.request_again(problems))
                code = self.judge(ended)
                value, problems = schema.parse(self._answer) if code == ANSWERED else (None, ())
        if problems:
            code = NOT_MATCHING
        self.print_result(session.sid, ended, code, value, problems)
        return code

    async def follow(self, session: Session, prompt: Sequence[Mapping[str, Any]]) -> ClientEvent:
        """Send *prompt*, show its turn, and return the last event of it."""
        screen, streamed, event, is_stored = self._screen, set[str](), None, True
        screen.wait("thinking, Ctrl-C stops it")
        self._answer = ""
        async for event in session.stream(prompt, **self._limits):
            if self._options.stream_json:
                print_json(as_wire(event))
            if event.kind == "userMessage":
                is_stored = event.data.get("nodeId") is not None
            if event.kind == "message":
                self.narrate()
                self._answer = text_of(event.data["content"])
            if self._is_live or event.kind not in ("message", "textDelta"):
                if event.kind == "toolStarted":
                    self.narrate()
                show_event(event, screen, streamed)
        assert event is not None, "a turn has a last event"
        screen.end_line()
        self._is_refused = not is_stored and await is_refused(session, prompt)
        return event

    def narrate(self) -> None:
        """Show the newest answer as a note, now that more follows it."""
        if self._answer and not self._is_live:
            self._screen.note(self._answer)
        self._answer = ""

    def judge(self, ended: ClientEvent) -> int:
        """Return the exit code of a turn by its last event, without a look at the answer."""
        if ended.kind == "faulted":
            return OUT_OF_BOUNDS if ended.data["kind"] == "turnBudget" else FAILED
        if ended.data["stopReason"] == "budget":
            return OUT_OF_BOUNDS
        if ended.data["stopReason"] == "cancelled":
            return INTERRUPTED
        return WRONG_ARGUMENTS if self._is_refused else ANSWERED

    def print_result(
        self, sid: str, ended: ClientEvent, code: int, value: Any, problems: Sequence[str]
    ) -> None:
        """Print the result, and its problems on standard error."""
        data, is_fault, screen = ended.data, ended.kind == "faulted", self._screen
        if self._options.json or self._options.stream_json:
            print_json(
                {
                    "kind": "result",
                    "sid": sid,
                    "turnId": ended.turn_id,
                    "exitCode": code,
                    "stopReason": None if is_fault else data["stopReason"],
                    "text": self._answer,
                    **({"output": value} if self._schema is not None and code == ANSWERED else {}),
                    **({"problems": [*problems]} if problems else {}),
                    **({"error": {"kind": data["kind"], "message": data["message"]}} if is_fault else {}),
                    "usage": data["usage"],
                    "durationMs": data["durationMs"],
                }
            )
        elif self._schema is not None:
            if code == ANSWERED:
                print_text(json.dumps(value, ensure_ascii=False) + "\n")
        elif not self._is_live and self._answer:
            print_text(self._answer if self._answer.endswith("\n") else self._answer + "\n")
        if is_fault:
            screen.problem(f"sidecar: {data['message']} ({data['kind']})")
        elif data["stopReason"] in ("cancelled", "budget"):
            screen.note(f'stopped; "sidecar chat --resume {sid}" continues from here')
        for problem in problems:
            screen.problem(f"sidecar run: the answer does not match the schema: {problem}")


async def is_offline(session: Session) -> bool:
    """Whether no model would answer in *session*, but the built-in one that finds and cites."""
    loaded = await session.client.session_load(session.sid)
    model = next(each.current_value for each in loaded.config_options if each.id == "model")
    return model == OFFLINE_MODEL


async def is_refused(session: Session, prompt: Sequence[Mapping[str, Any]]) -> bool:
    """Whether *prompt*, which the daemon has not stored, was none of its commands."""
    names = [SHELL, *(each["name"] for each in await read_commands(session))]
    command = parse_command(tuple(prompt), names)
    return command is None or command.name not in names


def as_wire(event: ClientEvent) -> Mapping[str, Any]:
    """Return *event* in its wire form."""
    turn = {"turnId": event.turn_id} if event.turn_id else {}
    head = {"sid": event.sid, "seq": event.seq, **turn, "at": event.at, "kind": event.kind}
    return {**head, "data": event.data}
