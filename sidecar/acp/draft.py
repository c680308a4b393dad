"""The second version of the protocol, a draft, spoken where it is switched on and requested.

Its differences: a prompt is answered once it has its place, and updates report the rest.

Files and terminals of the client and modes are gone from it. One method resumes a session, with or without
its past. Everything that is as in version 1 stands there.

The mapper of updates has one row of a table for each kind of event. It takes events as the wire has them; its
only state is the turn that it has reported as running. An event with ``seq`` 0 is from the past of a session
that is being loaded. The shapes that the draft spells in its own way are at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.acp.sessions import Handler, Sessions
from sidecar.acp.shapes import (
    Update,
    WireEvent,
    commands_update,
    make_update,
    stop_reason_of,
    text_block,
    text_content,
    tool_kind,
    usage_updates,
)
from sidecar.acp.updates import (
    NOTICES,
    WITHOUT_WORD,
    UpdateMapper,
    as_meta,
    compaction_update,
    info_update,
    notice_of,
    plan_entries,
    restoration_update,
    subagent_update,
)
from sidecar.acp.version import ProtocolVersion, permission_meta
from sidecar.conductor.contract import PermissionRequest
from sidecar.conductor.events import Event, Faulted, Settled, UserMessage
from sidecar.protocol.codec import to_wire
from sidecar.protocol.errors import RequestCancelled, acp_code
from sidecar.protocol.jsonrpc import member
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed


class DraftSessions(Sessions):
    """The session methods of one client."""

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            **self.common_handlers(),
            "auth/login": self.authenticate,
            "auth/logout": self.log_out,
        }

    async def log_out(self, _params: Mapping[str, Any]) -> Answer:
        """Answer ``auth/logout``, which changes nothing because nobody has to log in."""
        return Answer({})

    async def resume(self, params: Mapping[str, Any]) -> Answer:
        """Answer ``session/resume``, after the whole past where the client requests it."""
        start = params.get("replayFrom")
        if start is None:
            return await super().resume(params)
        if member(start, "type") != "start":
            raise InvalidInput("unknown replayFrom", hint='send {"type": "start"}, or leave it out')
        return await self.load(params)

    def options(self, options: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return config options in the shape of the draft."""
        return config_options(options)

    def modes(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Return None: a mode is a config option."""

    def models(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Return None: the model is a config option."""


def permission_question(request: PermissionRequest) -> dict[str, Any]:
    """Return the params of ``session/request_permission``."""
    subject = request.subject
    shown = tool_content(subject.diffs, subject.detail)
    call = {"toolCallId": subject.tool_call_id, "status": "pending", "content": shown}
    return {
        "sessionId": request.sid,
        "title": request.title,
        "subject": {"type": "tool_call", "toolCall": call},
        "options": to_wire(request.options),
        "_meta": permission_meta(request),
    }


def answer_at_place(event: Event, turn_id: str) -> dict[str, Any] | None:
    """Return the place of a prompt in the conversation. Raises SidecarError for a prompt that gets none."""
    if event.turn_id != turn_id:
        return None
    match event.data:
        case UserMessage(node_id=node_id):
            return {"messageId": message_id(node_id, turn_id, event.seq)}
        case Faulted() as fault:
            raise TurnFailed(event.sid, fault)
        case Settled():
            return _withdrawn_answer()
    return None


def _withdrawn_answer() -> dict[str, Any]:
    raise RequestCancelled("the prompt was withdrawn before it entered the conversation")


DRAFT: Final = ProtocolVersion(
    face="acp2",
    mapper=lambda _profile, _client_id: DraftUpdateMapper(),
    sessions=DraftSessions,
    question=permission_question,
    prompt_answer=answer_at_place,
    withdrawn_answer=_withdrawn_answer,
    steers=False,
)


_MAX_PATCH_CHARS: Final = 200_000
"""Longer texts are shown as changed, without a patch: computing it would take too long."""


class DraftUpdateMapper(UpdateMapper):
    """The mapper of the draft, in which clients have no terminals to lend."""

    def __init__(self) -> None:
        self._running: str | None = None

    def updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield the updates of *event*."""
        kind, turn_id = event["kind"], event.get("turnId")
        if kind in _ENDS:
            if event["seq"] == 0:  # the mark behind a turn of the past that was stopped or failed
                yield make_update("notice", **notice_of(event))
            # A prompt that is removed from the queue ends, too, while another one is being answered.
            elif self._running is not None and self._running == turn_id:
                self._running = None
                yield idle_update(event)
            return
        if turn_id is not None and self._running is None:
            self._running = turn_id
            yield _state("running")
        if (row := _TABLE.get(kind)) is not None:
            yield from row(event, event["data"])

    def question_updates(self) -> Iterator[Update]:
        """Yield that the session waits for its user."""
        if self._running is not None:
            yield _state("requires_action")

    def answer_updates(self, call_id: str | None) -> Iterator[Update]:
        """Yield that the session continues, and with it the call, if there is one."""
        yield from super().answer_updates(call_id)
        if self._running is not None:
            yield _state("running")


def message_id(node_id: str | None, turn_id: str | None, seq: int) -> str:
    """Return the id of a prompt: its node, or for a prompt that is not stored its turn and event."""
    return node_id or f"{turn_id}.{seq}"


def _state(state: str) -> Update:
    return make_update("state_update", state=state)


def idle_update(event: WireEvent) -> Update:
    """Return the end of a turn, with its reason or its error."""
    data = event["data"]
    update = _state("idle") | {"_meta": {"sidecar": {**data, "seq": event["seq"]}}}
    if (reason := stop_reason_of(data)) is not None:
        return update | {"stopReason": reason}
    error = {"code": acp_code(data["kind"]), "message": data["message"], "data": {"kind": data["kind"]}}
    return update | {"stopReason": "error", "error": error}


def _thought_id(answer_id: str) -> str:
    """Return the id of the reasoning of an answer, which is a message of its own."""
    return f"{answer_id}.thought"


def message_updates(data: Mapping[str, Any]) -> Iterator[Update]:
    """Yield an answer whole, which replaces its chunks."""
    name, content = data["messageId"], data["content"]
    thoughts = [text_block(block["text"]) for block in content if block["type"] == "thinking"]
    others = [block for block in content if block["type"] != "thinking"]
    if thoughts:
        yield make_update("agent_thought", messageId=_thought_id(name), content=thoughts)
    if others:
        yield make_update("agent_message", messageId=name, content=others)


def _tool_call(data: Mapping[str, Any], status: str, **fields: Any) -> Update:
    return make_update(
        "tool_call_update",
        toolCallId=data["toolCallId"],
        name=data["name"],
        title=data["title"],
        kind=tool_kind(data["kind"]),
        locations=list(data.get("locations", ())),
        status=status,
        **fields,
    )


def draft_compaction(data: Mapping[str, Any]) -> Update:
    """Return a compaction; one that did nothing or was undone is completed, without a summary."""
    update = compaction_update(data) | {"_meta": {"sidecar": data}}
    return update | {"summary": update.get("summary")} if update["status"] == "completed" else update


def config_options(options: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the options of a session.

    >>> config_options([{"id": "model", "name": "Model"}])
    [{'configId': 'model', 'name': 'Model'}]
    """
    return [
        {"configId": option["id"], **{name: option[name] for name in option if name != "id"}}
        for option in options
    ]


def tool_content(diffs: Sequence[Mapping[str, Any]], output: object) -> list[dict[str, Any]]:
    """Return the content of a tool call: its changes of files if it made any, else its output."""
    if diffs:
        return [diff_changes(diff) for diff in diffs]
    return [text_content(output)] if isinstance(output, str) and output else []


def diff_changes(diff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change of a file, with a patch unless the texts are long."""
    path, old, new = diff["path"], diff.get("oldText"), diff["newText"]
    operation = "add" if old is None else "modify"
    content = {"type": "diff", "changes": [{"operation": operation, "path": path, "fileType": "text"}]}
    if len(old or "") + len(new) > _MAX_PATCH_CHARS:
        return content
    name = path.replace("\\", "/").lstrip("/")
    head = f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if old is None else "")
    before, after = (old or "").splitlines(keepends=True), new.splitlines(keepends=True)
    source = "/dev/null" if old is None else f"a/{name}"
    lines = unified_diff(before, after, source, f"b/{name}")
    no_newline = "\\ No newline at end of file\n"
    text = head + "".join(line if line.endswith("\n") else f"{line}\n{no_newline}" for line in lines)
    return content | {"patch": {"format": "git_patch", "text": text}}


_ENDS: Final = frozenset(("settled", "faulted"))
_TABLE: Final[dict[str, Callable[[WireEvent, Mapping[str, Any]], Iterable[Update]]]] = {
    "phase": lambda _, data: (),  # it shows only that a turn is running
    "userMessage": lambda event, data: (
        make_update(
            "user_message",
            messageId=message_id(data.get("nodeId"), event.get("turnId"), event["seq"]),
            content=data["content"],
        ),
    ),
    "textDelta": lambda _, data: (
        make_update("agent_message_chunk", messageId=data["messageId"], content=text_block(data["delta"])),
    ),
    "thinkingDelta": lambda _, data: (
        make_update(
            "agent_thought_chunk",
            messageId=_thought_id(data["messageId"]),
            content=text_block(data["delta"]),
        ),
    ),
    "message": lambda _, data: message_updates(data),
    "toolStarted": lambda _, data: (
        _tool_call(data, "in_progress", **({"rawInput": data["input"]} if "input" in data else {})),
    ),
    "toolProgress": lambda _, data: (
        make_update(
            "tool_call_content_chunk", toolCallId=data["toolCallId"], content=text_content(data["content"])
        ),
    ),
    "toolFinished": lambda _, data: (
        _tool_call(
            data,
            "cancelled" if data.get("isCancelled") else "failed" if data["isError"] else "completed",
            content=tool_content(data.get("diffs", ()), data.get("content")),
            rawOutput=data.get("content"),
        ),
    ),
    "subagent": lambda event, _: (subagent_update(event),),
    "plan": lambda event, _: (
        make_update(
            "plan_update",
            plan={"type": "items", "planId": f"plan-{event['sid']}", "entries": plan_entries(event)},
        ),
    ),
    "usage": lambda _, data: tuple(usage_updates(data)),
    "compaction": lambda _, data: (draft_compaction(data),),
    "compactionSummaryDelta": lambda _, data: (
        make_update(
            "compaction_summary_chunk",
            compactionId=data["compactionId"],
            content=text_block(data["delta"]),
        ),
    ),
    "rehydrated": lambda event, _: (restoration_update(event) | {"sessionUpdate": "tool_call_update"},),
    **dict.fromkeys(NOTICES, lambda event, _: (make_update("notice", **notice_of(event)),)),
    **dict.fromkeys((*WITHOUT_WORD, "gap", "rulesChanged"), lambda event, _: (as_meta(event),)),
    "configChanged": lambda _, data: (
        make_update("config_option_update", configOptions=config_options(data["configOptions"])),
    ),
    "commandsChanged": lambda _, data: (commands_update(data["commands"], type="text"),),
    "infoChanged": lambda event, _: (info_update(event),),
}
DraftUpdateMapper.kinds = frozenset(_TABLE) | _ENDS
