"""OpenAI's responses format over HTTP. Nothing is stored there: each call brings all it needs.

A reasoning item goes back whole, encrypted as it came, and directly before the item that followed it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Emission,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.llmgateway.providers.adapter import ModelCall, SdkArguments
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, require_text
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    RESPONSES_MARK,
    describe_tools,
    json_text,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.http_calls import (
    END_MARK,
    Events,
    RefusedRequestError,
    ReportedFailureError,
    stream_events,
)
from sidecar.llmgateway.providers.markup import assembly_of
from sidecar.llmgateway.providers.openai_http import OpenAIService, cache_key, effort_of, is_official
from sidecar.llmgateway.providers.sanitize import WireRules

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_REASONING: Final = "reasoning"


class OpenAIResponses(OpenAIService):
    """The adapter."""

    rules = WireRules(takes_signature=lambda signature: signature.startswith(RESPONSES_MARK))

    def __init__(self) -> None:
        self._has_no_summaries = False

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``responses.create``."""
        conversation, options, card = call.conversation, call.options, call.card
        turns = conversation.turns
        request: SdkArguments = {
            "model": card.wire_id,
            "input": list(chain.from_iterable(call.memo.write(turns, lambda at: turn_items(turns[at])))),
            "store": False,
            "stream": True,
        }
        if is_official(call.endpoint):
            request["prompt_cache_key"] = cache_key(conversation)
        if conversation.system:
            request["instructions"] = conversation.system
        if conversation.tools:
            described = describe_tools(conversation.tools)
            request["tools"] = [{"type": "function", **each, "strict": False} for each in described]
            request |= {"tool_choice": options.tool_choice} if options.tool_choice else {}
        if options.max_output_tokens:
            request["max_output_tokens"] = options.max_output_tokens
        if not card.reasoning:
            return request | call.sampling_arguments()
        request["include"] = ["reasoning.encrypted_content"]
        if options.thinking:
            effort = effort_of(card.wire_id, options.thinking)
            request["reasoning"] = {"effort": effort, "summary": "auto"}
        return request

    @asynccontextmanager
    async def open(self, client: AsyncClient, request: SdkArguments) -> AsyncIterator[Events]:
        """Stream one response.

        Summaries of reasoning are for verified organizations alone; for another one they are left out.
        """
        if self._has_no_summaries:
            request = without_summary(request)
        async with AsyncExitStack() as stack:
            try:
                events = await stack.enter_async_context(stream_events(client, "/responses", request))
            except RefusedRequestError as refusal:
                asks = "summary" in request.get("reasoning", {})
                if not asks or "reasoning.summary" not in str(refusal.body):
                    raise
                self._has_no_summaries = True
                again = stream_events(client, "/responses", without_summary(request))
                events = await stack.enter_async_context(again)
            yield events

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader(assembly_of(call))


def without_summary(request: SdkArguments) -> SdkArguments:
    """Return *request* that asks for no summary of the reasoning."""
    reasoning = {name: value for name, value in request.get("reasoning", {}).items() if name != "summary"}
    return {name: value for name, value in request.items() if name != "reasoning"} | (
        {"reasoning": reasoning} if reasoning else {}
    )


