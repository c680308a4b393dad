"""Quirks: the differences of services from OpenAI's chat format, a row each with its source. Pure data.

A service that calls itself compatible differs in a few members: the request for thinking, the reasoning that
goes back, the place of the usage. A row states one such difference for a service, a family of models, or a
family at a service. The rows that match a call are laid over one another, later ones on top; without any row
the format is OpenAI's. A new service is a row here, and no code. A source is a page of the service itself, or
else of a client of it, or a report that quotes its refusal.

Example: ``zai-glm-4.7`` at Cerebras takes the effort ``none`` for no thinking, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import field

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import StopReason, ThinkingLevel, ToolChoice

Efforts: TypeAlias = Mapping[ThinkingLevel, Mapping[str, Any]]
"""The members of a request that set how far a model thinks, by level; a level without any sends nothing."""


class ChatDialect(Value, kw_only=True):
    """The chat format as one model of one service speaks it.

    Attributes:
        efforts: how a request says how far to think; None for OpenAI's own ``reasoning_effort``.
        members: the members that every request has.
        omits: the members that no request has.
        tool_choices: the names of choices that differ; None for one that it does not take.
        takes_back: the fields in which it takes its reasoning back.
        writes_back: how its reasoning goes back in the text of the answer, with ``{}`` for it; None for not.
        needs_reasoning: it refuses an answer with calls that has none of its reasoning.
        keeps_details: its reasoning goes back as the list ``reasoning_details``, as it came.
        has_markup: reasoning and calls may stand in its text, as the template of the model writes them.
        call_id_chars: the only length of the ids of calls that it takes; None for any.
        answers_tools: it refuses a user's message directly behind the result of a tool.
        usage_at: where a chunk has the usage, if not in ``usage``.
        cached_at: the member of the usage with the tokens from the cache, if not in its details.
        cost_at: the member of the usage with the price of the call in US dollars, None for no such member.
        counts_apart: the count of the answer leaves out the tokens of reasoning.
        stops: its own reasons for the end of an answer.
        breaks: the reasons that mean a failure of the service; the call is made again.
    """

    efforts: Efforts | None = None
    members: Mapping[str, Any] = field(default_factory=dict)
    omits: frozenset[str] = frozenset()
    tool_choices: Mapping[ToolChoice, str | None] = field(default_factory=dict)
    takes_back: frozenset[str] = frozenset({"reasoning_content", "reasoning", "content"})
    writes_back: str | None = None
    needs_reasoning: bool = False
    keeps_details: bool = False
    has_markup: bool = False
    call_id_chars: int | None = None
    answers_tools: bool = False
    usage_at: tuple[str | int, ...] = ()
    cached_at: str | None = None
    cost_at: str | None = None
    counts_apart: bool = False
    stops: Mapping[str, StopReason] = field(default_factory=dict)
    breaks: frozenset[str] = frozenset()


class Quirk(Value):
    """One row: *sets* are members of :class:`ChatDialect` for the models that match.

    *service* is the host of the address, or the provider where it has no address; *model* matches the model's
    name from its beginning, behind the vendor. *source* is the page that documents it.
    """

    name: str
    service: str
    model: str
    sets: Mapping[str, Any]
    source: str


def efforts(
    off: str = "low",
    *,
    medium: str = "medium",
    max: str = "high",  # the name of the level
) -> Efforts:
    """Return the levels of thinking as values of ``reasoning_effort``.

    >>> efforts("none")["off"], efforts()["max"]
    ({'reasoning_effort': 'none'}, {'reasoning_effort': 'high'})
    """
    values: dict[ThinkingLevel, str] = {
        "off": off,
        "low": "low",
        "medium": medium,
        "high": "high",
        "max": max,
    }
    return {level: {"reasoning_effort": value} for level, value in values.items()}


def switch_thinking(on: Mapping[str, Any], off: Mapping[str, Any]) -> Efforts:
    """Return the levels of a model that can only be told to think or not."""
    return {"off": off, "low": on, "medium": on, "high": on, "max": on}


_THINKS: Final[dict[str, Any]] = {"thinking": {"type": "enabled"}}
_THINKS_NOT: Final[dict[str, Any]] = {"thinking": {"type": "disabled"}}
_KEEPS: Final[dict[str, Any]] = {"thinking": {"type": "enabled", "clear_thinking": False}}
_SILENT: Final[Efforts] = MappingProxyType({})
_ANY: Final = ""
_OF_MISTRAL: Final = "(?:mi[sn]i?stral|devstral|magistral|codestral|pixtral)"

_OPENROUTER: Final = r"openrouter\.ai|^openrouter$"
_DEEPSEEK: Final = r"api\.deepseek\.com|^deepseek$"
_KIMI: Final = r"api\.moonshot|^moonshotai$"
_ZAI: Final = r"api\.z\.ai|open\.bigmodel\.cn|^zai$"
_MISTRAL: Final = r"api\.mistral\.ai|^mistral$"
_GROQ: Final = r"api\.groq\.com|^groq$"
_CEREBRAS: Final = r"api\.cerebras\.ai|^cerebras$"
_XAI: Final = r"api\.x\.ai|^xai$"
_TOGETHER: Final = r"api\.together|^together$"

_OR_DOCS: Final = "https://openrouter.ai/docs/guides/best-practices/reasoning-tokens"
_DS_DOCS: Final = "https://api-docs.deepseek.com/guides/thinking_mode"
_KIMI_DOCS: Final = "https://java.agentscope.io/v2/en/integration/model/kimi"
_ZAI_DOCS: Final = "https://docs.z.ai/guides/capabilities/thinking-mode"
_MISTRAL_DOCS: Final = "https://docs.mistral.ai/capabilities/reasoning/adjustable"
_GROQ_DOCS: Final = "https://console.groq.com/docs/reasoning"
_CEREBRAS_DOCS: Final = "https://inference-docs.cerebras.ai/capabilities/reasoning"
_XAI_ISSUE: Final = "https://github.com/anomalyco/opencode/issues/39448"
_XAI_GOOGLE: Final = (
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning"
)

_COLLECTED: Final = frozenset({"members", "omits", "tool_choices", "stops", "breaks"})
"""The members of a dialect that several rows add to."""

QUIRKS: Final[tuple[Quirk, ...]] = (
    Quirk(
        "openrouter has one member for thinking",
        _OPENROUTER,
        _ANY,
        {
            "efforts": {
                "off": {"reasoning": {"effort": "none"}},
                "low": {"reasoning": {"effort": "low"}},
                "medium": {"reasoning": {"effort": "medium"}},
                "high": {"reasoning": {"effort": "high"}},
                "max": {"reasoning": {"effort": "xhigh"}},
            }
        },
        _OR_DOCS,
    ),
    Quirk("openrouter takes reasoning back as details", _OPENROUTER, _ANY, {"keeps_details": True}, _OR_DOCS),
    Quirk(
        "openrouter sets the marks of anthropic's cache where it is asked to",
        _OPENROUTER,
        "claude",
        {"members": {"cache_control": {"type": "ephemeral"}}},
        "https://openrouter.ai/docs/client-sdks/typescript/models/anthropiccachecontroldirective",
    ),
    Quirk(
        "openrouter names a failure of the service behind it as the end",
        _OPENROUTER,
        _ANY,
        {"breaks": frozenset({"error"})},
        "https://openrouter.ai/docs/api/reference/streaming",
    ),
    Quirk(
        "openrouter reports the price of a call",
        _OPENROUTER,
        _ANY,
        {"cost_at": "cost"},
        "https://openrouter.ai/docs/use-cases/usage-accounting",
    ),
    Quirk(
        "deepseek switches thinking, and knows three efforts",
        _DEEPSEEK,
        _ANY,
        {
            "efforts": {
                "off": _THINKS_NOT,
                "low": _THINKS | {"reasoning_effort": "low"},
                "medium": _THINKS | {"reasoning_effort": "high"},
                "high": _THINKS | {"reasoning_effort": "high"},
                "max": _THINKS | {"reasoning_effort": "max"},
            }
        },
        _DS_DOCS,
    ),
    Quirk(
        "deepseek refuses calls without the reasoning before them",
        rf"{_DEEPSEEK}|{_OPENROUTER}",
        "deepseek",
        {"needs_reasoning": True},
        "https://wwsun.github.io/notes/deepseek-thinking-mode",
    ),
    Quirk(
        "deepseek counts the cache in a member of its own",
        _DEEPSEEK,
        _ANY,
        {"cached_at": "prompt_cache_hit_tokens"},
        "https://api-docs.deepseek.com/guides/kv_cache",
    ),
    Quirk(
        "deepseek ends an answer when its machines are overloaded",
        _DEEPSEEK,
        _ANY,
        {"breaks": frozenset({"insufficient_system_resource"})},
        "https://api-docs.deepseek.com/api/create-chat-completion",
    ),
    Quirk(
        "kimi sets sampling itself", _KIMI, "kimi", {"omits": frozenset({"temperature", "top_p"})}, _KIMI_DOCS
    ),
    Quirk("models of kimi k2 always think", _KIMI, "kimi-k2", {"efforts": _SILENT}, _KIMI_DOCS),
    Quirk(
        "kimi k2.5 and k2.6 switch thinking",
        _KIMI,
        r"kimi-k2\.[56]",
        {"efforts": switch_thinking(_THINKS, _THINKS_NOT)},
        _KIMI_DOCS,
    ),
    Quirk(
        "kimi k3 always thinks, with three efforts",
        _KIMI,
        "kimi-k3",
        {"efforts": efforts(medium="high", max="max")},
        _KIMI_DOCS,
    ),
    Quirk(
        "kimi refuses calls without the reasoning before them",
        _KIMI,
        "kimi",
        {"needs_reasoning": True},
        "https://www.librechat.ai/llms.mdx/docs/configuration/librechat_yaml/ai_endpoints/moonshot",
    ),
    Quirk(
        "kimi counts the usage in the choice",
        _KIMI,
        _ANY,
        {"usage_at": ("choices", 0, "usage"), "cached_at": "cached_tokens"},
        "https://github.com/earendil-works/pi/issues/2017",
    ),
    Quirk(
        "kimi that thinks cannot be told to call a tool",
        _KIMI,
        "kimi",
        {"tool_choices": {"required": None}},
        _KIMI_DOCS,
    ),
    Quirk(
        "glm switches thinking, and keeps earlier reasoning where it is asked to",
        _ZAI,
        "glm",
        {"efforts": switch_thinking(_KEEPS, _THINKS_NOT)},
        _ZAI_DOCS,
    ),
    Quirk(
        "glm 5.2 has efforts as well",
        _ZAI,
        r"glm-5\.2",
        {
            "efforts": {
                "off": _THINKS_NOT,
                "low": _KEEPS | {"reasoning_effort": "low"},
                "medium": _KEEPS | {"reasoning_effort": "high"},
                "high": _KEEPS | {"reasoning_effort": "high"},
                "max": _KEEPS | {"reasoning_effort": "max"},
            }
        },
        "https://docs.rs/crate/opencrabs/0.5.1/source/src/brain/provider/glm_reasoning.rs",
    ),
    Quirk(
        "glm 5.3 always thinks",
        _ZAI,
        r"glm-(?:5\.[3-9]|[6-9])",
        {
            "efforts": {
                level: {**_KEEPS, **effort} for level, effort in efforts(medium="high", max="max").items()
            }
        },
        "https://dev.to/aihubmix/glm-53-api-guide-always-on-thinking-3-effort-levels-and-the-support-matrix-1d8e",
    ),
    Quirk(
        "glm streams the arguments of calls where it is asked to",
        _ZAI,
        "glm",
        {"members": {"tool_stream": True}},
        "https://docs.rs/crate/opencrabs/0.5.1/source/src/brain/provider/glm_reasoning.rs",
    ),
    Quirk(
        "glm counts without being asked",
        _ZAI,
        _ANY,
        {"omits": frozenset({"stream_options"}), "tool_choices": {"required": "auto"}},
        "https://java.agentscope.io/v2/en/integration/model/glm",
    ),
    Quirk(
        "glm has words of its own for the end",
        _ZAI,
        _ANY,
        {"stops": {"sensitive": "refusal"}, "breaks": frozenset({"network_error"})},
        "https://docs.z.ai/api-reference/llm/chat-completion",
    ),
    Quirk(
        "mistral thinks or does not",
        _MISTRAL,
        _ANY,
        {
            "efforts": switch_thinking({"reasoning_effort": "high"}, {"reasoning_effort": "none"}),
            "takes_back": frozenset({"content"}),
        },
        _MISTRAL_DOCS,
    ),
    Quirk(
        "magistral always thinks",
        _MISTRAL,
        "magistral",
        {"efforts": _SILENT},
        "https://docs.mistral.ai/capabilities/reasoning/native",
    ),
    Quirk(
        "mistral refuses members that it does not know",
        _MISTRAL,
        _ANY,
        {"omits": frozenset({"stream_options"}), "tool_choices": {"required": "any"}},
        "https://github.com/dnakov/anon-kode/issues/53",
    ),
    Quirk(
        "ids of calls have nine letters and digits in mistral's models",
        _ANY,
        _OF_MISTRAL,
        {"call_id_chars": 9},
        "https://mistralai.github.io/mistral-common/usage/tools/",
    ),
    Quirk(
        "mistral's models want an answer behind the results of tools",
        _ANY,
        _OF_MISTRAL,
        {"answers_tools": True},
        "https://github.com/NousResearch/hermes-agent/issues/20154",
    ),
    Quirk(
        "mistral says that the window is full",
        _MISTRAL,
        _ANY,
        {"stops": {"model_length": "max_output"}, "breaks": frozenset({"error"})},
        "https://docs.mistral.ai/api",
    ),
    Quirk(
        "groq refuses reasoning of models that do not think",
        _GROQ,
        _ANY,
        {"takes_back": frozenset(), "efforts": _SILENT},
        "https://github.com/vercel/ai/pull/8057",
    ),
    Quirk(
        "groq refuses reasoning in another field than its own",
        _GROQ,
        "gpt-oss|qwen",
        {"takes_back": frozenset({"reasoning"})},
        "https://github.com/janhq/jan/issues/8136",
    ),
    Quirk("groq knows three efforts of gpt-oss", _GROQ, "gpt-oss", {"efforts": efforts()}, _GROQ_DOCS),
    Quirk(
        "groq switches the thinking of qwen, and leaves it in the text unless asked",
        _GROQ,
        "qwen",
        {
            "efforts": switch_thinking({"reasoning_effort": "default"}, {"reasoning_effort": "none"}),
            "members": {"reasoning_format": "parsed"},
        },
        _GROQ_DOCS,
    ),
    Quirk(
        "groq counts the usage in a member of its own",
        _GROQ,
        _ANY,
        {"usage_at": ("x_groq", "usage")},
        "https://console.groq.com/docs/api-reference",
    ),
    Quirk(
        "cerebras takes no reasoning back in a field",
        _CEREBRAS,
        _ANY,
        {"takes_back": frozenset(), "efforts": _SILENT},
        "https://github.com/CherryHQ/cherry-studio/issues/16790",
    ),
    Quirk(
        "cerebras knows three efforts of gpt-oss, and its reasoning as text",
        _CEREBRAS,
        "gpt-oss",
        {"efforts": efforts(), "writes_back": "{}"},
        _CEREBRAS_DOCS,
    ),
    Quirk(
        "cerebras switches the thinking of glm off alone, and keeps it where it is asked to",
        _CEREBRAS,
        "zai-glm",
        {
            "efforts": switch_thinking({}, {"reasoning_effort": "none"}),
            "members": {"clear_thinking": False},
            "writes_back": "<think>{}</think>",
        },
        _CEREBRAS_DOCS,
    ),
    Quirk(
        "cerebras leaves the thinking of qwen in the text",
        _CEREBRAS,
        "qwen",
        {"has_markup": True},
        _CEREBRAS_DOCS,
    ),
    Quirk("earlier groks take no effort", _XAI, "grok", {"efforts": _SILENT}, _XAI_GOOGLE),
    Quirk("grok 3 mini takes two", _XAI, "grok-3-mini", {"efforts": efforts(medium="high")}, _XAI_ISSUE),
    Quirk(
        "grok 4.3 takes four",
        _XAI,
        r"grok-4\.3",
        {"efforts": efforts("none")},
        "https://newreleases.io/project/github/vercel/ai/release/@ai-sdk%2Fxai@4.0.0-canary.61",
    ),
    Quirk("later groks take three", _XAI, r"grok-(?:4\.[4-9]|[5-9])", {"efforts": efforts()}, _XAI_ISSUE),
    Quirk("grok counts reasoning beside the answer", _XAI, _ANY, {"counts_apart": True}, _XAI_GOOGLE),
    Quirk(
        "together knows efforts up to high",
        _TOGETHER,
        _ANY,
        {"efforts": efforts()},
        "https://docs.together.ai/docs/glm-5.3-quickstart",
    ),
)
"""The table."""


@cache
def dialect_of(base_url: str | None, provider: str, model: str) -> ChatDialect:
    """Return the dialect of *model* at *base_url*; *provider* stands for an address that is not known.

    >>> dialect_of("https://api.groq.com/openai/v1", "groq", "openai/gpt-oss-120b").efforts["off"]
    {'reasoning_effort': 'low'}
    >>> dialect_of("http://localhost:4000", "groq", "gpt-oss-120b").efforts["off"]
    {'reasoning_effort': 'low'}
    """
    host = urlsplit(base_url or "").hostname or ""
    is_known = any(quirk.service and re.search(quirk.service, host) for quirk in QUIRKS)
    return match_rows(host if is_known else provider, model.rsplit("/", 1)[-1].lower())


def match_rows(service: str, model: str) -> ChatDialect:
    """Return the dialect of the rows that match *service* and *model*; later rows add to earlier ones."""
    dialect = ChatDialect()
    for quirk in QUIRKS:
        if re.search(quirk.service, service) and re.match(quirk.model, model):
            added = {
                name: getattr(dialect, name) | value if name in _COLLECTED else value
                for name, value in quirk.sets.items()
            }
            dialect = replace(dialect, **added)
    return dialect
