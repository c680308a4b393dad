"""The slash commands that ``sidecar chat`` carries out itself, to show more than an answer in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from sidecar.commands.sessions import list_sessions
from sidecar.commands.terminal import Screen
from sidecar.commands.views import (
    display_path,
    plan_lines,
    show_loss,
    show_outcome,
    show_parts,
    show_plan,
    show_sizes,
)
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.protocol.codec import to_wire
from sidecar.text.clip import clip, compact_json
from sidecar_client import Session, SidecarClient

OWN_COMMANDS: Final = {
    "undo": "undo the newest compaction",
    "resume": "go on with another session of this folder",
    "clear": "begin a new session",
    "import": "go on with a session of another agent",
    "files": "the files that the model has read",
    "quit": "leave; the session stays stored",
}
"""Commands that only a terminal has, beside those of the daemon."""


_RESOLUTIONS: Final = {"gone": "let go", "line": "one line", "shortened": "thinned", "kept": "whole"}
_BROUGHT_BACK: Final = (
    ("turn", "the whole turn again, in its place"),
    ("words", "these words in each request, as a pin"),
    ("nothing", "no more than now"),
)


class User(Protocol):
    """The user of a conversation, asked in the way of the terminal or line by line."""

    async def choose(self, title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        """Return the value of the row that the user chooses, of *rows* with their labels; None for none."""

    async def confirm(self, question: str) -> bool:
        """Return whether the user says yes; without a user to ask that is so."""

    async def submit(self, prompt: str) -> None:
        """Send *prompt* to the session."""

    def type(self, text: str) -> None:
        """Offer *text* as the next prompt."""


def split_engine(rest: str, engines: Collection[str]) -> tuple[str | None, str | None]:
    """Return the engine that the arguments of ``/compact`` begin with, and the wishes for the summary.

    >>> split_engine("runtime keep the ports", ["runtime"]), split_engine("keep the ports", ["runtime"])
    (('runtime', 'keep the ports'), (None, 'keep the ports'))
    >>> split_engine("runtime", ["runtime"]), split_engine("", ["runtime"])
    (('runtime', None), (None, None))
    """
    word, _, after = rest.strip().partition(" ")
    return (word, after.strip() or None) if word in engines else (None, rest.strip() or None)


class Actions:
    """The commands on *session*; some of them replace it by another one.

    Attributes:
        is_used: whether the session has something to keep.
    """

    def __init__(
        self, client: SidecarClient, session: Session, folder: Path, screen: Screen, user: User
    ) -> None:
        self.client = client
        self.session = session
        self.folder = folder
        self.screen = screen
        self.user = user
        self.is_used = False
        self.offered: Sequence[Mapping[str, Any]] = ()
        """The daemon's commands, as the event ``commandsChanged`` has them."""

    def descriptions(self) -> dict[str, str]:
        """Return the commands with their arguments, and a description of each."""
        found = {f"/{each['name']} {each.get('hint') or ''}": each["description"] for each in self.offered}
        return found | {f"/{name} ": text for name, text in OWN_COMMANDS.items()}

    def is_command(self, name: str) -> bool:
        """Whether *name*, with its slash, is carried out here or by the daemon."""
        return any(shown.partition(" ")[0] == name for shown in self.descriptions())

    async def help(self, _rest: str) -> None:
        self.screen.table(("", ""), help_rows(self.descriptions(), self.screen.console.width), cut=(1,))

    async def compact(self, rest: str) -> None:
        """Compact after a look at the plan, where somebody is there to look.

        *rest* may begin with the engine; the rest of it is the wishes for the summary.
        """
        engine, wishes = split_engine(rest, self.client.server.get("engines", ()))
        before, plan = await self.session.usage(), await self.session.preview(engine)
        if plan.noop is not None or not plan_lines(plan, self.folder):
            self.screen.note(f"· {plan.noop.reason if plan.noop else 'there is nothing to condense'}")
            return
        show_plan(self.screen, plan, self.folder)
        if not await self.user.confirm("compact now?"):
            self.screen.note("· nothing was changed")
            return
        self.screen.wait("condensing the older part of the conversation; /undo restores it")
        done = await self.session.compact(engine, instructions=wishes)
        if done.status == "completed":
            show_sizes(self.screen, before, await self.session.usage())
        show_outcome(self.screen, done, self.folder)
        if done.loss is not None and done.loss.total > done.loss.kept:
            self.screen.note("· /loss shows what is not whole, and brings it back")

    async def preview(self, rest: str) -> None:
        plan = await self.session.preview(rest or None)
        if plan.noop is not None or not plan_lines(plan, self.folder):
            self.screen.note(f"· {plan.noop.reason if plan.noop else 'there is nothing to condense'}")
        else:
            show_plan(self.screen, plan, self.folder)

    async def loss(self, rest: str) -> None:
        """Show the thinned facts of the newest compaction, all or of the kind *rest*, and bring one back."""
        sid = self.session.sid
        made = (await self.client.compact_list(sid)).compactions
        done = [each for each in made if each.loss is not None and each.status == "completed"]
        if not done:
            self.screen.note("the model sees the whole conversation; nothing is lost")
            return
        newest = done[-1].compaction_id
        read = await self.client.compact_read(sid, newest, part="loss", states=("gone", "line", "shortened"))
        show_loss(self.screen, read.loss)
        facts = {fact.fact_id: fact for fact in read.facts or () if rest in ("", fact.kind)}
        rows = [
            (key, f"{_RESOLUTIONS[fact.state]:8}  {fact.kind:8}  {clip(fact.text, 100)}")
            for key, fact in facts.items()
        ]
        chosen = await self.user.choose("look at", rows) if rows else None
        if chosen is None:
            return
        self.screen.note(await self.read_turn(newest, facts[chosen].node_id))
        wanted = await self.user.choose("the model shall see", _BROUGHT_BACK)
        if wanted == "turn":
            expanded = await self.client.context_expand(sid, node_ids=(facts[chosen].node_id,))
            self.screen.note(
                f"· {expanded.expanded} turns of {expanded.tokens:,} tokens are back; /undo takes them away"
            )
        elif wanted == "words":
            await self.client.context_pin(sid, fact_id=chosen)
            self.screen.note("· pinned from the next request on; /pins lists the pins")

    async def read_turn(self, compaction_id: str, node_id: str) -> str:
        """Return the text of a turn before a compaction, as it was said."""
        view, cursor = {"compactionId": compaction_id, "at": "before"}, None
        while True:
            page = await self.client.session_read(self.session.sid, view=view, cursor=cursor, limit=1000)
            for node in page.nodes:
                if node.id == node_id:
                    texts = (
                        block.get("text") or block.get("output") or compact_json(block.get("input"))
                        for block in node.blocks
                    )
                    return "\n".join(map(str, texts))
            if (cursor := page.next_cursor) is None:
                return "(the turn is on no branch any more)"

    async def undo(self, rest: str) -> None:
        undone = await self.session.undo(force=rest == "force")
        self.screen.note(f"· {undone.restored_tokens:,} tokens are restored")
        for uri in undone.edited_files:
            self.screen.note(f"· {display_path(uri, self.folder)} was edited since, and stays as it is")

    async def fork(self, _rest: str) -> None:
        before = self.session.sid
        if (await self.client.session_tree(before)).head is None:
            self.screen.note("there is nothing to fork yet")
            return
        forked = await self.client.session_fork(before)
        self.session = Session(self.client, forked.sid, forked.seq)
        await self.leave(before)
        self.screen.note(f"· session {forked.sid[:8]} goes on from here; {before[:8]} stays as it is")

    async def leave(self, sid: str) -> None:
        """Leave the session *sid*; in a daemon of others it stays open for them."""
        if self.client.owns_daemon:
            await self.client.session_close(sid)
        else:
            await self.client.detach(sid)

    async def clear(self, _rest: str) -> None:
        """Begin a new session with the same settings."""
        left, loaded = self.session.sid, await self.client.session_load(self.session.sid)
        chosen = {each.id: each.current_value for each in loaded.config_options}
        self.session = await self.client.start_session(
            self.folder, model=chosen["model"], engine=chosen["engine"]
        )
        await self.client.session_set_config_option(self.session.sid, "permissions", chosen["permissions"])
        await self.leave(left)
        self.screen.note(f"a new session; /resume goes back to {left[:8]}")

    async def resume(self, _rest: str) -> None:
        """Go on with another session of this folder."""
        rows = [
            (each.sid, f"{each.title or '(untitled)'}, {each.messages} turns")
            for each in await list_sessions(self.client, str(self.folder))
            if each.sid != self.session.sid
        ]
        if not rows:
            self.screen.note("there is no other session of this folder")
        elif chosen := await self.user.choose("go on with", rows):
            self.is_used = True
            self.session = await self.client.load_session(chosen)

    async def import_session(self, rest: str) -> None:
        """Go on with a session of another agent: the file or the id that was typed, or one of a list."""
        found = (await self.client.session_import(list_only=True)).sessions or ()
        rows = [(each.path, f"{each.source}  {each.title or each.id}  ({each.cwd})") for each in found]
        if not rest and not rows:
            self.screen.note("no session of another agent is found on this machine; /import FILE takes one")
            return
        path = str(self.folder / rest) if rest else await self.user.choose("import", rows)
        if path is not None:
            brought = await self.client.session_import(path=path)
            self.is_used = True
            self.session = await self.client.load_session(str(brought.sid))

    async def rewind(self, rest: str) -> None:
        """Go back to before a prompt, and offer its text to be changed."""
        prompts = await self.list_prompts()
        rows = [(str(at), text.strip().partition("\n")[0]) for at, text in enumerate(prompts, 1)]
        if rest:
            await self.user.submit(f"/rewind {rest}")
        elif not rows:
            self.screen.note("there is no prompt to go back to")
        elif chosen := await self.user.choose("go back to before", rows):
            await self.user.submit(f"/rewind {chosen}")
            self.user.type(prompts[int(chosen) - 1])

    async def list_prompts(self) -> list[str]:
        """Return the prompts of the conversation, the newest first."""
        sid, cursor = self.session.sid, None
        kinds = {node.id: node.kind for node in (await self.client.session_tree(sid)).nodes}
        found: list[str] = []
        while True:
            page = await self.client.session_read(sid, cursor=cursor)
            for node in page.nodes:
                if node.role == "user" and kinds.get(node.id) == "user":
                    text = " ".join(str(block.get("text", "")) for block in node.blocks)
                    found.append(text)
            cursor = page.next_cursor
            if cursor is None:
                return found[::-1]

    async def context(self, _rest: str) -> None:
        usage = await self.session.usage()
        show_parts(self.screen, usage)
        rules = [
            (display_path(each.uri, self.folder), "cut" if each.cut_chars else "whole", f"{each.tokens:,}")
            for each in usage.rules or ()
        ]
        if rules:
            self.screen.table(("rules", "", "tokens"), rules, cut=(0,))
        self.screen.gauge(to_wire(usage))

    async def files(self, _rest: str) -> None:
        found = await self.session.files()
        if not found:
            self.screen.note("the model has read no file yet")
            return
        rows = [
            (display_path(file.uri, self.folder), "stale" if file.stale else "fresh", f"{file.tokens:,}")
            for file in found
        ]
        self.screen.table(("file", "", "tokens"), rows, cut=(0,))


