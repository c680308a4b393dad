"""The slash commands that ``sidecar chat`` carries out itself, to show more than an answer in words."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from sidecar.commands.sessions import list_sessions
from sidecar.commands.talking.forms import FormAsker
from sidecar.commands.talking.rendering import show_part, show_unified
from sidecar.commands.terminal import Screen, when
from sidecar.commands.views import (
    display_path,
    show_loss,
    show_outcome,
    show_parts,
    show_plan,
    show_sizes,
)
from sidecar.conductor.content import parse_command
from sidecar.conductor.contract import HunkAnswer, PermissionAnswer, PermissionRequest
from sidecar.conductor.workbench.kept_changes import TAKEN_BACK
from sidecar.protocol.codec import to_wire
from sidecar.protocol.messages import TreeNode
from sidecar.text.clip import clip, compact_json
from sidecar_client import Session, SidecarClient, SidecarClientError, SidecarRequestError
from sidecar_client.inbox import choose_option

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
        is_used: whether the session has something to keep; one that has not is deleted at the end.
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

    def find(self, text: str) -> tuple[Action, str] | None:
        """Return the action that *text* asks for, and its arguments; None where the daemon answers."""
        command = parse_command([{"type": "text", "text": text}], [each["name"] for each in self.offered])
        action = ACTIONS.get(command.name) if command is not None else None
        if command is None or action is None or (command.name == "resume" and command.rest):
            return None
        return action, command.rest

    async def compact(self, rest: str) -> None:
        """Compact after a look at the plan, where somebody is there to look.

        *rest* may begin with the engine; the rest of it is the wishes for the summary.
        """
        engine, wishes = split_engine(rest, self.client.server.get("engines", ()))
        before = await self.session.usage()
        if not await self.show_preview(engine):
            return
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
        await self.show_preview(rest or None)

    async def show_preview(self, engine: str | None) -> bool:
        """Show the effects of a compaction with *engine*, and return whether it has some."""
        plan = await self.session.preview(engine)
        if plan.noop is None:
            show_plan(self.screen, plan, self.folder)
        else:
            self.screen.note(f"· {plan.noop.reason}")
        return plan.noop is None

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
            size = f"{expanded.expanded} messages of {expanded.tokens:,} tokens"
            self.screen.note(f"· {size} are back; /undo takes them away")
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

    async def go_to(self, sid: str) -> None:
        """Go on with the session *sid*, to which a command led."""
        left = self.session.sid
        loaded = await self.client.session_load(sid)
        self.session, self.is_used = Session(self.client, sid, loaded.seq), bool(loaded.snapshot.messages)
        await self.leave(left)

    async def leave(self, sid: str) -> None:
        """Leave the session *sid*; in a daemon of others it stays open for them. An empty one is deleted."""
        if await self.delete_empty(sid):
            return
        if self.client.owns_daemon:
            await self.client.session_close(sid)
        else:
            await self.client.detach(sid)

    async def delete_empty(self, sid: str) -> bool:
        """Delete the session *sid* if nothing was ever said in it, and return whether that is so."""
        is_empty = not (await self.client.session_tree(sid)).nodes
        if is_empty:
            with contextlib.suppress(SidecarRequestError):  # others have it open
                await self.client.session_delete(sid)
        return is_empty

    async def keep_or_delete(self, screen: Screen) -> None:
        """Tell at the end how to go on with the session; one without a prompt is deleted."""
        sid = self.session.sid
        if sid and self.is_used:
            screen.note(f'stored; "sidecar chat --resume {sid[:8]}" continues it')
        elif sid:
            with contextlib.suppress(SidecarClientError):  # the daemon is gone, so the session stays
                await self.client.session_delete(sid)

    async def resume(self, _rest: str) -> None:
        """Go on with another session of this folder."""
        rows = [
            (each.sid, f"{when(each.updated_at)}  {each.title or '(untitled)'}, {each.messages} messages")
            for each in await list_sessions(self.client, str(self.folder))
            if each.sid != self.session.sid and each.messages
        ]
        if not rows:
            self.screen.note("there is no other session of this folder")
        elif chosen := await self.user.choose("go on with", rows):
            left = self.session.sid
            self.session, self.is_used = await self.client.load_session(chosen), True
            await self.delete_empty(left)

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
        """Go back to before a prompt, with the files or without them, and offer its text to be changed."""
        if rest:
            await self.user.submit(f"/rewind {rest}")
            return
        prompts = await self.list_prompts()
        rows = [(node.id, text.strip().partition("\n")[0]) for node, text in prompts]
        if not rows:
            self.screen.note("there is no prompt to go back to")
            return
        chosen = await self.user.choose("go back to before", rows)
        how = await self.choose_files(chosen) if chosen is not None else None
        if how is None:
            return
        node, text = next(each for each in prompts if each[0].id == chosen)
        done = await self.client.session_rewind(self.session.sid, node.parent, None, files=how)
        self.screen.note(f"· {len(done.undone)} messages are no longer part of the conversation")
        for file in done.restored_files:
            reason = f"stays as it is; {file.reason}" if file.reason else file.outcome
            self.screen.note(f"  {display_path(file.uri, self.folder)}: {reason}")
        self.user.type(text)

    async def choose_files(self, node_id: str) -> Literal["keep", "restore"] | None:
        """Let the user choose whether changes of files are taken back, too; None for no rewind."""
        found = (await self.client.checkpoint_diff(self.session.sid, to_node=node_id)).files
        changed = [each for each in found if each.outcome in TAKEN_BACK]
        if not changed:
            return "keep"
        for each in changed:
            show_unified(each.diff, display_path(each.uri, self.folder), self.screen)
        n_files = "the file" if len(changed) == 1 else f"the {len(changed)} files"
        rows = (("restore", f"take the changes of {n_files} back, too"), ("keep", f"leave {n_files} as now"))
        chosen = await self.user.choose("these changes were made since", rows)
        return "restore" if chosen == "restore" else "keep" if chosen == "keep" else None

    async def list_prompts(self) -> list[tuple[TreeNode, str]]:
        """Return the prompts of the conversation with their texts, the newest first."""
        sid, cursor = self.session.sid, None
        nodes = {node.id: node for node in (await self.client.session_tree(sid)).nodes if node.kind == "user"}
        found: list[tuple[TreeNode, str]] = []
        while True:
            page = await self.client.session_read(sid, cursor=cursor)
            found += [
                (nodes[read.id], " ".join(str(block.get("text", "")) for block in read.blocks))
                for read in page.nodes
                if read.role == "user" and read.id in nodes
            ]
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
        source = "as counted by the provider" if usage.source == "provider" else "estimated"
        due = f"; a compaction is due at {usage.limit:,} tokens: {usage.limit_why}" if usage.limit_why else ""
        self.screen.note(f"· {source}{due}")

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


Action: TypeAlias = Callable[[Actions, str], Awaitable[None]]
"""It takes what was typed after the name of the command."""

ACTIONS: Final[dict[str, Action]] = {
    "compact": Actions.compact,
    "preview": Actions.preview,
    "loss": Actions.loss,
    "undo": Actions.undo,
    "context": Actions.context,
    "files": Actions.files,
    "resume": Actions.resume,
    "import": Actions.import_session,
    "rewind": Actions.rewind,
}
"""By the name of the command."""


def count_hunks(request: PermissionRequest) -> int:
    """Return the number of parts of the changes that *request* is about, which may be kept one by one."""
    return sum(len(diff["hunks"]) for diff in request.subject.diffs)


async def choose_parts(request: PermissionRequest, screen: Screen, asker: FormAsker) -> PermissionAnswer:
    """Ask about each part of the changes of *request*, and return the answer with the parts to keep."""
    n, refused = count_hunks(request), list[HunkAnswer]()
    parts = [
        (at, hunk) for at, diff in enumerate(request.subject.diffs) for hunk in range(len(diff["hunks"]))
    ]
    for number, (at, hunk) in enumerate(parts, 1):
        diff = request.subject.diffs[at]
        show_part(diff, diff["hunks"][hunk], screen)
        key = await asker.ask_key(f"keep part {number} of {n}?", (("y", "[y]es"), ("n", "[n]o")))
        if key is None:
            screen.note("  not allowed")
            return choose_option(request, "reject_once")
        if key == "n":
            refused.append(HunkAnswer(at, hunk, accepted=False))
    screen.note(f"  {n - len(refused)} of {n} parts are allowed")
    return replace(choose_option(request, "allow_once"), hunks=tuple(refused))


def show_question(request: PermissionRequest, screen: Screen) -> None:
    """Show the action of *request*, and the reason of the question."""
    title, detail = request.title, request.subject.detail
    is_told = detail in title or request.subject.diffs  # a change shows its path
    lines = (title, "" if is_told else f"  {detail}", f"  {request.description or ''}")
    screen.note("\n".join(line for line in lines if line.strip()), "yellow")
