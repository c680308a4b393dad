"""Map events of a session to ``session/update`` of version 1: one row of a table for each kind of event.

A mapper takes events as the wire has them and translates them; it never invents anything. An event that the
protocol has no word for becomes ``_meta.sidecar`` of an otherwise empty update, and so does ``gap``, which
stands for lost events. An event with ``seq`` 0 is from the past of a session that is being loaded, and is
mapped whole.

A tool call is a ``tool_call`` and the ``tool_call_update`` messages that change it. A compaction is a
``compaction_update`` where the client takes those, else a tool call of kind ``think``. The protocol has no
word for a compaction that did nothing, was undone or expanded: for every client these are completed calls.
Restored files and changed rules are shown as calls, too. The output of running tools and the compactions in
progress are collected here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from sidecar.acp.shapes import (
    Update,
    WireEvent,
    commands_update,
    config_updates,
    diff_content,
    iso_time,
    make_update,
    text_block,
    text_content,
    tool_kind,
    usage_updates,
)
from sidecar.conductor.contract import Loss, report_loss
from sidecar.conductor.events import describe_retry
from sidecar.llmgateway.budget import describe_budget
from sidecar.protocol.codec import from_wire
from sidecar.service.streaming import StreamedText
from sidecar.workspace.paths import uri_to_path

_CHUNKS: Final = {"text": "agent_message_chunk", "thinking": "agent_thought_chunk"}
_PRIORITIES: Final = frozenset(("high", "medium", "low"))
_STATUSES: Final = frozenset(("pending", "in_progress", "completed"))
_SHOWN_CHARS: Final = 16_000
"""How much of a running tool's output is shown: its end."""

_COMPACTION_TITLE: Final = "Compact conversation"
_EXPANSION_TITLE: Final = "Show turns behind a summary again"
_META_VERSION: Final = 1


NOTICES: Final = ("compactionNear", "budgetNear", "fileStale", "retry", "notice")
"""The kinds of events that are notices."""

WITHOUT_WORD: Final = (
    *("question", "questionResolved", "queue"),
    *("headMoved", "pinsChanged", "sessionChosen"),
)
"""The kinds of events that no version of the protocol has a word for."""


