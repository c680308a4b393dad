"""Model cards by their ids: a catalogue of the built-in ones, and the published ones.

Published cards come from the package ``genai-prices``, completed by the table of families; without the
package from the table alone. A look-up may import the package, which takes a tenth of a second: the event
loop looks up in a thread. Nothing here uses the network, and nothing raises.

Output limits, and windows where the published prices have none, come from a small table of families, by the
beginning of a model's name. Nothing is guessed for a model that is not in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Final

from sidecar.llmgateway.contract import CostSheet, Modality, ModelCard
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, parse_name
from sidecar.llmgateway.published import BUNDLED, PublishedModel, PublishedModels

_SEPARATORS: Final = "-.:@"
_RELEASE: Final = re.compile(
    r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{2}-\d{2}|\d{1,3}|latest|preview|exp"
    r"|pro|flash|flash-lite|codex|sol|terra|luna|astra))*$"
)
"""Dates, later minor versions, and sizes with the limits of their family."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models with the same beginning of their names; windows and limits in tokens.

    Attributes:
        prefix: the beginning of their names.
        vendor: the provider id of their maker.
        window: how much input and output hold together.
        max_output: the longest answer.
        reasoning: whether they think before they answer.
        images: whether they see images.
        patches: whether they are trained on the patches of the tool ``apply_patch``.
        reserves_output: whether the room for the longest answer is always set aside, so that a request may
            hold only the rest.
    """

    prefix: str
    vendor: str
    window: int
    max_output: int
    _: KW_ONLY
    reasoning: bool = True
    images: bool = True
    patches: bool = False
    reserves_output: bool = False


def family_of(model: str) -> Family | None:
    """Return the family of *model* by its name, at any provider, or None.

    >>> family_of("anthropic/claude-sonnet-4.5").max_output, family_of("qwen3:8b")
    (64000, None)
    """
    name = _plain(model)
    matches = (
        family
        for family in _FAMILIES
        if name.startswith(family.prefix) and name[len(family.prefix) :][:1] in ("", *_SEPARATORS)
    )
    return max(matches, key=lambda family: len(family.prefix), default=None)


def is_of_family(model: str, family: Family) -> bool:
    """Whether *model* is the model that gives *family* its name, in any release.

    >>> opus = family_of("claude-opus-4-5")
    >>> is_of_family("claude-opus-4-5-20251101", opus), is_of_family("claude-opus-4-5-turbo", opus)
    (True, False)
    """
    return _RELEASE.match(_plain(model)[len(family.prefix) :]) is not None


def _plain(model: str) -> str:
    """Return *model* without the vendor or provider before it, in its maker's spelling.

    Routers put the vendor before a slash, and ``pydantic-ai`` takes the provider before a colon.
    """
    name = model.rsplit("/", 1)[-1].lower()
    while (parts := parse_name(name)).provider in PROVIDERS_BY_NAME:
        name = parts.model
    return name.replace(".", "-") if name.startswith("claude") else name


def _claude(prefix: str, window: int, max_output: int, *, reasoning: bool = True) -> Family:
    return Family(f"claude-{prefix}", "anthropic", window, max_output, reasoning=reasoning)


def _gpt(prefix: str, window: int) -> Family:
    """A model that reasons, with a window that request and answer share."""
    return Family(prefix, "openai", window, 128_000, patches=True, reserves_output=True)


def _older_gpt(
    prefix: str, window: int, max_output: int, *, images: bool = True, patches: bool = False
) -> Family:
    return Family(prefix, "openai", window, max_output, reasoning=False, images=images, patches=patches)


def _gemini(prefix: str, max_output: int, *, reasoning: bool = True) -> Family:
    return Family(f"gemini-{prefix}", "google", 1_048_576, max_output, reasoning=reasoning)


_FAMILIES: Final = (
    *(_claude(name, 200_000, 4_096, reasoning=False) for name in ("3-haiku", "3-opus", "3-sonnet")),
    *(_claude(name, 200_000, 8_192, reasoning=False) for name in ("3-5-haiku", "3-5-sonnet")),
    _claude("3-7-sonnet", 200_000, 64_000),
    *(_claude(name, 200_000, 32_000) for name in ("opus-4", "opus-4-0", "opus-4-1")),
    *(_claude(name, 200_000, 64_000) for name in ("sonnet-4", "sonnet-4-0")),
    *(_claude(name, 200_000, 64_000) for name in ("haiku-4-5", "sonnet-4-5", "opus-4-5")),
    *(_claude(name, 1_000_000, 128_000) for name in ("sonnet-4-6", "opus-4-6", "opus-4-7", "opus-4-8")),
    *(_claude(name, 1_000_000, 128_000) for name in ("haiku-5", "sonnet-5", "opus-5", "fable-5", "mythos-5")),
    _older_gpt("gpt-3.5-turbo", 16_385, 4_096, images=False),
    _older_gpt("gpt-4", 8_192, 8_192, images=False),
    _older_gpt("gpt-4-turbo", 128_000, 4_096),
    _older_gpt("gpt-4o", 128_000, 16_384),
    _older_gpt("gpt-4o-mini", 128_000, 16_384),
    *(_older_gpt(f"gpt-4.1{size}", 1_047_576, 32_768, patches=True) for size in ("", "-mini", "-nano")),
    _older_gpt("gpt-5-chat", 128_000, 16_384),
    Family("gpt-oss", "openai", 131_072, 32_768, images=False, patches=True),
    *(
        Family(name, "openai", 200_000, 100_000, patches=True)
        for name in ("o1", "o3", "o3-mini", "o3-pro", "o4-mini")
    ),
    *(_gpt(f"gpt-5{size}", 400_000) for size in ("", "-mini", "-nano", "-codex", "-pro")),
    *(_gpt(f"gpt-5.{minor}", 400_000) for minor in (1, 2, 3)),
    *(_gpt(f"gpt-5.{minor}", 1_050_000) for minor in (4, 5, 6)),
    *(_gpt(f"gpt-5.4-{size}", 400_000) for size in ("mini", "nano")),
    *(_gpt(name, 1_050_000) for name in ("gpt-6", "gpt-6.1")),
    *(
        _gemini(name, 8_192, reasoning=False)
        for name in ("1.5-flash", "1.5-pro", "2.0-flash", "2.0-flash-lite")
    ),
    *(_gemini(name, 65_536) for name in ("2.5-pro", "2.5-flash", "2.5-flash-lite", "3", "3.1", "3.5", "3.6")),
    *(_gemini(name, 65_536) for name in ("3.7", "3.8", "4")),
    Family("kimi-k2", "moonshotai", 256_000, 32_768, images=False),
    *(Family(f"kimi-k2.{minor}", "moonshotai", 262_144, 32_768) for minor in (5, 6, 7)),
    *(Family(name, "moonshotai", 1_048_576, 65_536) for name in ("kimi-k3", "kimi-k3.1")),
    Family("deepseek-chat", "deepseek", 128_000, 8_192, reasoning=False, images=False),
    Family("deepseek-reasoner", "deepseek", 128_000, 64_000, images=False),
    *(
        Family(name, "deepseek", 1_000_000, 64_000, images=False)
        for name in ("deepseek-v4", "deepseek-flash")
    ),
    Family("glm-4.5", "zai", 131_072, 65_536, images=False),
    *(Family(f"glm-{name}", "zai", 200_000, 65_536, images=False) for name in ("4.6", "4.7", "5", "5.1")),
    *(Family(f"glm-5.{minor}", "zai", 1_000_000, 65_536, images=False) for minor in (2, 3)),
    Family("grok-3-mini", "xai", 131_072, 32_768, images=False),
    Family("grok-4", "xai", 256_000, 65_536),
    *(Family(f"grok-4.{minor}", "xai", 500_000, 65_536) for minor in (3, 5, 6, 7)),
    *(Family(f"magistral-{size}", "mistral", 131_072, 32_768, images=False) for size in ("medium", "small")),
    *(Family(f"mistral-{name}", "mistral", 262_144, 32_768) for name in ("medium-3-5", "small-2603")),
    Family("mistral-large-4", "mistral", 1_048_576, 65_536),
)


_OUTPUT_SHARE: Final = 4
_MAX_OUTPUT: Final = 32_768

_LOWER_CASE: Final = "zai"
"""The provider whose names are published in another case than it takes them."""

_MOST_NAMES: Final = 12
_MOST_OF_MAKER: Final = 3
_VERSION: Final = re.compile(r"(?<!\d)(\d{1,2})(?:[.-](\d{1,2})(?![\db]))?(?![\db])")
_OTHER_USES: Final = re.compile(
    r":|^~|claude-\d-[a-z]|embed|image|audio|voice|tts|live|realtime|transcribe|search|research|cyber|rosalind|safeguard|guard"
    r"|robotics|whisper|instruct|ocr|voxtral|multi-agent|computer-use|vision|orpheus|omni|nano-banana"
)


def _embed_card(model_id: str, provider: str, display_name: str) -> ModelCard:
    return ModelCard(
        model_id,
        provider,
        provider,
        display_name,
        context_window=32_000,
        max_output_tokens=4_096,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(input_per_mtok=0.0, output_per_mtok=0.0),
    )


MOCK_CARD: Final = _embed_card("mock-1", "mock", "Mock 1")
"""Fixed text, for the first steps of a client."""

OFFLINE_CARD: Final = _embed_card("offline-1", "offline", "Offline 1 (built in, no network)")
"""The embedded model: finds and cites, needs no key."""


BUILT_IN: Final[Mapping[str, ModelCard]] = MappingProxyType(
    {card.id: card for card in (OFFLINE_CARD, MOCK_CARD)}
)
"""The models that need neither a key nor a network."""


def get_card(model_id: str) -> ModelCard | None:
    """Return the card of *model_id*, built in or published, or None. Never raises.

    *model_id* is a plain id or ``provider:model``. The first one that is not built in costs an import of
    some tenths of a second.

    >>> get_card("mock-1").max_output_tokens, get_card("nobody-1")
    (4096, None)
    """
    return BUILT_IN.get(model_id) or published_card(model_id)


def published_card(name: str, published: PublishedModels = BUNDLED) -> ModelCard | None:
    """Return the published card of *name*, ``provider:model`` or a plain id, or None."""
    parts = parse_name(name)
    if parts.provider is not None:
        provider = PROVIDERS_BY_NAME.get(parts.provider)
        return card_of(name, provider, parts.model, published) if provider is not None else None
    # A plain id: the model is served by the company that makes it.
    found, family = published.find(name, None), family_of(name)
    vendor = family.vendor if family is not None and is_of_family(name, family) else None
    serving = found.provider if found is not None else vendor
    by_name = (each for each in PROVIDERS_BY_NAME.values() if serving in (each.published_as, each.id))
    provider = next(by_name, None) if serving is not None else None
    return None if provider is None else _card(name, provider, name, found, family)


def published_names(provider: Provider, published: PublishedModels = BUNDLED) -> tuple[str, ...]:
    """Return the models of *provider* for long work with tools, newest first; at most a dozen."""
    listed = published.models_of(provider.published_as) if provider.published_as else ()
    models = sorted(listed, key=lambda model: version_of(model.id), reverse=True)
    names = [model.id for model in models if model.has_window or family_of(model.id)]
    if provider.id == _LOWER_CASE:
        names = [name.lower() for name in names]
    retired = {model.id for model in models if model.is_retired}
    kept: list[str] = []
    n_of_maker: Counter[str] = Counter()
    for name in names:
        family, is_of_router = family_of(name), "/" in name
        maker = PROVIDERS_BY_NAME[family.vendor].published_as if family is not None else provider.published_as
        if name in retired or _OTHER_USES.search(name) or (is_of_router and family is None):
            continue
        # A service for models of many makers shows a few of each maker that is known here.
        if n_of_maker[str(maker)] < _MOST_OF_MAKER if is_of_router else maker == provider.published_as:
            n_of_maker[str(maker)] += 1
            kept.append(name)
    return tuple(kept[:_MOST_NAMES])


def version_of(model: str) -> tuple[int, int]:
    """Return the version in the name *model*; a size, or the date of a release, is none.

    >>> version_of("claude-sonnet-5-5"), version_of("gpt-6.1-sol"), version_of("gpt-oss-120b")
    ((5, 5), (6, 1), (0, 0))
    """
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def output_limit(window: int) -> int:
    """Return the longest answer, in tokens, of a model with only a known *window*: a quarter, 32,768 at most.

    >>> output_limit(8_192), output_limit(1_000_000)
    (2048, 32768)
    """
    return min(max(1, window // _OUTPUT_SHARE), _MAX_OUTPUT)


def card_of(
    name: str, provider: Provider, model: str, published: PublishedModels = BUNDLED
) -> ModelCard | None:
    """Return the card of *model* as *provider* serves it, under the id *name*, or None."""
    found = published.find(model, provider.published_as) if provider.published_as else None
    family = family_of(model)
    if found is None and (family is None or not is_of_family(model, family)):
        return None
    return _card(name, provider, model, found, family)


def _card(
    name: str, provider: Provider, model: str, found: PublishedModel | None, family: Family | None
) -> ModelCard | None:
    window = found.window if found is not None else None
    if family is not None:
        reserved = family.max_output if family.reserves_output else 0
        window = (window or family.window) - reserved
    if not window:
        return None
    modalities: tuple[Modality, ...] = ("text", "image") if family and family.images else ("text",)
    return ModelCard(
        name,
        provider.id,
        provider.api,
        (found.display_name if found is not None else None) or model,
        context_window=window,
        max_output_tokens=family.max_output if family else output_limit(window),
        modalities=modalities,
        reasoning=family is not None and family.reasoning,
        cost=found.cost if found is not None else CostSheet(0.0, 0.0),
        wire_id=model,
    )
