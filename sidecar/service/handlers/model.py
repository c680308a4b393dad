"""``sidecar/model/list``: the models that one session may choose among."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.llmgateway.contract import ModelCard
    from sidecar.llmgateway.registry import ModelOrigin
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


async def list_models(connection: Connection, params: m.SidParams) -> m.ModelListResult:
    """List the models on offer, the default first; servers on this machine are asked for theirs."""
    session = connection.hub.session(params.sid)
    await session.record.models.list_servers()
    found = await asyncio.to_thread(session.turns.options.find_models)
    return m.ModelListResult(tuple(as_listed(*each) for each in found), session.info.model)


def as_listed(name: str, source: ModelOrigin, card: ModelCard | None, why_not: str | None) -> m.ListedModel:
    """Return the model *name* as clients are shown it.

    Args:
        name: the value that chooses it.
        source: the place that it is known from.
        card: its facts, None where none are known.
        why_not: why it cannot be called, None when a call can be tried.
    """
    if card is None:
        return m.ListedModel(model=name, name=name, source=source, why_not=why_not)
    cost = card.cost
    price = m.ModelPrice(
        input=cost.input_per_mtok,
        output=cost.output_per_mtok,
        cache_read=cost.cache_read_per_mtok,
        cache_write=cost.cache_write_per_mtok,
    )
    return m.ListedModel(
        model=name,
        name=card.display_name,
        source=source,
        provider=card.provider,
        context_window=card.context_window,
        max_output_tokens=card.max_output_tokens,
        reasoning=card.reasoning,
        images="image" in card.modalities,
        price=price if price.input or price.output else None,
        why_not=why_not,
    )


HANDLERS: Final[dict[str, Handler]] = {"sidecar/model/list": list_models}
