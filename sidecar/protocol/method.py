"""One method of the protocol: its name, its shapes, its order, and the errors it may be answered with."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.values import Value

Scope: TypeAlias = Literal["daemon", "session", "exclusive"]
"""The order of a request.

A request of the daemon begins at once. Requests of a session begin and take effect in the order of their
arrival; while an exclusive one is at work, such as a load, later requests of its session wait until it is
answered.
"""


Access: TypeAlias = Literal["free", "control"]
"""Who may send a request: any client, or one that controls the session, where that is in memory."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table; *doc* is one sentence, *since* the protocol number that brought the method.

    *capability* is one that the other side must have declared, None for none. *errors* are the kinds of
    errors besides the common ones, ``sessionNotFound``, and ``controlRequired`` of *access* ``control``.
    """

    name: str
    params: type[Any]
    result: type[Any]
    scope: Scope
    doc: str
    _: KW_ONLY
    access: Access = "free"
    capability: str | None = None
    errors: tuple[str, ...] = ()
    since: int = 1


class NotificationMethod(Value):
    """One notification, of the daemon or of a client."""

    name: str
    params: type[Any]
    doc: str
    since: int = 1


STORES: Final = ("storeUnavailable", "leaseLost")
MOVES: Final = ("headMoved", "busy", *STORES)
