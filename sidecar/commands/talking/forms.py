"""Forms in a terminal: each field is a question of its own, by key, by row or by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from sidecar.commands.terminal import InputLines, Screen
from sidecar.conductor.contract import Elicitation, ElicitationAnswer
from sidecar.text.forms import FormField, buttons_of, fields_of
from sidecar.text.visible import make_visible

_MOST_KEYS: Final = 9
_NO: Final = ("n", "[n]o answer")


class FormAsker(Protocol):
    """The ways to ask; each returns None when the user dismisses the question."""

    async def ask_key(self, title: str, keys: Sequence[tuple[str, str]]) -> str | None:
        """Return the key that was chosen, of *keys* with their labels."""
        ...

    async def choose(self, title: str, rows: Sequence[tuple[str, str]], at: int = 0) -> str | None:
        """Return the value of the row that was chosen, of *rows* with their labels; *at* is offered first."""
        ...

    async def enter(self, title: str) -> str | None:
        """Return a line of text."""
        ...


async def answer_form(form: Elicitation, screen: Screen, asker: FormAsker) -> ElicitationAnswer:
    """Return the user's answer to *form*.

    One choice takes one key. For every other form a key comes first, so that words that are being typed
    answer nothing.
    """
    asks = "Sidecar asks" if form.asker == "agent" else f"The tool server {make_visible(form.asker)} asks"
    screen.note(f"? {asks}: {form.message}", "yellow")
    if form.url is not None:
        screen.note(f"  open {make_visible(form.url)}, if you trust it", "yellow")
    fields, buttons = fields_of(form.schema), buttons_of(form.schema)
    if buttons and len(buttons) <= _MOST_KEYS:
        for field in fields:
            if field.default is not None:
                screen.note(f"  the default is {field.show(field.default)}")
        keys = [(str(number), f"[{number}] {each.label}") for number, each in enumerate(buttons, 1)]
        key = await asker.ask_key("answer?", [*keys, _NO])
        if key is None or key == _NO[0]:
            return _end(key, screen)
        chosen = buttons[int(key) - 1]
        screen.note(f"  {chosen.label}")
        return ElicitationAnswer("accept", chosen.content)
    key = await asker.ask_key("answer?", [("a", "[a]nswer"), _NO])
    if key != "a":
        return _end(key, screen)
    content: dict[str, Any] = {}
    for field in fields:
        value = await answer_field(field, screen, asker)
        if value is None:
            return _end(None, screen)
        screen.note(f"  {field.label}: {field.show(value) if value != '' else 'no answer'}")
        content |= {} if value == "" and not field.is_required else {field.name: value}
    return ElicitationAnswer("accept", content)


async def answer_field(field: FormField, screen: Screen, asker: FormAsker) -> Any:
    """Return the answer to one field, an empty text for none, and None when the user dismisses the form."""
    title = f"{field.label}{f' ({field.description})' if field.description else ''}"
    if field.kind in ("choice", "boolean"):
        choices = [(each.value, each.label) for each in field.choices] or [("yes", "yes"), ("no", "no")]
        at = next((at for at, (_, label) in enumerate(choices) if label == field.show(field.default)), 0)
        chosen = await asker.choose(title, choices, at)
        return None if chosen is None else field.read(chosen)
    for number, each in enumerate(field.choices, 1):
        screen.note(f"  [{number}] {each.label}")
    offered = "" if field.default is None else f" [{field.show(field.default)}]"
    hint = ", the numbers of your choices" if field.kind == "choices" else ""
    while True:
        typed = await asker.enter(f"{title}{hint}{offered}")
        if typed is None:
            return None
        if not typed.strip() and (field.default is not None or not field.is_required):
            return "" if field.default is None else field.default
        try:
            return field.read(typed)
        except ValueError as error:
            screen.note(f"  this {error}", "red")


def _end(key: str | None, screen: Screen) -> ElicitationAnswer:
    screen.note("  not answered")
    return ElicitationAnswer("cancel" if key is None else "decline")


class LineAsker:
    """Asks line by line: in a pipe, and where the cursor cannot be moved."""

    def __init__(self, lines: InputLines, screen: Screen) -> None:
        self.lines = lines
        self.screen = screen

    async def ask_key(self, title: str, keys: Sequence[tuple[str, str]]) -> str | None:
        """Return the key that stands in the next line, None for anything else."""
        labels = ", ".join(label for _, label in keys)
        answer = await self.lines.next(f"{title} {labels}: ")
        typed = (answer or "").strip().lower()
        return next((key for key, _ in keys if key == typed), None)

    async def choose(self, title: str, rows: Sequence[tuple[str, str]], at: int = 0) -> str | None:
        """Return the value of the row with the number that the user types; None for anything else."""
        for number, (_, label) in enumerate(rows, 1):
            self.screen.line(f"{number}  {label}")
        answer = (await self.lines.next(f"{title}, 1 to {len(rows)}, or nothing: ") or "").strip()
        is_one = answer.isdecimal() and 1 <= int(answer) <= len(rows)
        return rows[int(answer) - 1][0] if is_one else None

    async def enter(self, title: str) -> str | None:
        """Return the next line."""
        return await self.lines.next(f"{title}: ")
