"""The collaborators of an agent, and their defaults. Nothing here runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TypeAlias
from uuid import uuid4

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import Channel, Conversation, ModelCard, StreamOptions, Turn, Usage
from sidecar.runtime.conductor.journal import Journal, JournalStore, NodeStore, StoreErrorHandler
from sidecar.runtime.contract import ModelInvoker
from sidecar.runtime.dispatch import DEFAULT_GRACE_S, CallOrder, is_independent
from sidecar.runtime.ledger import RunLedger
from sidecar.runtime.memory import LiveCompaction, TurnKinds

CardLookup: TypeAlias = Callable[[str], ModelCard | None]
"""Returns the card of a model. An exception ends the run in a fault; None means: never compact."""

KindLookup: TypeAlias = Callable[[Sequence[Turn]], TurnKinds]
"""Returns the kind of each turn of a history, None for a turn of which nothing is known; empty for none."""

CompactionHandler: TypeAlias = Callable[[LiveCompaction], None]
"""Called with a compaction that has just been made. Contract: an exception of it is swallowed."""

RoomMaker: TypeAlias = Callable[[], Coroutine[object, object, None] | None]
"""Called before each model call, when the journal holds the whole conversation. Returns None where nothing is
to be done; else the work may move the journal to a shorter one, which the agent follows. An exception ends
the run in a fault."""


def catalog_card(model_id: str) -> ModelCard | None:
    """Look *model_id* up in the gateway's catalogue."""
    # Imported on first use: an agent with models of its own needs no gateway.
    from sidecar.llmgateway.catalog import get_card

    return get_card(model_id)


def gateway_invoker(model_id: str) -> ModelInvoker:
    """Return how to call *model_id* through the gateway."""

    def invoke(conversation: Conversation, options: StreamOptions) -> Channel:
        from sidecar.llmgateway import stream

        return stream(model_id, conversation, options)

    return invoke


class AgentDeps(Value):
    """The collaborators of an agent; every field has a default.

    Attributes:
        invoke_model: how to call the model; the gateway unless given.
        store: where sessions are kept: a store that hands out the journal of a session, or that takes nodes.
        ledger: publishes the events of the run; a ledger of the agent's own unless given.
        journal: where this session is kept; it goes before *store*.
        session_id: the session's id; a new id unless given.
        get_card: returns the card of a model; from the gateway's catalogue unless given. Without a card
            no compaction happens.
        new_id: makes the ids of runs and sessions.
        abort_grace_s: seconds that a tool or stream gets to end by itself after an abort.
        find_stop: returns why no further model call is to be made for a prompt, None where one is.
        on_usage: called once with the usage of each model call, when the call is over.
        may_change: whether a tool call may change something, so that the calls after it wait for its end;
            unless given, all calls of one message run at the same time.
        make_room: shortens the history before a model call in the host's own way; see :data:`RoomMaker`.
        get_kinds: the kinds of the turns of a history; by default the first words of a text decide.
        on_compaction: called after each compaction by the agent itself, where the host had made no room.
        on_store_error: called when storing fails, once until it works again.
    """

    invoke_model: ModelInvoker | None = None
    store: JournalStore | NodeStore | None = None
    ledger: RunLedger | None = None
    journal: Journal | None = None
    session_id: str | None = None
    get_card: CardLookup = catalog_card
    new_id: Callable[[], str] = lambda: uuid4().hex
    abort_grace_s: float = DEFAULT_GRACE_S
    may_change: CallOrder = is_independent
    make_room: RoomMaker | None = None
    find_stop: Callable[[], str | None] = lambda: None
    get_kinds: KindLookup = lambda turns: ()
    on_usage: Callable[[Usage], None] | None = None
    on_compaction: CompactionHandler | None = None
    on_store_error: StoreErrorHandler | None = None
