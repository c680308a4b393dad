"""One client's side of a scene, in the words of both faces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tests.same.player import TIMEOUT_S, Message, Player, Stage

__all__ = ["DONE", "HALF", "LINES", "PROSE", "Client", "Scenery", "Script", "call", "say", "text"]

Script: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""The steps of each call of a scripted model."""

DONE: Final = [{"text": "Done."}]
HALF: Final = [{"text": "Half an"}, {"hang": True}]
LINES: Final = "".join(f"line {number} of a file\n" for number in range(1, 41))
PROSE: Final = "The parser reads a line, splits it at blanks and keeps the words in order. "


def say(text: str, **step: Any) -> list[dict[str, Any]]:
    """Return the steps of an answer of plain text."""
    return [{"text": text, **step}]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"toolCall": {"name": tool, "input": arguments}}


def text(words: str) -> list[dict[str, str]]:
    """Return the content of a prompt."""
    return [{"type": "text", "text": words}]


class Client:
    """A client of a daemon. Method names are those of the LSP face, and are translated.

    Attributes:
        permissions: returns the option for a question, by its params; None leaves all questions open.
        forms: returns the answer to a form, by its params; None leaves all of them open.
        questions: the questions that came.
        sids: the sessions that it has started or loaded.
    """

    def __init__(self, player: Player) -> None:
        self.player = player
        self.place = player.place
        self.face = player.face
        self.permissions: Callable[[Any], str] | None = lambda params: "allow_once"
        self.forms: Callable[[Any], Any] | None = None
        self.questions: list[Message] = []
        self.sids: list[str] = []
        player.questions["sidecar/permission/request"] = self._meet_question
        player.questions["session/request_permission"] = self._meet_question
        player.questions["sidecar/elicit"] = self._meet_form
        player.questions["elicitation/create"] = self._meet_form

    async def hello(
        self,
        models: Mapping[str, Script | Mapping[str, Any]],
        capabilities: Any = None,
        *,
        knows_us: bool = True,
        **declared: Any,
    ) -> Message:
        """Shake hands, with scripted *models*; *knows_us* is False for a client of the plain protocol."""
        scripts = {
            name: script if isinstance(script, Mapping) else {"scripted": script, "contextWindow": 32_000}
            for name, script in models.items()
        }
        options = {"models": scripts}
        ours = {"protocol": [1], "permission": {}, **declared}
        if self.face == "acp":
            wanted = {"_meta": {"sidecar": ours}, **(capabilities or {})}
            return await self.player.ask(
                "initialize",
                {"protocolVersion": 1, "clientCapabilities": wanted, "_meta": {"sidecar": options}},
            )
        answer = await self.player.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "capabilities": {
                    **({"experimental": {"sidecar": ours}} if knows_us else {}),
                    **(capabilities or {}),
                },
                "initializationOptions": {"sidecar": options},
            },
        )
        self.player.notify("initialized", {})
        return answer

    async def new(self, model: str, **options: Any) -> str:
        """Start a session in the project and return its id."""
        cwd = str(self.place.project)
        if self.face == "acp":
            own = {"cwd": cwd, "mcpServers": [], "_meta": {"sidecar": {"model": model, **options}}}
            sid = str((await self.player.ask("session/new", own))["result"]["sessionId"])
        else:
            sid = str((await self.call("session/new", cwd=cwd, model=model, **options))["result"]["sid"])
        self.sids.append(sid)
        await self.catch_up()
        return sid

    async def call(self, method: str, **params: Any) -> Message:
        """Return the answer to one of our own methods, without ``sidecar/`` in front."""
        answer = await self.send(method, **params)
        await self.catch_up()
        return answer

    async def catch_up(self) -> int:
        """Return how many sessions are at work, once all has come that was sent before.

        Files that are just being compared with what the model has seen are waited for.
        """
        for sid in self.sids:
            await self.player.probe(self.own("sidecar/context/files"), {"sid": sid})
        status = await self.player.probe(self.own("sidecar/status"))
        return int(status["result"]["sessions"]["running"])

    async def quiet(self) -> None:
        """Return once no session is at work, and all that it has sent has come."""
        async with asyncio.timeout(TIMEOUT_S):
            while await self.catch_up():
                pass

    def send(self, method: str, **params: Any) -> asyncio.Future[Message]:
        """Send one of our own methods; its answer comes later."""
        return self.player.send_request(self.own(f"sidecar/{method}"), params)

    def notify(self, method: str, **params: Any) -> None:
        """Send one of our own notifications."""
        self.player.notify(self.own(f"sidecar/{method}"), params)

    def own(self, method: str) -> str:
        """Return the name of one of our own methods on the face of this client."""
        return method if self.face == "lsp" else f"_{method}"

    async def prompt(self, sid: str, said: str | Sequence[Any], **meta: Any) -> Message:
        """Send a prompt and return once its turn has ended."""
        answer = await self.send_prompt(sid, said, **meta)
        await self.quiet()
        return answer

    def send_prompt(self, sid: str, said: str | Sequence[Any], **meta: Any) -> asyncio.Future[Message]:
        """Send a prompt; the answer comes at the end of its turn."""
        blocks = text(said) if isinstance(said, str) else list(said)
        if self.face == "lsp":
            return self.send("turn/run", sid=sid, input=blocks, **meta)
        ours = {"_meta": {"sidecar": meta}} if meta else {}
        return self.player.send_request("session/prompt", {"sessionId": sid, "prompt": blocks, **ours})

    def steps(self, sid: str) -> list[str]:
        """Return the kinds of what came about session *sid*, in the words of our own events."""
        params = (message.get("params") or {} for side, message in self.player.messages if side == "<--")
        if self.face == "lsp":
            return [_step(each["kind"], each["data"]) for each in params if _is_event(each, sid)]
        updates = (each["update"] for each in params if each.get("sessionId") == sid and "update" in each)
        return [_step_of_update(update) for update in updates]

    async def until_step(self, sid: str, *wanted: str, after: int = 0) -> None:
        """Return once the steps *wanted* have come in this order, among those from number *after* on."""

        def is_met() -> bool:
            left = iter(self.steps(sid)[after:])
            return all(any(step == each for step in left) for each in wanted)

        await self.player.until(is_met)

    async def compact(self, sid: str, **wanted: Any) -> Message:
        """Compact the conversation and return the receipt when it is over."""
        n_before = len(self.steps(sid))
        answer = await self.call("compact/start", sid=sid, **wanted)
        if answer.get("result", {}).get("disposition") in ("started", "queued"):
            await self.player.until(lambda: _is_compacted(self.steps(sid)[n_before:]))
        await self.quiet()
        return answer

    def _meet_question(self, question: Message) -> None:
        self.questions.append(question)
        if self.permissions is not None:
            self.answer(question, self.permissions(question["params"]))

    def _meet_form(self, question: Message) -> None:
        self.questions.append(question)
        if self.forms is not None:
            self.player.send({"id": question["id"], "result": self.forms(question["params"])})

    def answer(
        self, question: Message, option: str | None, hunks: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Answer a question for permission; None is the answer of a user who closes it."""
        outcome = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
        result: dict[str, Any] = {**outcome}
        own: dict[str, Any] = {} if hunks is None else {"hunks": hunks}
        if question["method"].startswith("session/"):
            result = {"outcome": outcome}
            own = {"_meta": {"sidecar": own}} if own else {}
        result |= own
        self.player.send({"id": question["id"], "result": result})


def _is_event(params: Mapping[str, Any], sid: str) -> bool:
    return params.get("sid") == sid and "kind" in params


def _step(kind: str, data: Mapping[str, Any]) -> str:
    return f"compaction {data['status']}" if kind == "compaction" else kind


def _step_of_update(update: Mapping[str, Any]) -> str:
    data = update.get("_meta", {}).get("sidecar", {})
    if "contextCompaction" in update.get("_meta", {}):
        return _step("compaction", data)
    kind = str(update["sessionUpdate"])
    if kind == "session_info_update" and data:
        return str(next(iter(data)))
    return {"usage_update": "usage", "agent_message_chunk": "textDelta"}.get(kind, kind)


def _is_compacted(steps: Sequence[str]) -> bool:
    """Whether a compaction has ended; after one that changed the conversation its usage follows."""
    ends = [step for step in steps if step.startswith("compaction ") and not step.endswith(" in_progress")]
    if not ends:
        return False
    return ends[-1] != "compaction completed" or "usage" in steps[steps.index("compaction completed") :]


class Scenery:
    """A stage whose clients speak *face*, unless a scene wants another one."""

    def __init__(self, stage: Stage, face: str) -> None:
        self.stage = stage
        self.place = stage.place
        self.face = face

    async def start(self, models: Mapping[str, Any], **wanted: Any) -> Client:
        """Start a daemon and shake hands with it."""
        client = Client(await self.stage.start(self.face))
        await client.hello(models, **wanted)
        return client

    async def join(self, face: str, **wanted: Any) -> Client:
        """Shake hands with the running daemon as one more client."""
        client = Client(await self.stage.join(face))
        await client.hello({}, **wanted)
        return client
