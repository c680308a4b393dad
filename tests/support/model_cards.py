"""Cards of models that there are not, by the size of their window."""

from __future__ import annotations

from sidecar.llmgateway.contract import CostSheet, ModelCard

__all__ = ["card", "provider_card"]


def card(window: int, max_output_tokens: int | None = None) -> ModelCard:
    """Return the card of a model with a *window* in tokens; its answers take an eighth of it unless said."""
    return ModelCard(
        "m",
        "mock",
        "mock",
        "M",
        context_window=window,
        max_output_tokens=window // 8 if max_output_tokens is None else max_output_tokens,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
    )


def provider_card(api: str, model: str = "m", provider: str = "fake") -> ModelCard:
    """Return the card of *model* of *provider* in the wire format *api*; it thinks and sees images."""
    return ModelCard(
        f"{provider}:{model}",
        provider,
        api,
        model,
        context_window=100_000,
        max_output_tokens=8_000,
        modalities=("text", "image"),
        reasoning=True,
        cost=CostSheet(0, 0),
        wire_id=model,
    )