class UpdateMapper:
    """Maps the events of one session to updates for one client, in one version of the protocol.

    Attributes:
        kinds: the kinds of events that have updates.
    """

    kinds: ClassVar[frozenset[str]]

    def updates(self, event: WireEvent) -> Iterable[Update]:
        """Return the updates of *event*; none for kinds that only our own clients know."""
        raise NotImplementedError

    def terminal_updates(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        """Return the updates that show a tool call in a terminal of the client."""
        return ()

    def question_updates(self) -> Iterable[Update]:
        """Return the updates that come before a permission question."""
        return ()

    def answer_updates(self, call_id: str | None) -> Iterable[Update]:
        """Return the updates that come after the answer to a question, or after it was withdrawn.

        The call *call_id* goes on with it, None for none.
        """
        if call_id is None:
            return ()
        return (make_update("tool_call_update", toolCallId=call_id, status="in_progress"),)


class UpdateMapperV1(UpdateMapper):
    """The mapper of version 1; the end of a turn has no update, but answers its prompt.

    Args:
        notices: whether the client takes notices.
        compactions: whether the client takes updates of compactions.
        plans: whether the client takes updates of plans by their ids.
        subagents: whether the client takes sub-agents as sessions.
        client_id: the client, which knows its own prompts; None for the replay of the past.
    """

    def __init__(
        self,
        *,
        notices: bool,
        compactions: bool,
        plans: bool = False,
        subagents: bool = False,
        client_id: str | None = None,
    ) -> None:
        self.takes_notices = notices
        self.takes_plans = plans
        self.takes_subagents = subagents
        self.client_id = client_id
        self.streamed = StreamedText()
        self.tools = ToolUpdates()
        self.compactions = CompactionUpdates(takes_updates=compactions)
        self.rules = RuleUpdates()

    def updates(self, event: WireEvent) -> Iterable[Update]:
        row = _TABLE.get(event["kind"])
        return () if row is None else row(self, event)

    def terminal_updates(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        return (self.tools.show_terminal(call_id, terminal_id),)

    def prompt_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield a prompt of the past or of another client; a client knows its own prompts."""
        source = event["data"].get("source")
        if event["seq"] == 0 or (source is not None and source["clientId"] != self.client_id):
            for block in event["data"]["content"]:
                yield _chunk("user_message_chunk", block, event["data"].get("nodeId"))

    def message_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield a whole message, or in a followed session only the rest that its deltas have not brought."""
        message_id, content = event["data"]["messageId"], event["data"]["content"]
        if event["seq"] != 0:
            missing: list[Mapping[str, Any]] = []
            for kind in ("thinking", "text"):
                whole = "".join(block["text"] for block in content if block["type"] == kind)
                if rest := self.streamed.rest_of(message_id, kind, whole):
                    missing.append({"type": kind, "text": rest})
            self.streamed.has_gap = False
            content = [*missing, *(block for block in content if block["type"] not in _CHUNKS)]
        for block in content:
            yield _chunk(_CHUNKS.get(block["type"], "agent_message_chunk"), block, message_id)

    def gap_updates(self, event: WireEvent) -> Iterator[Update]:
        """Yield that events are lost; the next whole message brings all that is missing in order."""
        self.streamed.has_gap = True
        yield as_meta(event)


def plan_entries(event: WireEvent) -> list[dict[str, Any]]:
    """Return the entries of a plan; unknown priorities and statuses become the protocol's default."""
    return [
        {
            "content": entry["content"],
            "priority": entry["priority"] if entry["priority"] in _PRIORITIES else "medium",
            "status": entry["status"] if entry["status"] in _STATUSES else "pending",
        }
        for entry in event["data"]["entries"]
    ]


def plan_update(event: WireEvent) -> Update:
    """Return the todo list of a session as the one plan of this session; an empty one is removed."""
    plan_id, entries = f"plan-{event['sid']}", plan_entries(event)
    if not entries:
        return make_update("plan_removed", planId=plan_id)
    return make_update("plan_update", plan={"type": "items", "planId": plan_id, "entries": entries})


def notice_of(event: WireEvent) -> dict[str, Any]:
    """Return the notice of an event, or of the end of a turn without a whole answer."""
    data = event["data"]
    match event["kind"]:
        case "fileStale":
            change = "is gone" if data.get("nowHash") is None else "has changed"
            severity, title, description = "info", f"A file {change} since it was read", data["uri"]
        case "retry":
            title = describe_retry(data["delayMs"], data.get("withdrawn"))
            title = title[0].upper() + title[1:]
            severity, description = "warning", f"{data['error']} ({data['attempt']} of {data['max']})"
        case "compactionNear":
            severity, title = "info", "A compaction is near"
            share = f"{data['used']:,} of {data['limit']:,} tokens"
            description = f"{share}; /compact with a wish decides what the summary stresses"
        case "budgetNear":
            severity, title, description = "warning", "A budget is nearly used up", describe_budget(data)
        case "settled":
            severity, title, description = "warning", "The turn was stopped", ""
            if data["stopReason"] != "cancelled":
                title, description = "The turn ended early", data["stopReason"].replace("_", " ")
        case "faulted":
            severity, title, description = "error", "The turn failed", data["message"]
        case _:
            severity, title, description = data["severity"], data["title"], data.get("description", "")
    notice = {"severity": severity, "title": title, "_meta": _event_meta(event)}
    return notice | ({"description": description} if description else {})


def subagent_update(event: WireEvent) -> Update:
    """Return the state of a sub-agent, which the client may cancel."""
    data = event["data"]
    ended = {"completed": "end_turn", "failed": "end_turn", "interrupted": "cancelled"}
    state = {"state": "running"}
    if data["state"] in ended:
        state = {"state": "idle", "stopReason": ended[data["state"]]}
    return make_update(
        "subagent_update",
        sessionId=data["child"],
        title=data["title"],
        capabilities={"cancel": {}},
        state=state,
        _meta=_event_meta(event),
    )


def subagent_updates(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
    """Return the sub-agent, or where the client knows none its session at the call that it works for."""
    if mapper.takes_subagents:
        return (subagent_update(event),)
    call_id = event["data"]["toolCallId"]
    return (make_update("tool_call_update", toolCallId=call_id, _meta=_event_meta(event)),)


def as_meta(event: WireEvent) -> Update:
    """Return an event that the protocol has no word for as ``_meta`` of an otherwise empty update."""
    return make_update("session_info_update", _meta=_event_meta(event))


def info_update(event: WireEvent) -> Update:
    """Return a session's title and the time of its last activity."""
    data = event["data"]
    meta = {"sidecar": {"archived": data["archived"]}}
    title, updated_at = data["title"] or None, iso_time(data["updatedAt"])
    return make_update("session_info_update", title=title, updatedAt=updated_at, _meta=meta)


def _event_meta(event: WireEvent) -> dict[str, Any]:
    return {"sidecar": {event["kind"]: event["data"]}}


def _delta(kind: str) -> Callable[[UpdateMapperV1, WireEvent], tuple[Update, ...]]:
    update = _CHUNKS[kind]

    def row(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
        message_id, delta = event["data"]["messageId"], event["data"]["delta"]
        if mapper.streamed.has_gap:
            return ()
        mapper.streamed.add(message_id, kind, delta)
        return (make_update(update, content=text_block(delta), messageId=message_id),)

    return row


def _chunk(update: str, block: Mapping[str, Any], message_id: str | None) -> Update:
    content = text_block(block["text"]) if block["type"] in _CHUNKS else block
    chunk = make_update(update, content=content)
    return chunk if message_id is None else chunk | {"messageId": message_id}


def _notice(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
    """Return a notice, or a chunk of the conversation for a client without notices.

    A problem is written into the conversation, where its user looks, and so is the end of a message that does
    not count. Another try of the model and news of a turn are thoughts; other news and changed files are
    ``_meta`` alone.
    """
    notice = notice_of(event)
    if mapper.takes_notices:
        return (make_update("notice", **notice),)
    is_news = notice["severity"] == "info"
    if event["kind"] == "fileStale" or (is_news and event.get("turnId") is None):
        return (as_meta(event),)
    is_withdrawal = event["kind"] == "retry" and event["data"].get("withdrawn") is not None
    is_thought = (event["kind"] == "retry" and not is_withdrawal) or is_news
    update = "agent_thought_chunk" if is_thought else "agent_message_chunk"
    text = ": ".join(
        filter(None, (notice["severity"].capitalize(), notice["title"], notice.get("description")))
    )
    # Many clients join all chunks, so that the blank lines alone keep it apart from the answer.
    message_id = f"notice-{event['seq'] or event['turnId']}"
    chunk = _chunk(update, {"type": "text", "text": f"\n\n{text}\n\n"}, message_id)
    return (chunk | {"_meta": notice["_meta"]},)


def past_end_updates(mapper: UpdateMapperV1, event: WireEvent) -> tuple[Update, ...]:
    """Return the mark behind a turn of the past that was stopped or failed; a live end answers its prompt."""
    return _notice(mapper, event) if event["seq"] == 0 else ()


class ToolUpdates:
    """The tool calls of one session; an update replaces everything that a call shows."""

    def __init__(self) -> None:
        self._output: dict[str, str] = {}
        self._terminals: dict[str, dict[str, Any]] = {}

    def start(self, event: WireEvent) -> Update:
        """Return the beginning of a call."""
        data = event["data"]
        update = _tool_call("tool_call", data) | {"status": "in_progress"}
        return update | ({"rawInput": data["input"]} if "input" in data else {})

    def show_terminal(self, call_id: str, terminal_id: str) -> Update:
        """Return a call that shows the client's terminal, which shows the output."""
        shown = self._terminals[call_id] = {"type": "terminal", "terminalId": terminal_id}
        return make_update("tool_call_update", toolCallId=call_id, content=[shown])

    def add_output(self, event: WireEvent) -> Update:
        """Return a call with its output so far, or with the end of it."""
        call_id = event["data"]["toolCallId"]
        shown = (self._output.get(call_id, "") + event["data"]["content"])[-_SHOWN_CHARS:]
        self._output[call_id] = shown
        content = [text_content(shown)]
        return make_update("tool_call_update", toolCallId=call_id, status="in_progress", content=content)

    def finish(self, event: WireEvent) -> Update:
        """Return the end of a call: its changes of files if it made any, else its terminal or its output."""
        data = event["data"]
        self._output.pop(data["toolCallId"], None)
        terminal = self._terminals.pop(data["toolCallId"], None)
        output = data.get("content")
        content = [diff_content(diff) for diff in data.get("diffs", ())]
        if not content and terminal:
            content = [terminal]
        elif not content and isinstance(output, str) and output:
            content = [text_content(output)]
        # Older clients drop an update whose raw output is no object.
        raw = output if output is None or isinstance(output, Mapping) else {"output": output}
        update = _tool_call("tool_call_update", data) | {"content": content, "rawOutput": raw}
        return update | {"status": "failed" if data["isError"] else "completed"}


def _tool_call(update: str, data: Mapping[str, Any]) -> Update:
    return {
        "sessionUpdate": update,
        "toolCallId": data["toolCallId"],
        "name": data["name"],
        "title": data["title"],
        "kind": tool_kind(data["kind"]),
        "locations": list(data.get("locations", ())),
        "_meta": {"sidecar": {"tool": data["name"]}},
    }


def restoration_update(event: WireEvent) -> Update:
    """Return restored files as one completed call that read them."""
    files, missing = event["data"]["files"], event["data"].get("missing", ())
    names = [str(uri_to_path(file["uri"]) or file["uri"]) for file in files]
    lines = [*names, *(f"{uri} cannot be read any more" for uri in missing)]
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": f"restored-{event['sid']}-{event['seq']}",
        "title": f"Read {len(names)} {'file' if len(names) == 1 else 'files'} again",
        "kind": "read",
        "status": "completed",
        "locations": [{"path": name} for name in names],
        "content": [text_content("\n".join(lines))] if lines else [],
        "_meta": {"sidecar": {"rehydrated": event["data"]}},
    }


class CompactionUpdates:
    """The compactions of one session, for a client that *takes_updates* or not."""

    def __init__(self, *, takes_updates: bool) -> None:
        self._takes_updates = takes_updates
        self._running: set[str] = set()
        self._ended: set[str] = set()

    def update(self, event: WireEvent) -> Update:
        """Return the state of a compaction."""
        data = event["data"]
        status, compaction_id = data["status"], data["compactionId"]
        was_running = compaction_id in self._running
        if status == "in_progress":
            self._running.add(compaction_id)
        else:
            self._running.discard(compaction_id)
        # The counts of a large conversation follow the outcome, for the same call.
        if status == "completed":
            was_running |= compaction_id in self._ended
            self._ended.add(compaction_id)
        is_known = status not in ("noop", "undone") and data["trigger"] != "expand"
        if self._takes_updates and (was_running or is_known):
            return compaction_update(data)
        return compaction_call(data, is_new=not was_running)

    def add_summary(self, event: WireEvent) -> tuple[Update, ...]:
        """Return more of a summary; nothing for a client that sees it only when it is whole."""
        if not self._takes_updates:
            return ()
        compaction_id, content = event["data"]["compactionId"], text_block(event["data"]["delta"])
        return (make_update("compaction_summary_chunk", compactionId=compaction_id, content=content),)


class RuleUpdates:
    """The rules of one session that the client was told of."""

    def __init__(self) -> None:
        self._known: dict[str, str] | None = None

    def update(self, event: WireEvent) -> tuple[Update, ...]:
        """Return a completed call that names the rules that were added and taken back; nothing for none.

        The rules that a session is opened with are not news: they come first, and outside of a turn.
        """
        rules = {rule["id"]: rule["text"] for rule in event["data"]["rules"]}
        proposed = {rule["id"] for rule in event["data"]["rules"] if rule.get("proposed")}
        known = rules if self._known is None and event.get("turnId") is None else self._known or {}
        self._known = rules
        added = [
            f"{text}\n/rules keep {name} keeps it, /rules dismiss {name} ends it"
            if name in proposed
            else f"{text}\n/forget {name} takes it back"
            for name, text in rules.items()
            if name not in known
        ]
        removed = [text for name, text in known.items() if name not in rules]
        if not added and not removed:
            return ()
        return (
            {
                "sessionUpdate": "tool_call",
                "toolCallId": f"rules-{event['sid']}-{event['seq']}",
                "title": "Keep a rule" if added else "Take a rule back",
                "kind": "think",
                "status": "completed",
                "content": [text_content("\n\n".join((*added, *(f"No longer: {text}" for text in removed))))],
                "_meta": {"sidecar": {"rulesChanged": event["data"]}},
            },
        )


def compaction_update(data: Mapping[str, Any]) -> Update:
    """Return a compaction as an update of its own kind."""
    status = data["status"]
    is_known = status in ("in_progress", "failed", "cancelled")
    update: Update = {
        "sessionUpdate": "compaction_update",
        "compactionId": data["compactionId"],
        "status": status if is_known else "completed",
        "_meta": _compaction_meta(data),
    }
    if status == "completed" and outcome_texts(data):
        update["summary"] = [text_block(text) for text in outcome_texts(data)]
    if status == "failed":
        update["error"] = data.get("error") or "the compaction failed"
    return update


def compaction_call(data: Mapping[str, Any], *, is_new: bool) -> Update:
    """Return a compaction as a call; undoing it is a call of its own, later in the client's timeline."""
    status = data["status"]
    shown = data.get("error") or data.get("reason")
    if status == "completed":
        shown = "\n\n".join(outcome_texts(data))
    call_status = {"in_progress": "in_progress", "failed": "failed", "cancelled": "failed"}
    is_undone = status == "undone"
    title = _EXPANSION_TITLE if data["trigger"] == "expand" else _COMPACTION_TITLE
    return {
        "sessionUpdate": "tool_call" if is_new else "tool_call_update",
        "toolCallId": f"{'undo' if is_undone else 'compaction'}-{data['compactionId']}",
        "title": f"{title}: undone" if is_undone else title,
        "kind": "think",
        "status": call_status.get(status, "completed"),
        "content": [text_content(shown)] if shown else [],
        "_meta": _compaction_meta(data),
    }


def outcome_texts(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the summary of a compaction and the line about its facts, as far as they are there."""
    loss = data.get("loss")
    line = "" if loss is None else report_loss(from_wire(Loss, loss, is_open=True))
    return tuple(filter(None, (data.get("summary"), line)))


def _compaction_meta(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marker that other agents use for compactions, and the whole record."""
    marker: dict[str, Any] = {"version": _META_VERSION}
    marker["trigger"] = "manual" if data["trigger"] in ("manual", "undo", "expand") else "automatic"
    names = ("preTokens", "postTokens", "durationMs", "error")
    marker |= {name: data[name] for name in names if data.get(name) is not None}
    return {"contextCompaction": marker, "sidecar": data}


_TABLE: Final[dict[str, Callable[[UpdateMapperV1, WireEvent], Iterable[Update]]]] = {
    "userMessage": UpdateMapperV1.prompt_updates,
    "textDelta": _delta("text"),
    "thinkingDelta": _delta("thinking"),
    "message": UpdateMapperV1.message_updates,
    "toolStarted": lambda mapper, event: (mapper.tools.start(event),),
    "toolProgress": lambda mapper, event: (mapper.tools.add_output(event),),
    "toolFinished": lambda mapper, event: (mapper.tools.finish(event),),
    "subagent": subagent_updates,
    "plan": lambda mapper, event: (
        (plan_update(event),) if mapper.takes_plans else (make_update("plan", entries=plan_entries(event)),)
    ),
    "usage": lambda _, event: tuple(usage_updates(event["data"])),
    "compaction": lambda mapper, event: (mapper.compactions.update(event),),
    "compactionSummaryDelta": lambda mapper, event: mapper.compactions.add_summary(event),
    "rehydrated": lambda _, event: (restoration_update(event),),
    **dict.fromkeys(NOTICES, _notice),
    "settled": past_end_updates,
    "faulted": past_end_updates,
    "gap": UpdateMapperV1.gap_updates,
    **dict.fromkeys(WITHOUT_WORD, lambda _, event: (as_meta(event),)),
    "rulesChanged": lambda mapper, event: mapper.rules.update(event) or (as_meta(event),),
    "configChanged": lambda _, event: config_updates(event["data"]["configOptions"]),
    "commandsChanged": lambda _, event: (commands_update(event["data"]["commands"]),),
    "infoChanged": lambda _, event: (info_update(event),),
}

UpdateMapperV1.kinds = frozenset(_TABLE) - {"settled", "faulted"}
