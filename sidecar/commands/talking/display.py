"""A conversation as its events show it: finished parts go above, and the rest is a live part below.

Thinking and the output of tools are folded to their first lines; :meth:`Display.unfold` shows one whole.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from rich.text import Text

from sidecar.commands.talking.rendering import MarkdownStream, render, show_asked_diffs, show_diffs
from sidecar.commands.terminal import Screen
from sidecar.commands.views import PLAN_MARKS, show_event
from sidecar_client import ClientEvent

_FOLDED_LINES: Final = 3
_UNFOLDED_LINES: Final = 2_000
_PROMPT_LINES: Final = 12
_KEPT_FOLDS: Final = 50
_KEPT_CHARS: Final = 200_000
"""Of each folded text; more of it is in the session."""

_QUEUE_SHOWN: Final = 3
_TODO_SHOWN: Final = 8
_SPINNER: Final = "|/-\\"
_TURNS_PER_S: Final = 4


_AGAIN: Final = "Up and Enter send the prompt again"


class SessionState(Struct):
    """The newest state of the session in its events: options, commands, queue, todo list and usage."""

    usage: Mapping[str, Any] = field(default_factory=dict)
    options: Sequence[Mapping[str, Any]] = ()
    commands: Sequence[Mapping[str, Any]] = ()
    queue: Sequence[Mapping[str, Any]] = ()
    todo: Sequence[Mapping[str, Any]] = ()

    def option(self, name: str) -> str:
        """Return the value of a config option, empty when there is none."""
        return next((each["currentValue"] for each in self.options if each["id"] == name), "")

    @property
    def model_name(self) -> str:
        """The model as a user reads it."""
        value = self.option("model")
        choices = (choice for each in self.options if each["id"] == "model" for choice in each["options"])
        return next((choice["name"] for choice in choices if choice["value"] == value), value)


class Display:
    """Shows the events of one session.

    Args:
        screen: receives the finished parts.
        folder: paths are shown as they would be typed in it.
    """

    def __init__(self, screen: Screen, folder: Path) -> None:
        self.known = SessionState()
        self.turn_id: str | None = None
        self.busy_since: float | None = None
        self.activity = ""
        self.is_waiting = False
        self._screen = screen
        self._folder = folder
        self._answer = MarkdownStream()
        self._answer_id = ""
        self._thought = ""
        self._steps: dict[str, list[str]] = {}
        self._progress = ""
        self._folds: deque[tuple[str, str]] = deque(maxlen=_KEPT_FOLDS)
        self._n_unfolded = 0
        self._shown_diffs: set[str] = set()
        self._rendered = ("", "")
        self._waiting: list[ClientEvent] = []

    @property
    def is_live(self) -> bool:
        """Whether there is anything in the live part."""
        return bool(self.busy_since is not None or self._answer.tail.strip() or self.known.queue)

    def enter(self, loaded: Mapping[str, Any]) -> None:
        """Show the session of *loaded*, the answer to ``session/load``."""
        snapshot = loaded["snapshot"]
        self.end()
        self.known.usage, self.known.options = loaded["usage"], loaded["configOptions"]
        self.known.queue, self.known.todo = snapshot["queue"], snapshot["plan"]
        if snapshot.get("turnId"):
            self.begin("at work", snapshot["turnId"])

    def note(self, text: str) -> None:
        """Show a note of the terminal itself."""
        self._screen.note(text)

    def begin(self, activity: str, turn_id: str | None = None) -> None:
        """Show that work has begun."""
        if self.busy_since is None:
            self.busy_since = time.monotonic()
        self.activity = activity
        self.turn_id = turn_id or self.turn_id

    def end(self) -> None:
        """Show that nothing runs."""
        self._finish_answer()
        self.busy_since = self.turn_id = None
        self._progress = ""

    def show(self, event: ClientEvent) -> None:
        """Show one event of the session."""
        data = event.data
        match event.kind:
            case "thinkingDelta" | "textDelta" | "toolProgress":
                self.show_delta(event.kind, data)
            case "usage":
                self.known.usage = data
            case "configChanged":
                self.known.options = data["configOptions"]
            case "commandsChanged":
                self.known.commands = data["commands"]
            case "queue":
                self.known.queue = data["items"]
            case "plan":
                self.known.todo = data["entries"]
            case "phase" | "infoChanged" | "fileFresh" | "compactionSummaryDelta":
                pass
            case "userMessage":
                self._finish_answer()
                if event.seq:  # else the past is shown again
                    self.begin("thinking", event.turn_id)
                self.show_prompt(_text_of(data["content"]))
            case "message":
                self.show_message(data)
            case "toolStarted":
                self._finish_answer()
                if event.seq:
                    self.begin(data["title"], event.turn_id)
            case "subagent":
                self.show_child(data)
            case "toolFinished":
                self.show_result(data)
            case "retry":
                if data.get("withdrawn"):
                    self._answer, self._thought = MarkdownStream(), ""
                self._finish_answer()
                show_event(event, self._screen, set())
            case "settled" | "faulted":
                self.show_end(event.kind, data)
            case _ if self._answer.tail.strip():
                self._waiting.append(event)  # a note in the middle of a block would end it
            case _:
                self._finish_answer()
                show_event(event, self._screen, set())

    def show_prompt(self, text: str) -> None:
        """Show a prompt of this user or of another client."""
        lines = text.strip().splitlines()
        more = f"\n  and {len(lines) - _PROMPT_LINES} more lines" if len(lines) > _PROMPT_LINES else ""
        shown, room = "\n  ".join(lines[:_PROMPT_LINES]), _PROMPT_LINES * self._screen.console.width
        if len(shown) > room:
            shown, more = shown[:room], f"\n  and {len(text.strip()) - room:,} more characters"
        self._screen.gap()
        self._screen.line(f"» {shown}{more}", "bold")
        self._screen.line()

    def show_diffs(self, call_id: str, diffs: Sequence[Mapping[str, Any]]) -> None:
        """Show the changes of a call, unless a question has shown them."""
        if call_id in self._shown_diffs:
            return
        self._shown_diffs.add(call_id)
        show_diffs(diffs, self._screen, self._folder)

    def show_asked_diffs(self, call_id: str, diffs: Sequence[Mapping[str, Any]]) -> list[Text]:
        """Show the changes that a question is about, and return the lines that were left out."""
        self._shown_diffs.add(call_id)
        return show_asked_diffs(diffs, self._screen, self._folder)

    def unfold(self) -> None:
        """Show the newest folded text whole; called again, the one before it."""
        if self._n_unfolded >= len(self._folds):
            self._screen.note("nothing more is folded")
            return
        self._n_unfolded += 1
        title, text = self._folds[-self._n_unfolded]
        lines = text.splitlines()
        self._screen.note(f"{title}, whole", "bold")
        for line in lines[:_UNFOLDED_LINES]:
            self._screen.note(f"  {line}")
        if len(lines) > _UNFOLDED_LINES:
            self._screen.note(f"  and {len(lines) - _UNFOLDED_LINES:,} more lines, which are in the session")

    def live(self, rows: int) -> str:
        """Return the live part in at most *rows* lines, with colours."""
        above = self.live_answer().splitlines()
        below = [*self.live_activity(), *self.live_todo(), *self.live_queue()]
        room = max(1, rows - len(below))
        return "\n".join([*above[-room:], *below])

    def live_answer(self) -> str:
        """Return the block of the answer that is being written, rendered."""
        tail = self._answer.tail
        if self._rendered[0] != tail:
            self._rendered = (tail, render(tail, self._screen.console) if tail.strip() else "")
        return self._rendered[1]

    def live_activity(self) -> list[str]:
        """Return the line with the spinner, and the newest line of a running tool."""
        if self.busy_since is None:
            return []
        elapsed = time.monotonic() - self.busy_since
        sign = _SPINNER[int(elapsed * _TURNS_PER_S) % len(_SPINNER)]
        lines = [f"{sign} {self.activity}, {elapsed:.0f} s; Esc stops it"]
        if self.is_waiting:
            lines = ["? waiting for you"]
        if self._progress:
            lines.append(f"  {self._progress}")
        return [self._dim(line) for line in lines]

    def live_todo(self) -> list[str]:
        """Return the lines of the todo list around the first open one."""
        todo = self.known.todo
        if self.busy_since is None or not todo:
            return []
        at = next((at for at, item in enumerate(todo) if item["status"] != "completed"), len(todo))
        first = max(0, min(at - 2, len(todo) - _TODO_SHOWN))
        lines = [
            f"  {PLAN_MARKS.get(item['status'], '·')} {item['content']}"
            for item in todo[first : first + _TODO_SHOWN]
        ]
        left = len(todo) - len(lines)
        return [self._dim(line) for line in [*lines, *([f"    and {left} more"] if left else [])]]

    def live_queue(self) -> list[str]:
        """Return the first prompts that wait."""
        texts = [_text_of(item["input"]).strip() for item in self.known.queue]
        lines = [f"  waits: {text.splitlines()[0] if text else ''}" for text in texts[:_QUEUE_SHOWN]]
        if len(texts) > _QUEUE_SHOWN:
            lines.append(f"  and {len(texts) - _QUEUE_SHOWN} more wait")
        return [self._dim(line) for line in lines]

    def _dim(self, line: str) -> str:
        text = Text(self._screen.printable(line).replace("\n", " "), "dim")
        text.truncate(self._screen.console.width - 1, overflow="ellipsis")
        with self._screen.console.capture() as captured:
            self._screen.console.print(text, end="")
        return captured.get()

    def show_delta(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add to the thinking, the answer or the progress of a tool."""
        if kind == "toolProgress":
            lines = str(data["content"]).strip().splitlines()
            self._progress = lines[-1] if lines else ""
            self._steps.get(data["toolCallId"], []).extend(lines)
        elif kind == "thinkingDelta":
            self.begin("thinking")
            self._thought += data["delta"]
        else:
            if data["messageId"] != self._answer_id:
                self._finish_answer()
                self._answer_id = data["messageId"]
            self._fold_thought()
            self.begin("answering")
            self._print_blocks(self._answer.feed(self._screen.printable(data["delta"])))

    def show_message(self, data: Mapping[str, Any]) -> None:
        """Finish an answer; one that did not stream is shown whole."""
        if data["messageId"] == self._answer_id:
            self._finish_answer()
            return
        self._thought = self._thought or _text_of(data["content"], "thinking")
        self._finish_answer()
        text = self._screen.printable(_text_of(data["content"]))
        self._print_blocks([*self._answer.feed(text + "\n"), *self._answer.finish()])

    def show_child(self, data: Mapping[str, Any]) -> None:
        """Show that a sub-agent begins, and how its session is opened."""
        if data["state"] == "running":
            self._steps[data["toolCallId"]] = []
            self._screen.note(f"· {data['title']}: /resume {data['child'][:8]} opens the sub-agent")

    def show_result(self, data: Mapping[str, Any]) -> None:
        """Show the result of a tool: its changes of files, else its first lines."""
        self._finish_answer()
        self._progress = ""
        self.activity = "thinking"
        content = data["content"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        mark, style = ("✗", "red") if data["isError"] else ("·", "dim")
        self._screen.note(f"{mark} {data['title']}", style)
        if steps := self._steps.pop(data["toolCallId"], []):
            self._fold(f"the steps of {data['title']}", "\n".join(steps))
        if data["diffs"] and not data["isError"]:
            self.show_diffs(data["toolCallId"], data["diffs"])
        elif data["isError"] or data["kind"] != "think":
            self._fold(data["title"], text)

    def show_end(self, kind: str, data: Mapping[str, Any]) -> None:
        """Show how a turn ended, unless it just ended."""
        self._finish_answer()
        self.known.usage = {**self.known.usage, **data["usage"]}
        if kind == "faulted":
            self._screen.problem(f"{data['message']} ({data['kind']}); {_AGAIN}")
        elif data["stopReason"] == "cancelled":
            self._screen.note(f"· stopped; {_AGAIN}", "yellow")
        elif data["stopReason"] != "end_turn":
            self._screen.note(f"· stopped: {data['stopReason'].replace('_', ' ')}", "yellow")
        self.end()

    def _finish_answer(self) -> None:
        self._fold_thought()
        self._print_blocks(self._answer.finish())

    def _print_blocks(self, sources: Sequence[str]) -> None:
        """Print finished blocks, and the notes that waited for the end of one."""
        for source in sources:
            self._screen.gap()
            self._screen.show_rendered(render(source, self._screen.console) + "\n\n")
        if sources or not self._answer.tail.strip():
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                show_event(event, self._screen, set())

    def _fold_thought(self) -> None:
        thought, self._thought = self._thought.strip(), ""
        if thought:
            self._screen.note("· thought")
            self._fold("thought", thought, lines=1)

    def _fold(self, title: str, text: str, lines: int = _FOLDED_LINES) -> None:
        """Show the first lines of *text*, and keep it for :meth:`unfold`."""
        found = text.strip("\n").rstrip().splitlines()
        if len(found) == lines + 1:  # a note about one more line would take as much room
            lines += 1
        for line in found[:lines]:
            self._screen.cut_line(f"  {line}", "dim")
        if len(found) > lines:
            self._folds.append((title, text[:_KEPT_CHARS]))
            self._n_unfolded = 0
            self._screen.note(f"  and {len(found) - lines:,} more lines; Ctrl-O shows them")


def _text_of(content: Sequence[Mapping[str, Any]], kind: str = "text") -> str:
    """Return the text of content blocks; of a block that is not text, its name."""
    parts = []
    for block in content:
        if block.get("type") == kind:
            parts.append(str(block.get("text", "")))
        elif kind == "text" and block.get("type") in ("resource_link", "image", "resource"):
            parts.append(f"[{block.get('name') or block.get('uri') or block['type']}]")
    return "\n".join(parts)
