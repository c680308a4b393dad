"""A client of the sidecar daemon: start or attach, send requests, follow events."""

from __future__ import annotations

from sidecar.protocol.messages import CostBudget
from sidecar_client.client import DAEMON, Setup, SidecarClient
from sidecar_client.errors import (
    ConnectionLost,
    EventsLost,
    ProtocolError,
    SidecarClientError,
    SidecarRequestError,
    UnexpectedAnswerError,
)
from sidecar_client.events import ClientEvent, Notification
from sidecar_client.inbox import ElicitHandler, PermissionHandler, allow, reject
from sidecar_client.session import Session, TurnLimits

__all__ = [
    "DAEMON",
    "ClientEvent",
    "ConnectionLost",
    "CostBudget",
    "ElicitHandler",
    "EventsLost",
    "Notification",
    "PermissionHandler",
    "ProtocolError",
    "Session",
    "Setup",
    "SidecarClient",
    "SidecarClientError",
    "SidecarRequestError",
    "TurnLimits",
    "UnexpectedAnswerError",
    "allow",
    "reject",
]
