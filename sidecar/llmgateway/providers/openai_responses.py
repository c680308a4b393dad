"""OpenAI's responses format over HTTP. Nothing is stored there: each call brings all it needs.

A reasoning item goes back whole, encrypted as it came, and directly before the item that followed it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.llmgateway.providers.adapter import ModelCall, SdkArguments
from sidecar.llmgateway.providers.assembly import Assembly, Emissions
from sidecar.llmgateway.providers.body import ReportedFailureError
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    RESPONSES_MARK,
    encodable,
    json_text,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.http_calls import RefusedRequestError, post
from sidecar.llmgateway.providers.markup import assembly_of
from sidecar.llmgateway.providers.openai_http import OpenAIService, effort_of
from sidecar.llmgateway.providers.sanitize import WireRules
from sidecar.llmgateway.providers.turn_memo import TurnMemo

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
        request: SdkArguments = {
            "model": card.wire_id,
            "input": list(response_items(conversation.turns, call.memo)),
            "store": False,
        }
        if conversation.system:
            request["instructions"] = encodable(conversation.system)
        if conversation.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in conversation.tools
            ]
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
    async def open(
        self, client: AsyncClient, request: SdkArguments
    ) -> AsyncIterator[AsyncIterator[list[dict[str, Any]]]]:
        """Stream one response.

        Summaries of reasoning are for verified organizations alone; for another one they are left out.
        """
        if self._has_no_summaries:
            request = without_summary(request)
        async with AsyncExitStack() as stack:
            try:
                body = await stack.enter_async_context(post(client, "/responses", request))
            except RefusedRequestError as refusal:
                asks = "summary" in request.get("reasoning", {})
                if not asks or "reasoning.summary" not in str(refusal.body):
                    raise
                self._has_no_summaries = True
                body = await stack.enter_async_context(post(client, "/responses", without_summary(request)))
            yield body.events()

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
    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.is_complete = False

    def read(self, chunk: dict[str, Any]) -> Emissions:
        assembly, item = self.assembly, chunk.get("item") or {}
        match chunk["type"], item.get("type"):
            case "response.output_text.delta", _:
                return assembly.add_text(chunk["delta"])
            case "response.function_call_arguments.delta", _:
                return assembly.add_arguments(chunk["output_index"], chunk["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta", _:
                return assembly.add_thinking(chunk["delta"])
            case "response.reasoning_summary_part.added", _ if chunk.get("summary_index"):
                return assembly.add_thinking("\n\n")
            case "response.refusal.delta", _:
                assembly.stop = "refusal"
                return assembly.add_text(chunk["delta"])
            case "response.output_item.added", "function_call":
                return assembly.open_call(chunk["output_index"], item.get("call_id"), item.get("name"))
            case "response.output_item.added", "reasoning":
                assembly.open_thinking()
            case "response.output_item.added", "message":
                # Whether a message is a comment on the work or the answer; it goes back with the message.
                if phase := item.get("phase"):
                    assembly.open_thinking()
                    assembly.sign(f"{RESPONSES_MARK}{json.dumps({'phase': phase})}")
            case "response.output_item.done", "function_call":
                if not assembly.has_arguments(chunk["output_index"]):
                    return assembly.add_arguments(chunk["output_index"], item.get("arguments"))
            case "response.output_item.done", "reasoning":
                if encrypted := item.get("encrypted_content"):
                    summary = [part["text"] for part in item.get("summary") or ()]
                    proof = {"id": item.get("id"), "summary": summary, "encrypted_content": encrypted}
                    assembly.sign(f"{RESPONSES_MARK}{json.dumps(proof)}")
            case "response.completed" | "response.incomplete" | "response.failed", _:
                self._finish(chunk["response"])
            case "error", _:
                raise reported_failure(chunk.get("code"), chunk.get("message"))
        # Events of other kinds repeat these.
        return ()

    def _finish(self, response: dict[str, Any]) -> None:
        if response.get("status") == "failed":
            error = response.get("error") or {}
            raise reported_failure(error.get("code"), error.get("message"))
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


def reported_failure(code: object, message: object) -> ReportedFailureError:
    """Return the error for an event which reports that there will be no answer."""
    sentence = str(message or "no reason was given")
    return ReportedFailureError(ProviderFailure(sentence, code=str(code or "server_error")))


def response_items(turns: Sequence[Turn], memo: TurnMemo[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Return the input items of a conversation; *memo* has the items of earlier calls."""
    return chain.from_iterable(memo.write(turns, lambda at: turn_items(turns[at])))


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
