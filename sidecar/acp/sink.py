"""The sink of an ACP client: events become updates, and permission questions become requests to it.

A client that knows the Agent Client Protocol alone gets none of our own notifications. One that declares
events of ours gets each as ``_sidecar/event`` in front of its updates. There is no progress, because the
updates show it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.acp.handshake import AcpProfile
from sidecar.acp.shapes import WORK_FIELDS, Update, WireEvent, make_update
from sidecar.acp.updates import UpdateMapper
from sidecar.acp.version import ProtocolVersion
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.events import Event
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.jsonrpc import encode_notification, member
from sidecar.service.frontend import ask_form, ask_permission, id_of_selection, read_form_answer
from sidecar.text.forms import buttons_of, describe_form
from sidecar.transport.outbox import FeedItem, Gap, Projection
from sidecar.transport.peer import Peer

_DECLINE: Final = "decline"
_AT_REST: Final = {"state": "idle", "since": None}


class _Followed(Value):
    log: EventLog
    mapper: UpdateMapper


class AcpSink:
    """A :class:`~sidecar.service.contract.ClientSink` over *peer*.

    Attributes:
        client_id: the name that the service gives the connection, once it is connected.
    """

    def __init__(self, peer: Peer, profile: AcpProfile, version: ProtocolVersion) -> None:
        self.face = version.face
        self.client_name = profile.name
        self.follows_children = profile.takes_subagents
        self.client_id: str | None = None
        self._peer = peer
        self._outbox = peer.outbox
        self._profile = profile
        self._version = version
        self._followed: dict[str, _Followed] = {}
        self._shown_work: dict[str, Mapping[str, Any]] = {}
        self._past_mapper = version.mapper(profile, None)

    def load(self) -> tuple[int, int]:
        """Return the number of open requests and the number of bytes that wait to be sent."""
        return self._peer.requests_open, self._outbox.unsent_bytes

    def log(self, sid: str) -> EventLog | None:
        """Return the log of a session that the client follows, None for any other."""
        followed = self._followed.get(sid)
        return None if followed is None else followed.log

    def follow(self, log: EventLog, after_seq: int, parent: str | None = None) -> None:
        """Send the events of *log* after *after_seq*, from now on; a second call only moves forward."""
        followed = self._followed.get(log.sid)
        if followed is None or followed.log is not log:
            followed = _Followed(log, self._version.mapper(self._profile, self.client_id))
            self._followed[log.sid] = followed
        mapper, features = followed.mapper, self._profile.features

        def wants(kind: str) -> bool:
            return self._takes_event(kind) or (
                kind in mapper.kinds and (features is None or kind not in features.opt_out)
            )

        coalesce_s = 0.0 if features is None else features.coalesce_s
        projection = Projection(wants, partial(self._encode, mapper), coalesce_s)
        self._outbox.follow(log, after_seq, projection, parent)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of *sid*."""
        self._followed.pop(sid, None)
        self._shown_work.pop(sid, None)
        self._outbox.unfollow(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else, if the client knows it and wants it.

        An event that comes this way is for this client alone.
        """
        if method == "sidecar/event":
            for body in self._encode_event(self._past_mapper, params):
                self._outbox.put(body, params["sid"])
        elif self._knows(method):
            self._outbox.put_state(encode_notification(f"_{method}", params), params.get("sid"))
        if method == "sidecar/sessions/changed" and (self._profile.features is None or self._knows(method)):
            for line in params.get("sessions", ()):
                self.show_work(line)

    def replay(self, sid: str, events: Iterator[Event]) -> None:
        """Send the updates of a past, each when there is room for it."""
        self._outbox.put_past(sid, events, partial(self._encode, self._past_mapper))

    def show_terminal(self, sid: str, call_id: str, terminal_id: str) -> None:
        """Show that a tool call of session *sid* runs in a terminal of the client."""
        followed = self._followed.get(sid)
        if followed is not None:
            self._send_updates(sid, followed.mapper.terminal_updates(call_id, terminal_id))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user; the answer is ``cancelled`` when nobody can be asked."""

        def chosen_id(reply: Any) -> object:
            return id_of_selection(member(reply, "outcome"))

        mapper = self._mapper_of(request.sid)
        self._send_updates(request.sid, mapper.question_updates())
        is_allowed = False
        try:
            params = self._version.question(request)
            method = "session/request_permission"
            answer = await ask_permission(self._peer, method, params, request, chosen_id)
            chosen = (option.kind for option in request.options if option.option_id == answer.option_id)
            is_allowed = next(chosen, "").startswith("allow")
            return answer
        finally:
            allowed_call = request.subject.tool_call_id if is_allowed else None
            self._send_updates(request.sid, mapper.answer_updates(allowed_call))

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show a form; one that is one choice is a question with options for a client without forms."""
        mapper = self._mapper_of(form.sid)
        buttons = buttons_of(form.schema)
        method, params, read = "elicitation/create", elicitation_params(form), read_form_answer
        if not (self._profile.shows_urls if form.url else self._profile.shows_forms):
            if not buttons:
                return None
            method, params = "session/request_permission", self._version.question(choice_question(form))
            read = partial(read_choice, form)
        self._send_updates(form.sid, mapper.question_updates())
        try:
            return await ask_form(self._peer, method, params, read)
        finally:
            self._send_updates(form.sid, mapper.answer_updates(form.tool_call_id))

    def progress(self, token: str | int | None) -> None:
        """Return None: the updates show the progress."""

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send nothing: the protocol has no partial results."""
        return True

    def show_work(self, line: Mapping[str, Any]) -> None:
        """Send the state of the work of a followed session as ``_meta`` of its info, once for each change."""
        sid, work = line["sid"], {name: line[name] for name in WORK_FIELDS if name in line}
        shown = {**work, "since": None}
        if sid in self._followed and self._shown_work.get(sid, _AT_REST) != shown:
            self._shown_work[sid] = shown
            self._send_updates(sid, [make_update("session_info_update", _meta={"sidecar": work})])

    def _mapper_of(self, sid: str) -> UpdateMapper:
        followed = self._followed.get(sid)
        return self._past_mapper if followed is None else followed.mapper

    def _send_updates(self, sid: str, updates: Iterable[Update]) -> None:
        for update in updates:
            self._outbox.put(_encode_update(sid, update), sid)

    def _encode(self, mapper: UpdateMapper, item: FeedItem) -> Iterable[bytes]:
        if not isinstance(item, Gap):
            return self._encode_event(mapper, event_to_wire(item))
        gap = {"sid": item.sid, "from": item.first, "to": item.last, "reason": item.reason}
        updates = [*mapper.updates({"sid": item.sid, "seq": item.last, "kind": "gap", "data": gap})]
        if self._knows("sidecar/gap"):
            return (encode_notification("_sidecar/gap", gap),)
        return [_encode_update(item.sid, update) for update in updates]

    def _encode_event(self, mapper: UpdateMapper, event: WireEvent) -> Iterator[bytes]:
        """Yield an event as our own clients take it, and as its updates."""
        features = self._profile.features
        if self._takes_event(event["kind"]):
            yield encode_notification("_sidecar/event", event)
        if features is None or event["kind"] not in features.opt_out:
            for update in mapper.updates(event):
                yield _encode_update(event["sid"], update)

    def _takes_event(self, kind: str) -> bool:
        """Return whether the client takes events of ours, and of this *kind*."""
        features = self._profile.features
        return (
            features is not None
            and features.takes_events
            and features.wants_kind(kind)
            and self._knows("sidecar/event")
        )

    def _knows(self, method: str) -> bool:
        """Return whether the client speaks our protocol too, and wants notifications of *method*."""
        return self._profile.features is not None and method not in self._profile.features.opt_out


def elicitation_params(form: Elicitation) -> dict[str, Any]:
    """Return the params of ``elicitation/create``."""
    meta = {"elicitationId": form.elicitation_id, "from": form.asker, "expiresAt": form.expires_at}
    params: dict[str, Any] = {"sessionId": form.sid, "message": form.message, "_meta": {"sidecar": meta}}
    if form.tool_call_id is not None:
        params["toolCallId"] = form.tool_call_id
    if form.url is not None:
        return params | {"mode": "url", "elicitationId": form.elicitation_id, "url": form.url}
    return params | {"mode": "form", "requestedSchema": form.schema}


def choice_question(form: Elicitation) -> PermissionRequest:
    """Return a form that is one choice as a question with an option for each answer, and one for none."""
    options = [
        PermissionOption(str(number), button.label, "allow_once")
        for number, button in enumerate(buttons_of(form.schema))
    ]
    call_id = form.tool_call_id or form.elicitation_id
    return PermissionRequest(
        sid=form.sid,
        turn_id=form.turn_id,
        permission_id=form.elicitation_id,
        title=form.message,
        subject=PermissionSubject("toolCall", call_id, "ask", describe_form(form.message, {}, form.url)),
        options=(*options, PermissionOption(_DECLINE, "No answer", "reject_once")),
        expires_at=form.expires_at,
    )


def read_choice(form: Elicitation, reply: Any) -> ElicitationAnswer | None:
    """Return the answer that an option of :func:`choice_question` stands for, None for another reply."""
    outcome = member(reply, "outcome")
    if member(outcome, "outcome") == "cancelled":
        return ElicitationAnswer("cancel")
    chosen = id_of_selection(outcome)
    if chosen == _DECLINE:
        return ElicitationAnswer("decline")
    answers = {str(number): button.content for number, button in enumerate(buttons_of(form.schema))}
    return ElicitationAnswer("accept", answers[chosen]) if chosen in answers else None


def _encode_update(sid: str, update: Update) -> bytes:
    return encode_notification("session/update", {"sessionId": sid, "update": update})
