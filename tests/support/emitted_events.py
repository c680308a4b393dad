"""The events of a session, as its log has them."""

from __future__ import annotations

from typing import Any

from sidecar.conductor.session import Session


def emitted(session: Session, kind: type[Any]) -> list[Any]:
    """Return the payloads of *kind* that *session* has emitted so far."""
    return [
        event.data for event in session.record.log.after(0, limit=100_000) if isinstance(event.data, kind)
    ]
