"""Providers, and the names of models: ``provider:model``, or a plain id of the catalogue. Pure data.

Nothing here reads a variable, a file or a key; their names are listed only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ApiKind

OPENAI_RESPONSES: Final = "openai-responses"
OPENAI_CHAT: Final = "openai-chat"
ANTHROPIC: Final = "anthropic-messages"
GOOGLE: Final = "google-generate"
OLLAMA: Final = "ollama-chat"
PYDANTIC_AI: Final = "pydantic-ai"

EXTRAS: Final[Mapping[ApiKind, tuple[str, str]]] = MappingProxyType(
    {
        OPENAI_RESPONSES: ("openai", "httpx2"),
        OPENAI_CHAT: ("openai", "httpx2"),
        ANTHROPIC: ("anthropic", "anthropic"),
        GOOGLE: ("google", "google.auth"),
        OLLAMA: ("openai", "httpx2"),
        PYDANTIC_AI: ("pydantic-ai", "pydantic_ai"),
    }
)
"""By API, the extra of this package that it needs, and the module that comes with it."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of models.

    Attributes:
        id: the part of a model's name before the colon.
        api: its wire format.
        base_url: its address; None leaves that to its SDK.
        base_url_env: the variable that moves it to another address.
        host_env: a variable of the server itself, with its host and perhaps its port.
        other_api: its wire format at another address than its own; None for the same.
        key_env: the variables that may hold its key; the first one that is set counts.
        own_env: the variables by which its SDK finds credentials of its own, which are not keys.
        needs_key: whether it refuses calls without a key.
        published_as: its name in the published prices; None when it is not among them.
    """

    id: str
    api: ApiKind
    base_url: str | None = None
    _: KW_ONLY
    base_url_env: str | None = None
    host_env: str | None = None
    other_api: ApiKind | None = None
    key_env: tuple[str, ...] = ()
    own_env: tuple[str, ...] = ()
    needs_key: bool = True
    published_as: str | None = None

    @property
    def extra(self) -> str:
        """The extra of this package that it needs."""
        return EXTRAS[self.api][0]


Providers: TypeAlias = Mapping[str, Provider]
"""Providers by id."""


class ModelName(Value):
    """The parts of a name; *provider* is None for a plain id."""

    provider: str | None
    model: str


def parse_name(name: str) -> ModelName:
    """Return the parts of *name*; the model's own name may hold further colons.

    >>> parse_name("ollama:qwen3:8b"), parse_name("gpt-5").provider
    (ModelName(provider='ollama', model='qwen3:8b'), None)
    """
    provider, colon, model = name.partition(":")
    return ModelName(provider, model) if colon and provider and model else ModelName(None, name)


def library_of(provider: Provider, *, has_key: bool) -> str:
    """Return the module that a call of *provider* imports; with a key of ours that is seldom its SDK.

    >>> library_of(PROVIDERS_BY_NAME["anthropic"], has_key=True)
    'httpx2'
    """
    if provider.api == PYDANTIC_AI:
        return "pydantic_ai"
    finds_credentials = provider.api == ANTHROPIC and bool(provider.own_env) and not has_key
    return "anthropic" if finds_credentials else "httpx2"


def _openai(provider_id: str, api: ApiKind, other_api: ApiKind | None = None) -> Provider:
    return Provider(
        provider_id,
        api,
        base_url_env="OPENAI_BASE_URL",
        other_api=other_api,
        key_env=("OPENAI_API_KEY",),
        published_as="openai",
    )


def _google(provider_id: str) -> Provider:
    return Provider(
        provider_id,
        GOOGLE,
        base_url_env="GOOGLE_GEMINI_BASE_URL",
        key_env=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        own_env=("GOOGLE_GENAI_USE_VERTEXAI",),
        published_as="google",
    )


def _compatible(provider_id: str, base_url: str, *key_env: str, published_as: str | None = None) -> Provider:
    """A hosted service with OpenAI's chat format."""
    return Provider(
        provider_id, OPENAI_CHAT, base_url, key_env=key_env, published_as=published_as or provider_id
    )


def _local(provider_id: str, port: int, api: ApiKind = OPENAI_CHAT) -> Provider:
    """A server on this machine, which needs no key."""
    prefix = provider_id.upper()
    return Provider(
        provider_id,
        api,
        f"http://localhost:{port}/v1",
        base_url_env=f"{prefix}_BASE_URL",
        host_env="OLLAMA_HOST" if api == OLLAMA else None,
        key_env=(f"{prefix}_API_KEY",),
        needs_key=False,
    )


_ALL: Final = (
    # At other addresses than OpenAI's own, compatible servers have the chat format.
    _openai("openai", OPENAI_RESPONSES, other_api=OPENAI_CHAT),
    _openai("openai-responses", OPENAI_RESPONSES),
    _openai("openai-chat", OPENAI_CHAT),
    Provider(
        "anthropic",
        ANTHROPIC,
        base_url_env="ANTHROPIC_BASE_URL",
        key_env=("ANTHROPIC_API_KEY",),
        own_env=("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"),
        published_as="anthropic",
    ),
    _google("google"),
    _google("gemini"),
    _local("ollama", 11434, OLLAMA),
    _local("lmstudio", 1234),
    _local("llamacpp", 8080),
    _local("vllm", 8000),
    _compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    _compatible("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    _compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY", published_as="x-ai"),
    _compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _compatible("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _compatible("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _compatible("moonshotai", "https://api.moonshot.ai/v1", "MOONSHOTAI_API_KEY", "MOONSHOT_API_KEY"),
    _compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    _compatible("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    # The rest is known to pydantic-ai, which reads their variables itself.
    *(
        Provider(name, PYDANTIC_AI, needs_key=False, published_as=name)
        for name in (
            "alibaba",
            "azure",
            "bedrock",
            "cohere",
            "github",
            "google-cloud",
            "heroku",
            "huggingface",
            "litellm",
            "nebius",
            "ovhcloud",
            "sambanova",
            "vercel",
            "pydantic-ai",
        )
    ),
)

PROVIDERS_BY_NAME: Final[Providers] = MappingProxyType({each.id: each for each in _ALL})
"""The providers that need no configuration; ``pydantic-ai:PROVIDER:MODEL`` reaches what is not among them."""
