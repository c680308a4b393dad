"""Google's generate format, over HTTP.

The SDK builds a typed model of each message and each chunk, of which little is read, and leaves its responses
open when a stream fails. So requests are bytes from here on, and events are parsed as elsewhere. With Google
Cloud, where there is no key, its library for credentials is used.

A thought signature goes back on the part on which it came: that of a call stands before the call, that of
text behind the text. A call of another model gets the signature that Google names for that case.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from sidecar._internal.env import read_raw
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import (
    Block,
    GatewayError,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    GOOGLE_MARK,
    TurnMemo,
    describe_tools,
    encodable_json,
    find_tool,
    join_roles,
    json_text,
    token_count,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.http_calls import Events, RefusedRequestError, open_client, stream_events
from sidecar.llmgateway.providers.sanitize import WireRules

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from httpx2 import AsyncClient

_HOST: Final = "https://generativelanguage.googleapis.com"
_VERSION: Final = "v1"
_CLOUD_VERSION: Final = "v1beta1"
_CLOUD_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_URL_SAFE: Final = str.maketrans("-_", "+/")
_OF_TEXT: Final = "text:"
_FOREIGN: Final = base64.b64encode(b"skip_thought_signature_validator").decode()
_STOPS: Final[Mapping[str, StopReason]] = {
    "STOP": "complete",
    "MAX_TOKENS": "max_output",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "MODEL_ARMOR": "refusal",
}
_BROKEN: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
_ENDS: Final[Mapping[str, str]] = {
    "MISSING_THOUGHT_SIGNATURE": "misses the signature of an earlier call; compact the conversation, or begin"
    " a new one",
    "TOO_MANY_TOOL_CALLS": "made too many calls; ask for less at a time",
    "ESCALATION": "was stopped by a rule of Google",
    "PUP_LIMITED_DISABLED": "was stopped, because the account is limited or disabled",
}
"""The sentences for other reasons to end an answer."""
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_LEVELS: Final[Mapping[ThinkingLevel, str]] = {"off": "LOW", "low": "LOW", "medium": "MEDIUM"}
_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {"low": 2_048, "medium": 8_192, "high": 16_384, "max": 24_576}


class GoogleClient(Value):
    """The HTTP client, the address *models* before the name of a model, and *credentials* where no key is."""

    http: AsyncClient
    models: str
    credentials: Credentials | None = None

    async def headers(self) -> dict[str, str]:
        """Return the headers of a call; credentials are refreshed in a thread when they have expired."""
        if self.credentials is None:
            return {}
        if not self.credentials.valid:
            from google.auth.transport.requests import Request

            await asyncio.to_thread(self.credentials.refresh, Request())
        return {"Authorization": f"Bearer {self.credentials.token}"}


class GoogleGenerate:
    """The adapter."""

    rules = WireRules(
        takes_signature=lambda signature: signature.startswith(GOOGLE_MARK),
        image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    )

    def connect(self, endpoint: Endpoint) -> SdkClient[GoogleClient]:
        """Return an HTTP client; for Google itself, credentials of its cloud may stand in for a key."""
        wants_cloud = (read_raw("GOOGLE_GENAI_USE_VERTEXAI") or "").lower() in ("1", "true")
        key, is_cloud = endpoint.key, wants_cloud and bool(endpoint.provider.own_env)
        if not is_cloud:
            endpoint.require_key()
        credentials, models = None, f"{endpoint.base_url or _HOST}/{_VERSION}/models/"
        if is_cloud:
            credentials, models = find_cloud(endpoint)
        http = open_client(endpoint, models, {"x-goog-api-key": key.value} if key else {})
        http.follow_redirects = False  # the header with the key would go along
        return SdkClient(GoogleClient(http, models, credentials), http.aclose)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the body of a request, and the name of the model beside it."""
        conversation, options, model = call.conversation, call.options, call.card.wire_id
        knobs: SdkArguments = {
            "temperature": options.temperature,
            "topP": options.top_p,
            "maxOutputTokens": options.max_output_tokens,
        }
        if options.thinking and call.card.reasoning:
            knobs["thinkingConfig"] = thinking_config(model, options.thinking, options.max_output_tokens)
        contents = list(google_contents(conversation.turns, call.memo))
        request: SdkArguments = {"model": model, "contents": contents}
        if conversation.system:
            request["systemInstruction"] = {"role": "user", "parts": [{"text": conversation.system}]}
        if conversation.tools:
            declared = describe_tools(conversation.tools, "parametersJsonSchema")
            request["tools"] = [{"functionDeclarations": declared}]
            if options.tool_choice:
                mode = _MODES[options.tool_choice]
                request["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        set_knobs = {name: value for name, value in knobs.items() if value is not None}
        return request | ({"generationConfig": set_knobs} if set_knobs else {})

    @asynccontextmanager
    async def open(self, client: GoogleClient, request: SdkArguments) -> AsyncIterator[Events]:
        """Stream one answer."""
        body = {name: value for name, value in request.items() if name != "model"}
        name = str(request["model"]).removeprefix("models/")
        url = f"{client.models}{name}:streamGenerateContent?alt=sse"
        async with stream_events(client.http, url, body, await client.headers()) as events:
            yield events

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader()

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return Google's report in *error*."""
        return read_refusal(error) if isinstance(error, RefusedRequestError) else None


def find_cloud(endpoint: Endpoint) -> tuple[Credentials | None, str]:
    """Return the user's credentials for Google Cloud, None with a key, and the address of its models.

    Raises:
        GatewayError: ``auth``, when there are no credentials.
    """
    publisher = "publishers/google/models/"
    location = read_raw("GOOGLE_CLOUD_LOCATION") or "global"
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    base = f"{endpoint.base_url or f'https://{host}'}/{_CLOUD_VERSION}"
    if endpoint.key is not None:
        return None, f"{base}/{publisher}"
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        credentials, project = google.auth.default(scopes=[_CLOUD_SCOPE])
    except DefaultCredentialsError:
        raise endpoint.missing_key_error() from None
    project = read_raw("GOOGLE_CLOUD_PROJECT") or project
    return credentials, f"{base}/projects/{project}/locations/{location}/{publisher}"


def read_refusal(refused: RefusedRequestError) -> ProviderFailure:
    """Return the report in a refusal; its body is an error, a list with one, or anything else.

    >>> read_refusal(RefusedRequestError(400, {}, '{"error": {"message": "API key not valid"}}')).status
    401
    """
    body, status = refused.body, refused.status
    body = body[0] if isinstance(body, list) and body else body
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    message = str(error.get("message") or refused.text or refused.message)
    pause = re.search(r'"retryDelay": *"([\d.]+)s"', refused.text)
    # The quota of a day names a pause of seconds as well.
    is_daily = re.search(r'"quotaId": *"[^"]*PerDay', refused.text) is not None
    return ProviderFailure(
        message,
        # A wrong key is a bad request here.
        401 if "API key" in message and status == 400 else status,
        code="insufficient_quota" if is_daily else str(error.get("status") or ""),
        headers=refused.headers,
        retry_after_ms=int(float(pause[1]) * 1000) if pause else None,
    )


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False

    def read(self, chunk: dict[str, Any]) -> Emissions:
        if (usage := chunk.get("usageMetadata")) is not None:
            thought = usage.get("thoughtsTokenCount")
            self.assembly.usage = usage_of(
                token_count(usage.get("promptTokenCount"))
                + token_count(usage.get("toolUsePromptTokenCount")),
                token_count(usage.get("candidatesTokenCount")) + token_count(thought),
                cache_read=usage.get("cachedContentTokenCount"),
                reasoning=thought,
            )
        if (chunk.get("promptFeedback") or {}).get("blockReason"):
            self.is_complete, self.assembly.stop = True, "refusal"
        candidates = chunk.get("candidates")
        candidate = (candidates[0] if candidates else None) or {}
        parts = (candidate.get("content") or {}).get("parts")
        emissions = [emission for part in parts or () if part is not None for emission in self._part(part)]
        if reason := candidate.get("finishReason"):
            if reason in _BROKEN:
                message = f"google's model made a call that cannot be read ({reason})"
                raise GatewayError("parse", message, provider="google", retryable=True)
            if reason not in _STOPS:
                sentence = _ENDS.get(reason, "ended its answer for a reason of its own; ask again")
                message = f"google's model {sentence} ({reason})"
                raise GatewayError("http", message, provider="google")
            self.is_complete = True
            self.assembly.stop = _STOPS[reason]
        return emissions

    def _part(self, part: dict[str, Any]) -> Emissions:
        signature = part.get("thoughtSignature")
        if (call := part.get("functionCall")) is not None:
            if signature:
                self.assembly.sign(f"{GOOGLE_MARK}{signature}")
            arguments = call.get("args")
            if not isinstance(arguments, dict | None):
                raise MalformedAnswerError("the arguments of a tool call are not an object")
            call_id = call.get("id") or f"call_{uuid4().hex[:16]}"
            return self.assembly.add_call(call_id, call.get("name"), json_text(arguments or {}))
        text = part.get("text")
        emissions = self.assembly.add_thinking(text) if part.get("thought") else self.assembly.add_text(text)
        if signature:
            self.assembly.sign(f"{GOOGLE_MARK}{_OF_TEXT}{signature}")
        return emissions


def thinking_config(model: str, level: ThinkingLevel, max_tokens: int | None = None) -> dict[str, Any]:
    """Return the part of a request that sets how far *model* thinks: a budget for 2.5, a level since.

    Args:
        model: its name at Google.
        level: how far it is to think.
        max_tokens: the limit of the whole answer, in which a budget must leave room; None for none.

    >>> thinking_config("gemini-2.5-pro", "off"), thinking_config("gemini-3-pro", "max")["thinkingLevel"]
    ({'includeThoughts': False, 'thinkingBudget': 128}, 'HIGH')
    """
    shown = {"includeThoughts": level != "off"}
    if "gemini-2.5" in model:
        least = 128 if "pro" in model else 0
        budget = _BUDGETS.get(level, least)
        return shown | {
            "thinkingBudget": max(least, min(budget, max_tokens * 5 // 8) if max_tokens else budget)
        }
    return shown | {"thinkingLevel": _LEVELS.get(level, "HIGH")}


def google_contents(
    turns: Sequence[Turn], memo: TurnMemo[list[dict[str, Any]]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield contents of alternating roles; *memo* has the parts of earlier calls."""

    def write(at: int) -> list[dict[str, Any]]:
        return model_parts(turns[at].blocks) if turns[at].role == "assistant" else user_parts(turns, at)

    for role, parts in join_roles(turns, (memo or TurnMemo()).write(turns, write)):
        yield {"role": "model" if role == "assistant" else "user", "parts": parts}


def user_parts(turns: Sequence[Turn], index: int) -> list[dict[str, Any]]:
    """Return the parts of the prompt or the results at *index*; the calls of results stand before it."""
    parts: list[dict[str, Any]] = []
    for block in turns[index].blocks:
        match block:
            case TextBlock(text=text):
                parts.append({"text": text})
            case ImageBlock(media_type=media_type, data_base64=data):
                parts.append({"inlineData": {"mimeType": media_type, "data": data}})
            case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
                name = find_tool(turns, index, call_id)
                response = {"error" if is_error else "output": encodable_json(output)}
                parts.append({"functionResponse": {"id": call_id, "name": name, "response": response}})
            case _:
                continue
    return parts


def model_parts(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the parts of an answer, each signature on the part on which it came."""
    parts: list[dict[str, Any]] = []
    waiting: str | None = None
    needs_signature = True
    for block in blocks:
        match block:
            case TextBlock(text=text):
                parts.append({"text": text})
            case ThinkingBlock(signature=signature) if signed := without_mark(signature, GOOGLE_MARK):
                of_text = signed.startswith(_OF_TEXT)
                proof: str | None = signed.removeprefix(_OF_TEXT)
                try:
                    base64.b64decode(str(proof).translate(_URL_SAFE), validate=True)
                except binascii.Error:
                    proof = None
                if of_text and proof:
                    parts.append({"text": "", "thoughtSignature": proof})
                waiting = None if of_text else proof
            case ToolCallBlock(id=call_id, name=name, input=value):
                part: dict[str, Any] = {"functionCall": {"id": call_id, "name": name, "args": value}}
                if waiting or needs_signature:
                    part["thoughtSignature"] = waiting or _FOREIGN
                waiting, needs_signature = None, False
                parts.append(part)
    return parts
