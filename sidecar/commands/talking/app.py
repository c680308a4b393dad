"""The terminal of a conversation: finished output scrolls by above a live part, the prompt and the status.

Only the lines of the live part are ever drawn again, so that the scrollback of the terminal stays the record.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, to_filter
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.containers import ConditionalContainer
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from rich.cells import cell_len

from sidecar.commands.talking.display import Display, SessionState
from sidecar.commands.talking.typing import ChatCompleter, PastedImages, find_image, open_history
from sidecar.commands.terminal import bar, notice_for
from sidecar.text.clip import clip

_MENU_ROWS: Final = 12
_INPUT_ROWS: Final = 10
_TICK_S: Final = 0.25
_DRAW_S: Final = 0.03
_PAUSE_S: Final = 0.7
"""How long nothing must have been typed before a key answers a question: typed words never do."""

_ALONE_S: Final = 0.3
"""How long no other key must follow one that answers a question."""

_TOGETHER: Final = ("\x1b[?2026h", "\x1b[?2026l")
"""Asks the terminal to show all that is written between the two at once."""

_CELLS: Final = 16
_NARROW: Final = 70
"""In fewer columns the bar, the branch and the cost are left out."""

# How terminals report Ctrl-Enter, if they tell it from Enter.
ANSI_SEQUENCES.update(dict.fromkeys(("\x1b[27;5;13~", "\x1b[13;5u"), Keys.ControlJ))


class Above(io.StringIO):
    """A text stream; its lines go above the live part."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self.changed = asyncio.Event()

    def write(self, text: str) -> int:
        self._parts.append(text)
        self.changed.set()
        return len(text)

    def flush(self) -> None:
        """Do nothing; the terminal is written to in whole lines."""

    def isatty(self) -> bool:
        return True

    def take(self) -> str:
        """Return the whole lines that were written; an unfinished one stays."""
        whole, end, rest = "".join(self._parts).rpartition("\n")
        self._parts = [rest] if rest else []
        return whole + end


