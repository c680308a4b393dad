"""What differs between the editions of the protocol that one agent speaks, gathered in one value.

A connection speaks one of them from its handshake to its end, and asks nowhere else which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from sidecar.acp.handshake import ACP_DRAFT, AcpProfile
from sidecar.acp.permission import question
from sidecar.acp.prompts import answer_at_the_end, taken_back
from sidecar.acp.sessions import Ask, Sessions
from sidecar.acp.shapes import Update, WireEvent
from sidecar.acp.updates import FirstUpdateMapper
from sidecar.conductor.contract import PermissionRequest
from sidecar.conductor.events import Event

__all__ = ["ProtocolVersion", "UpdateMapper", "version_of"]


class UpdateMapper(Protocol):
    """Tells one session to one client."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that say anything to the client."""
        ...

    def updates(self, event: WireEvent) -> Iterable[Update]:
        """Return what *event* says to the client."""
        ...

    def runs_in(self, call_id: str, terminal_id: str) -> Iterable[Update]:
        """Return what shows a call in a terminal of the client's."""
        ...

    def asked(self) -> Iterable[Update]:
        """Return what is to be told when the user is asked something."""
        ...

    def answered(self, request: PermissionRequest, *, may: bool) -> Iterable[Update]:
        """Return what is to be told when the user has answered, or need not any more."""
        ...


@dataclass(frozen=True, slots=True)
class ProtocolVersion:
    """One edition.

    Attributes:
        face: its name among the faces of the daemon.
        teller: tells a session to a client of that profile, which the service calls by that id.
        sessions: answers the methods of sessions.
        question: the params of a permission request.
        prompt_answer: ``(event, turn_id)`` to the result of a prompt, None where *event* does not answer it;
            raises SidecarError.
        taken_back: the result of a prompt that was cancelled before anything was done; or raises.
        steers: whether a client may put words into a running turn by a method of its own.
    """

    face: str
    teller: Callable[[AcpProfile, str | None], UpdateMapper]
    sessions: Callable[[Ask], Sessions]
    question: Callable[[PermissionRequest], dict[str, Any]]
    prompt_answer: Callable[[Event, str], dict[str, Any] | None]
    taken_back: Callable[[], dict[str, Any]]
    steers: bool


def version_of(profile: AcpProfile) -> ProtocolVersion:
    """Return the edition that was agreed on."""
    if profile.version == ACP_DRAFT:
        from sidecar.acp.draft import DRAFT  # not before: hardly anybody speaks it yet

        return DRAFT
    return _FIRST


def _teller(profile: AcpProfile, client_id: str | None) -> FirstUpdateMapper:
    return FirstUpdateMapper(
        notices=profile.takes_notices, compactions=profile.takes_compactions, client_id=client_id
    )


_FIRST = ProtocolVersion("acp1", _teller, Sessions, question, answer_at_the_end, taken_back, steers=True)
