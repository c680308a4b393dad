"""The keys of the terminal; keys for editing the prompt are prompt_toolkit's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from sidecar.commands.talking.app import ChatApp

# How terminals report Ctrl-Enter, if they tell it from Enter.
ANSI_SEQUENCES.update(dict.fromkeys(("\x1b[27;5;13~", "\x1b[13;5u"), Keys.ControlJ))


def bind_keys(app: ChatApp) -> KeyBindings:
    """Return the keys of *app*."""
    keys = KeyBindings()
    is_picking = Condition(lambda: app.question is not None and not app.question.is_by_key)
    is_pending = Condition(lambda: app.question is not None and app.question.pending is not None)
    is_keyed = Condition(lambda: app.question is not None and app.question.takes_keys)

    @keys.add("enter", filter=~is_picking)
    def send(event: KeyPressEvent) -> None:
        app.enter(steer=False)

    @keys.add("c-j", filter=~is_picking)
    @keys.add("c-s", filter=~is_picking)
    def steer(event: KeyPressEvent) -> None:
        app.enter(steer=True)

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
