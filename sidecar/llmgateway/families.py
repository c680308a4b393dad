"""Families of models: their output limits, and windows where the published prices have none. Pure data.

A small table by the beginning of a model's name. Nothing is guessed for a model that is not in it.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import Final

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
    """Return *model* without the vendor that routers put before it, in its maker's spelling."""
    name = model.rsplit("/", 1)[-1].lower()
    return name.replace(".", "-") if name.startswith("claude") else name


def _claude(prefix: str, window: int, max_output: int, *, reasoning: bool = True) -> Family:
    return Family(f"claude-{prefix}", "anthropic", window, max_output, reasoning=reasoning)


def _gpt(prefix: str, window: int, max_output: int) -> Family:
    """A model that reasons, with a window that request and answer share."""
    return Family(prefix, "openai", window, max_output, patches=True, reserves_output=True)


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
    *(_gpt(f"gpt-5{size}", 400_000, 128_000) for size in ("", "-mini", "-nano", "-codex", "-pro")),
    *(_gpt(f"gpt-5.{minor}", 400_000, 128_000) for minor in (1, 2, 3)),
    *(_gpt(f"gpt-5.{minor}", 1_050_000, 128_000) for minor in (4, 5, 6)),
    *(_gpt(f"gpt-5.4-{size}", 400_000, 128_000) for size in ("mini", "nano")),
    *(_gpt(name, 1_050_000, 128_000) for name in ("gpt-6", "gpt-6.1")),
    *(
        _gemini(name, 8_192, reasoning=False)
        for name in ("1.5-flash", "1.5-pro", "2.0-flash", "2.0-flash-lite")
    ),
    *(_gemini(name, 65_536) for name in ("2.5-pro", "2.5-flash", "2.5-flash-lite", "3", "3.1", "3.5", "3.6")),
    *(_gemini(name, 65_536) for name in ("3.7", "3.8", "4")),
    Family("kimi-k2", "moonshotai", 256_000, 32_768, images=False),
    Family("deepseek-chat", "deepseek", 128_000, 8_192, reasoning=False, images=False),
    Family("deepseek-reasoner", "deepseek", 128_000, 64_000, images=False),
)