class Question:
    """Something that the user answers with one key, by choosing a row, or with a line of text."""

    def __init__(self, title: str, rows: Sequence[tuple[str, str]], *, keys: bool) -> None:
        """*rows* have a value and a label, and are none for text; with *keys* the value is the key for it."""
        self.title = title
        self.rows = rows
        self.is_by_key = keys
        self.is_text = not rows
        self.at = 0
        self.takes_keys = False
        self.pending: str | None = None
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def settle(self, value: str | None) -> None:
        if not self.answer.done():
            self.answer.set_result(value)

    def lines(self, rows: int, columns: int, *, is_typing: bool) -> StyleAndTextTuples:
        """Return the question with at most *rows* of its rows; wide keys get a line each.

        While the user *is_typing*, no key answers.
        """
        if self.is_by_key:
            labels = [label for _, label in self.rows] if self.takes_keys else ["..."]
            if is_typing:
                labels = ["send or clear what you have typed, then answer"]
            line = "   ".join(labels)
            if cell_len(self.title) + cell_len(line) + 2 > columns:
                line = "".join(f"\n  {label}" for label in labels)
            return [("bold", f"{self.title}  "), ("", line)]
        first = max(0, min(self.at - rows // 2, len(self.rows) - rows))
        hint = f"  (Enter {'answers' if self.is_text else 'chooses'}, Esc leaves it)"
        fits = cell_len(self.title) + len(hint) <= columns
        shown: StyleAndTextTuples = [("bold", self.title + (hint if fits else ""))]
        for at, (_, label) in enumerate(self.rows[first : first + rows], first):
            shown.append(("reverse" if at == self.at else "", f"\n  {label}"))
        return shown


class ChatApp:
    """The terminal of one conversation.

    Args:
        display: has the live part.
        above: the stream that the display writes to.
        completer: completes prompts.
        send: takes a prompt or a command; True steers the turn that runs.
        stop: stops the turn that runs.
        home: the state directory, for the history.
        folder: the folder of the conversation.
    """

    def __init__(
        self,
        display: Display,
        above: Above,
        completer: ChatCompleter,
        *,
        send: Callable[[str, bool], None],
        stop: Callable[[], None],
        home: Path,
        folder: Path,
    ) -> None:
        self.branch = ""
        self._home = home
        self._folder = folder
        self._images = PastedImages()
        self.display = display
        self._above = above
        self._send = send
        self.stop = stop
        self.question: Question | None = None
        self._typed_at = 0.0
        self._is_leaving = False
        self.buffer = Buffer(
            completer=completer,
            complete_while_typing=True,
            history=open_history(home, folder),
            multiline=True,
            on_text_changed=self.note_typing,
        )
        self._app: Application[int] = Application(
            layout=Layout(self.build_layout()),
            key_bindings=bind_keys(self),
            erase_when_done=True,
            enable_page_navigation_bindings=False,
        )
        self._app.ttimeoutlen = 0.05
        self._app.timeoutlen = 0.3

    async def run(self) -> int:
        """Talk until the user leaves; return the exit code. Raises the error of :meth:`fail`."""

        def start() -> None:
            self._app.create_background_task(self.draw())

        # Before the first drawing, which would push it out of an empty terminal.
        self._app.output.write_raw(self._above.take().replace("\n", "\r\n"))
        self._app.output.flush()
        try:
            return await self._app.run_async(pre_run=start, handle_sigint=False)
        finally:
            self._images.remove()
            self._app.output.clear_title()
            self._app.output.write_raw(self._above.take())
            self._app.output.flush()

    def leave(self, code: int) -> None:
        """End :meth:`run`."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=code)

    def fail(self, error: Exception) -> None:
        """End :meth:`run` with *error*."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error)

    async def ask_key(self, title: str, keys: Sequence[tuple[str, str]]) -> str | None:
        """Return the key that was pressed, of *keys* with their labels; None for Esc."""
        return await self._put(Question(title, keys, keys=True))

    def show_waiting(self, *, is_waiting: bool) -> None:
        """Let the title of the terminal show whether the session waits for the user."""
        self._app.output.set_title("sidecar waits for you" if is_waiting else "sidecar")
        self._app.output.flush()

    def ring(self, text: str) -> None:
        """Report *text* by bell and notice, in the way of the settings: the user may look elsewhere."""
        self._app.output.write_raw(notice_for(text, self._home))
        self._app.output.flush()

    async def choose(self, title: str, rows: Sequence[tuple[str, str]], at: int = 0) -> str | None:
        """Return the value of the row that was chosen, of *rows* with their labels; None for Esc.

        The row *at* is offered first.
        """
        question = Question(title, rows, keys=False)
        question.at = at
        return await self._put(question)

    async def enter(self, title: str) -> str | None:
        """Return a line that the user types, None for Esc; a prompt that was being typed comes back then."""
        draft = self.buffer.text
        self.buffer.reset()
        try:
            return await self._put(Question(title, (), keys=False))
        finally:
            self.buffer.reset()
            self.type(draft)

    def type(self, text: str) -> None:
        """Put *text* into the input, unless something was typed there."""
        if not self.buffer.text:
            self.buffer.insert_text(text)

    async def _put(self, question: Question) -> str | None:
        while self.question is not None:
            await asyncio.wait([self.question.answer])
            await asyncio.sleep(0)  # its asker takes it away
        self.question = question
        self._typed_at = time.monotonic()
        self._app.invalidate()
        try:
            if question.is_by_key:
                await self.wait_for_pause()
                question.takes_keys = True
                self._app.invalidate()
            return await question.answer
        finally:
            self.question = None
            self._app.invalidate()

    def press(self, key: str) -> None:
        """Answer a question by *key*, unless text stands in the box or follows at once."""
        question = self.question
        assert question is not None
        if question.pending is not None:
            self.type_pending()
            self.buffer.insert_text(key)
        elif key in dict(question.rows) and not self.buffer.text:
            question.pending = key
            self._app.create_background_task(self.answer_alone(question))
        else:
            self.buffer.insert_text(key)

    def type_pending(self) -> None:
        """Take a key that was about to answer for the beginning of a text."""
        question = self.question
        if question is not None and question.pending is not None:
            key, question.pending = question.pending, None
            self.buffer.insert_text(key)

    async def answer_alone(self, question: Question) -> None:
        """Let the key that waits answer *question* when no other one has followed it."""
        await asyncio.sleep(_ALONE_S)
        if question.pending is not None:
            question.settle(question.pending)

    async def draw(self) -> None:
        """Write finished lines above the live part, and keep the live part moving during a turn."""
        app = self._app
        while True:
            try:
                async with asyncio.timeout(_TICK_S if self.display.busy_since is not None else None):
                    await self._above.changed.wait()
            except TimeoutError:
                app.invalidate()
                continue
            self._above.changed.clear()
            if text := self._above.take():
                app.output.write_raw(_TOGETHER[0])
                app.renderer.erase()
                app.output.write_raw(text.replace("\n", "\r\n"))
                app.render_counter += 1  # else the texts of the last drawing are shown again
                app.renderer.render(app, app.layout)
                app.output.write_raw(_TOGETHER[1])
                app.output.flush()
            else:
                app.invalidate()
            await asyncio.sleep(_DRAW_S)

    def redraw(self) -> None:
        """Draw the live part again, soon."""
        self._above.changed.set()

    def note_typing(self, _buffer: Buffer) -> None:
        """Remember the time: keys that follow closely do not answer a question. For prompt_toolkit."""
        self._typed_at = time.monotonic()
        self._is_leaving = False

    def build_layout(self) -> HSplit:
        """Return the live part, a question, the prompt with its completions, and the status line."""

        def live() -> ANSI:
            rows = self._app.output.get_size().rows - _INPUT_ROWS - 4
            return ANSI(self.display.live(max(3, rows)))

        def status() -> StyleAndTextTuples:
            columns = self._app.output.get_size().columns
            waiting = " waiting for you  " if self.display.is_waiting else ""
            line = status_line(self.display.known, self.branch, columns - len(waiting))
            return [("reverse bold", waiting), ("reverse", line.ljust(columns - len(waiting)))]

        def question() -> StyleAndTextTuples:
            columns = self._app.output.get_size().columns
            if self.question is None:
                return []
            return self.question.lines(_MENU_ROWS, columns, is_typing=bool(self.buffer.text))

        is_live = Condition(lambda: self.display.is_live)
        is_asked = Condition(lambda: self.question is not None)
        height = Dimension(min=1, max=_INPUT_ROWS)
        menu = CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1)
        assert isinstance(menu.content, Window)
        menu.content.dont_extend_height = to_filter(True)  # else it keeps the rows that it had before
        return HSplit(
            [
                ConditionalContainer(_lines(live), is_live),
                ConditionalContainer(_lines(question, wraps=True), is_asked),
                Window(
                    BufferControl(self.buffer),
                    height=height,
                    wrap_lines=True,
                    dont_extend_height=True,
                    get_line_prefix=lambda line, wrap: [("bold", "  " if line or wrap else "» ")],
                ),
                menu,
                Window(FormattedTextControl(status), height=1),
            ]
        )

    async def wait_for_pause(self) -> None:
        """Return when nothing was typed for a while: words in the middle of a prompt answer no question."""
        while (left := self._typed_at + _PAUSE_S - time.monotonic()) > 0:  # noqa: ASYNC110  # keys move it on
            await asyncio.sleep(left)

    def send(self, *, steer: bool) -> None:
        """Accept a completion, continue a line that ends with a backslash, or send the prompt."""
        buffer = self.buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        if buffer.text.endswith("\\"):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
            return
        text = buffer.text
        if self.question is not None and self.question.is_text:
            self.question.settle(text)
        elif text.strip():
            buffer.append_to_history()
            buffer.reset()
            self._send(text, steer)

    def paste(self, text: str) -> None:
        """Insert *text*; the path of an image becomes a mention of it."""
        self.type_pending()
        image = find_image(text, self._folder)
        text = f"{self._images.mention(image)} " if image else text.replace("\r\n", "\n").replace("\r", "\n")
        self.buffer.insert_text(text)

    def paste_image(self) -> None:
        """Insert a mention of the image on the clipboard, once it is here."""

        async def fetch() -> None:
            image = await self._images.fetch()
            if image is None:
                self.display.note(
                    "there is no image on the clipboard, or no program that has it (wl-paste, xclip)"
                )
            else:
                self.buffer.insert_text(f"{self._images.mention(image)} ")

        self._app.create_background_task(fetch())

    def interrupt(self) -> None:
        """Reject a question, clear the prompt, stop the turn or leave, the first that applies."""
        if self.question is not None:
            self.question.settle(None)
        elif self.buffer.text:
            self.buffer.reset()
        elif self.display.busy_since is not None:
            self.stop()
        elif self._is_leaving:
            self.leave(130)
        else:
            self._is_leaving = True
            self.display.note("Ctrl-C again leaves, as Ctrl-D and /quit do")


def _lines(text: Callable[[], Any], *, wraps: bool = False) -> Window:
    """Return a window that is as high as its text."""
    return Window(FormattedTextControl(text), dont_extend_height=True, wrap_lines=wraps)


def bind_keys(app: ChatApp) -> KeyBindings:
    """Return the keys of *app*."""
    keys = KeyBindings()
    is_picking = Condition(
        lambda: app.question is not None and not app.question.is_by_key and not app.question.is_text
    )
    is_pending = Condition(lambda: app.question is not None and app.question.pending is not None)
    is_keyed = Condition(lambda: app.question is not None and app.question.takes_keys)

    @keys.add("enter", filter=~is_picking)
    def send(event: KeyPressEvent) -> None:
        app.send(steer=False)

    @keys.add("c-j", filter=~is_picking)
    @keys.add("c-s", filter=~is_picking)
    def steer(event: KeyPressEvent) -> None:
        app.send(steer=True)

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        app.paste(event.data)

    @keys.add("c-v")
    def paste_image(event: KeyPressEvent) -> None:
        app.paste_image()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        app.buffer.insert_text("\n")

    @keys.add("escape", filter=~has_completions)
    def escape(event: KeyPressEvent) -> None:
        if app.question is not None:
            app.question.settle(None)
        elif app.display.busy_since is not None:
            app.stop()

    @keys.add("escape", filter=has_completions)
    def close_menu(event: KeyPressEvent) -> None:
        app.buffer.cancel_completion()

    @keys.add("c-o")
    def unfold(event: KeyPressEvent) -> None:
        app.display.unfold()

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        app.interrupt()

    @keys.add("c-d", filter=Condition(lambda: not app.buffer.text))
    def end(event: KeyPressEvent) -> None:
        app.leave(0)

    @keys.add("up", filter=is_picking)
    @keys.add("down", filter=is_picking)
    def move(event: KeyPressEvent) -> None:
        assert app.question is not None
        step = -1 if event.key_sequence[0].key == Keys.Up else 1
        app.question.at = (app.question.at + step) % len(app.question.rows)

    @keys.add("enter", filter=is_picking, eager=True)
    def choose(event: KeyPressEvent) -> None:
        assert app.question is not None
        app.question.settle(app.question.rows[app.question.at][0])

    @keys.add(Keys.Any, filter=is_keyed)
    def answer(event: KeyPressEvent) -> None:
        app.press(event.data)

    @keys.add("enter", filter=is_pending, eager=True)
    def confirm(event: KeyPressEvent) -> None:
        assert app.question is not None
        app.question.settle(app.question.pending)

    @keys.add("backspace", filter=is_pending, eager=True)
    def take_back(event: KeyPressEvent) -> None:
        assert app.question is not None
        app.question.pending = None

    return keys


def status_line(known: SessionState, branch: str, columns: int) -> str:
    """Return the line in at most *columns* characters.

    >>> usage = {"used": 50_000, "window": 200_000, "limit": 150_000, "pct": 25.0, "cost": 0.5}
    >>> status_line(SessionState(usage), "main", 100)
    ' ████░░░░░░░░│░░░ 25 % of 200k   $0.50   main'
    """
    usage = known.usage
    model, mode = known.option("model"), known.option("permissions")
    is_wide = columns >= _NARROW
    fill = ""
    if window := usage.get("window", 0):
        share = f"{usage['pct']:.0f} % of {_short(window)}"
        fill = f"{draw_gauge(usage['used'], usage['limit'], window)} {share}" if is_wide else share
    elif usage:
        fill = f"{_short(usage['used'])} tokens"
    cost = f"${usage['cost']:.2f}" if is_wide and usage.get("cost") else ""
    line = " " + "   ".join(filter(None, (model, fill, cost, branch if is_wide else "", mode)))
    return clip(line, columns)


def read_branch(folder: Path) -> str:
    """Return the branch that is checked out in *folder*, empty where there is none."""
    for each in (folder, *folder.parents):
        try:
            git = each / ".git"
            if git.is_file():  # a worktree
                git = each / git.read_text("utf-8").removeprefix("gitdir:").strip()
            head = (git / "HEAD").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]
    return ""


def draw_gauge(used: int, limit: int, window: int) -> str:
    """Return a bar with a mark at the size where the conversation is compacted."""
    cells = bar(used, window, _CELLS)
    mark = min(_CELLS - 1, round(_CELLS * limit / window))
    return f"{cells[:mark]}│{cells[mark + 1 :]}"


def _short(count: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            return f"{count / unit:.{0 if count % unit == 0 or count >= 10 * unit else 1}f}{name}"
    return str(count)