class _Reader:
    """Reads the events of a response.

    The format says everything several times: in deltas, when a part is done, when its item is done, and when
    the response is. Servers leave out some of these, and any member. So later events complete each item: a
    text by the end that its deltas lack, a call by its arguments, reasoning by its proof.
    """

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.is_complete = False
        self._keys: dict[Hashable, Hashable] = {}
        """The keys of the items so far by their ids: their indexes, which servers may leave out."""
        self._begun: set[Hashable] = set()
        self._signed: set[Hashable] = set()
        self._texts: dict[tuple[Hashable, Hashable], list[str]] = {}
        """The deltas so far of each item's parts, by the key of the item and the index of the part."""

    def read(self, chunk: dict[str, Any]) -> Emissions:
        assembly, item, kind = self.assembly, chunk.get("item") or {}, chunk.get("type")
        key = self.find_key(
            chunk.get("output_index"), chunk.get("item_id"), item.get("id"), item.get("call_id")
        )
        part, delta = chunk.get("content_index") or 0, chunk.get("delta")
        match kind:
            case "response.output_text.delta":
                return self._add(key, part, delta)
            case "response.refusal.delta":
                assembly.stop = "refusal"
                return self._add(key, part, delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._add(key, _REASONING, delta)
            case "response.reasoning_summary_part.added" if chunk.get("summary_index"):
                return self._add(key, _REASONING, "\n\n")
            case "response.function_call_arguments.delta":
                return assembly.add_arguments(key, delta)
            case "response.output_item.added":
                # Some servers number all items 0: what came before belongs to another item.
                self._begun.discard(key)
                self._texts = {place: text for place, text in self._texts.items() if place[0] != key}
                return self._begin(key, item)
            case "response.output_text.done":
                return self._complete(key, part, chunk.get("text"))
            case "response.content_part.done":
                return self._complete_part(key, part, chunk.get("part") or {})
            case "response.function_call_arguments.done" if not assembly.has_arguments(key):
                return assembly.add_arguments(key, chunk.get("arguments"))
            case "response.output_item.done":
                return self._complete_item(key, item)
            case "response.failed":
                raise reported_failure((chunk.get("response") or {}).get("error") or {})
            case "response.completed" | "response.incomplete":
                return self._finish(chunk.get("response") or {})
            case "error":
                raise reported_failure(chunk)
            case _ if kind == END_MARK:
                self.is_complete = True
            case _ if chunk.get("object") == "response":
                # A whole answer instead of a stream.
                return self._finish(chunk)
        return ()

    def find_key(self, index: Hashable, *ids: object) -> Hashable:
        """Return the key of the item at *index*, or of the one that had one of *ids* before."""
        given = [each for each in ids if isinstance(each, str)]
        key = index
        if key is None:
            key = next((self._keys[each] for each in given if each in self._keys), given[0] if given else 0)
        self._keys |= dict.fromkeys(given, key)
        return key

    def _begin(self, key: Hashable, item: dict[str, Any]) -> Emissions:
        """Open the block of *item*, unless it is open."""
        if key in self._begun:
            return ()
        match item.get("type"):
            case "function_call":
                return self.assembly.open_call(key, item.get("call_id"), item.get("name"))
            case "reasoning":
                self._begun.add(key)
                self.assembly.open_thinking(key)
            case "message":
                self._begun.add(key)
                # Whether a message is a comment on the work or the answer; it goes back with the message.
                if phase := item.get("phase"):
                    self.assembly.open_thinking()
                    self.assembly.sign(f"{RESPONSES_MARK}{json.dumps({'phase': phase})}")
        return ()

    def _add(self, key: Hashable, part: Hashable, delta: object) -> Emissions:
        """Add *delta* to a text of the item *key*: its reasoning, or the part with that index."""
        self._begun.add(key)
        if isinstance(delta, str):
            self._texts.setdefault((key, part), []).append(delta)
        return self.assembly.add_thinking(delta) if part == _REASONING else self.assembly.add_text(delta)

    def _complete(self, key: Hashable, part: Hashable, whole: object) -> Emissions:
        """Add the end of the text *whole* that did not come in deltas."""
        text, known = require_text(whole, "a text"), "".join(self._texts.get((key, part), ()))
        return self._add(key, part, text[len(known) :]) if text.startswith(known) and text != known else ()

    def _complete_part(self, key: Hashable, index: int, part: dict[str, Any]) -> Emissions:
        if part.get("type") == "refusal":
            self.assembly.stop = "refusal"
        return self._complete(key, index, part.get("refusal" if part.get("type") == "refusal" else "text"))

    def _complete_item(self, key: Hashable, item: dict[str, Any]) -> Emissions:
        emissions = list(self._begin(key, item))
        match item.get("type"):
            case "function_call" if not self.assembly.has_arguments(key):
                emissions += self.assembly.add_arguments(key, item.get("arguments"))
            case "message":
                for index, part in enumerate(item.get("content") or ()):
                    emissions += self._complete_part(key, index, part)
            case "reasoning":
                summary = [str(part.get("text") or "") for part in item.get("summary") or ()]
                emissions += self._complete(key, _REASONING, "\n\n".join(summary))
                if (encrypted := item.get("encrypted_content")) and key not in self._signed:
                    self._signed.add(key)
                    proof = {"id": item.get("id"), "summary": summary, "encrypted_content": encrypted}
                    self.assembly.sign(f"{RESPONSES_MARK}{json.dumps(proof)}", key)
        return emissions

    def _finish(self, response: dict[str, Any]) -> Emissions:
        if response.get("status") == "failed":
            raise reported_failure(response.get("error") or {})
        emissions: list[Emission] = []
        for index, item in enumerate(response.get("output") or ()):
            known = (self._keys.get(each) for each in (item.get("id"), item.get("call_id")))
            key = next((each for each in known if each is not None), index)
            emissions += self._complete_item(key, item)
        self.is_complete = True
        reason = (response.get("incomplete_details") or {}).get("reason")
        if reason == "max_output_tokens":
            self.assembly.stop = "max_output"
        elif reason == "content_filter":
            self.assembly.stop = "refusal"
        if (usage := response.get("usage")) is not None:
            details = usage.get("input_tokens_details") or {}
            self.assembly.usage = usage_of(
                usage.get("input_tokens"),
                usage.get("output_tokens"),
                cache_read=details.get("cached_tokens"),
                cache_write=details.get("cache_write_tokens"),
            )
        return emissions


def reported_failure(error: Mapping[str, Any]) -> ReportedFailureError:
    """Return the failure in *error*, which reports that there will be no answer."""
    sentence = str(error.get("message") or "no reason was given")
    return ReportedFailureError(ProviderFailure(sentence, code=str(error.get("code") or "server_error")))


def turn_items(turn: Turn) -> list[dict[str, Any]]:
    """Return the input items of one turn."""
    if isinstance(turn, AssistantTurn):
        items = [item for block in turn.blocks if (item := assistant_item(block)) is not None]
        for before, item in pairwise(items):
            if "phase" in before and "content" in item:
                item["phase"] = before["phase"]
        items = [item for item in items if "role" in item or "type" in item]
        while items and items[-1].get("type") == _REASONING:
            # Reasoning with no item behind it, since the answer was stopped, is refused.
            items.pop()
        return items
    items, content = [], list[dict[str, Any]]()
    for block in turn.blocks:
        match block:
            case ToolResultBlock(call_id=call_id, output=output):
                items.append(
                    {"type": "function_call_output", "call_id": call_id, "output": json_text(output)}
                )
            case TextBlock(text=text):
                content.append({"type": "input_text", "text": text})
            case ImageBlock(media_type=media_type, data_base64=data):
                url = f"data:{media_type};base64,{data}"
                content.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case _:
                continue
    return [*items, {"role": "user", "content": content}] if content else items


def assistant_item(block: Block) -> dict[str, Any] | None:
    """Return one block of an answer as an input item, None when it does not go back.

    The phase of a message is a block of its own before its text, and becomes an item of nothing else.
    """
    match block:
        case TextBlock(text=text):
            return {"role": "assistant", "content": text}
        case ToolCallBlock(id=call_id, name=name, input=value):
            arguments = json_text(value)
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case ThinkingBlock(signature=signature) if proof := without_mark(signature, RESPONSES_MARK):
            try:
                item = json.loads(proof)
                if "phase" in item:
                    return {"phase": item["phase"]}
                summary = [{"type": "summary_text", "text": text} for text in item["summary"]]
            except (ValueError, TypeError, KeyError):
                # Not as it was stored here: left out whole.
                return None
            return {**item, "type": _REASONING, "summary": summary}
    return None