ACTIONS: Final[dict[str, Callable[[Actions, str], Awaitable[None]]]] = {
    "/help": Actions.help,
    "/compact": Actions.compact,
    "/preview": Actions.preview,
    "/loss": Actions.loss,
    "/undo": Actions.undo,
    "/fork": Actions.fork,
    "/context": Actions.context,
    "/files": Actions.files,
    "/clear": Actions.clear,
    "/resume": Actions.resume,
    "/import": Actions.import_session,
    "/rewind": Actions.rewind,
}
"""By name; each takes what was typed after it."""

SUBMITTING: Final = ("/rewind",)
"""Those that send a prompt of their own, which the session then shows as every prompt."""


def help_rows(descriptions: Mapping[str, str], columns: int) -> list[tuple[str, str]]:
    """Return the rows of ``/help``; arguments that leave too little room for the descriptions are left out.

    >>> help_rows({"/pin fact | node | text": "Pin", "/model [name]": "Choose"}, 120)
    [('/pin fact | node | text', 'Pin'), ('/model [name]', 'Choose')]
    >>> help_rows({"/pin fact | node | text": "Pin", "/model [name]": "Choose"}, 60)
    [('/pin', 'Pin'), ('/model [name]', 'Choose')]
    """
    most = columns // 3
    usages = {name: name.strip() for name in descriptions}
    return [
        (usage if len(usage) <= most else usage.partition(" ")[0], descriptions[name])
        for name, usage in usages.items()
    ]


def choose_option(request: PermissionRequest, kind: str) -> PermissionAnswer:
    """Return the answer of *kind*, such as ``allow_once``, to *request*."""
    option = next((option.option_id for option in request.options if option.kind == kind), None)
    return PermissionAnswer("selected", option) if option else PermissionAnswer("cancelled")


def show_question(request: PermissionRequest, screen: Screen) -> None:
    """Show the action of *request*, and the reason of the question."""
    title, detail = request.title, request.subject.detail
    is_told = detail in title or request.subject.diffs  # a change shows its path
    lines = (title, "" if is_told else f"  {detail}", f"  {request.description or ''}")
    screen.note("\n".join(line for line in lines if line.strip()), "yellow")
