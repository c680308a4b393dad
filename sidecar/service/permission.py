"""Ask a user for permission, in the words of whichever protocol the client speaks.

A clear choice of one of our options counts as an answer. Everything else is ``cancelled``, which the hub
treats as a rejection: an error, a client that has gone, an unknown option, or a reply of another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused


async def ask_permission(
    peer: Peer, method: str, params: Any, request: PermissionRequest, chosen_id: Callable[[Any], object]
) -> PermissionAnswer:
    """Return the user's answer; cancelling this withdraws the question.

    Args:
        peer: the client.
        method: the method of the question.
        params: the question, in the words of the protocol.
        request: the question, with its options.
        chosen_id: takes the reply and returns the id of the chosen option, or None.
    """
    try:
        option_id = chosen_id(await peer.request(method, params))
    except (PeerRefused, PeerGoneError):
        return PermissionAnswer("cancelled")
    for option in request.options:
        if option.option_id == option_id:
            return PermissionAnswer("selected", option.option_id)
    return PermissionAnswer("cancelled")


def id_of_selection(outcome: Any) -> object:
    """Return the option that ``{"outcome": "selected", "optionId"}`` names, None for any other outcome.

    >>> id_of_selection({"outcome": "selected", "optionId": "yes"})
    'yes'
    """
    if not isinstance(outcome, Mapping) or outcome.get("outcome") != "selected":
        return None
    return outcome.get("optionId")
