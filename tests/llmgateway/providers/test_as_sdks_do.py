"""The SDKs of the providers send what the adapters send, and read what the fakes answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from provider_fakes import ODDITIES, Ended, Oddity, Said
from sidecar.llmgateway.contract import Block, TextBlock, ToolCallBlock
from tests.llmgateway.providers.conftest import KEY, StageMaker

pytestmark = [pytest.mark.processes, pytest.mark.slow]
SCENE = (Said(("Hel", "lo")), Ended())


async def stream(api: str, url: str, key: str, request: dict[str, Any]) -> AsyncIterator[Any]:
    """Yield the parts of an answer to *request*, a body without ``stream``, as the SDK reads them."""
    if api == "anthropic-messages":
        from anthropic import AsyncAnthropic

        async with AsyncAnthropic(api_key=key, base_url=url) as client:
            async for event in await client.messages.create(stream=True, **request):
                yield event
        return
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key=key, base_url=url) as service:
        create = service.chat.completions.create if api == "openai-chat" else service.responses.create
        async for event in await create(stream=True, **request):
            yield event


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages"])
async def test_the_sdk_sends_the_same_and_reads_the_fake(on_stage: StageMaker, api: str) -> None:
    async with on_stage(api, SCENE) as stage:
        await stage.play()
        (ours,) = stage.fake.calls
        request = {name: value for name, value in ours.json.items() if name != "stream"}
        answer = [repr(part) async for part in stream(api, str(stage.provider.base_url), KEY, request)]
        theirs = stage.fake.calls[-1]
    assert theirs is not ours
    assert (theirs.path.partition("?")[0], theirs.json) == (ours.path, ours.json)
    for name in ("authorization", "content-type", "anthropic-version"):
        assert theirs.headers.get(name) == ours.headers.get(name), name
    assert any("Hel" in part for part in answer)


async def test_the_sdk_of_google_reads_the_fake(on_stage: StageMaker) -> None:
    from google.genai import Client, types

    async with on_stage("google-generate", SCENE) as stage:
        await stage.play()
        options = types.HttpOptions(base_url=stage.provider.base_url)
        async with Client(api_key=KEY, http_options=options).aio as sdk:
            parts = await sdk.models.generate_content_stream(model="fake-1", contents="hello")
            text = "".join([part.text or "" async for part in parts])
        ours, theirs = stage.fake.calls
    assert text == "Hello"
    assert theirs.path.partition("?")[0] == ours.path.partition("?")[0]
    assert theirs.headers.get("x-goog-api-key") == ours.headers.get("x-goog-api-key") == KEY


async def read_by_sdk(api: str, url: str, key: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return the text and the calls of an answer, as the SDK puts them together; raises what it raises."""
    hello: Any = [{"role": "user", "content": "hello"}]
    if api == "anthropic-messages":
        from anthropic import AsyncAnthropic

        async with AsyncAnthropic(api_key=key, base_url=url, max_retries=0, timeout=0.5) as client:
            streamed = client.messages.stream(model="fake-1", max_tokens=9, messages=hello)
            async with streamed as stream:
                message = await stream.get_final_message()
        texts = [block.text for block in message.content if block.type == "text"]
        return "".join(texts), [
            (each.name, each.input) for each in message.content if each.type == "tool_use"
        ]
    if api == "google-generate":
        from google.genai import Client, types

        options = types.HttpOptions(base_url=url, timeout=500)
        async with Client(api_key=key, http_options=options).aio as sdk:
            chunks = [
                each async for each in await sdk.models.generate_content_stream(model="m", contents="x")
            ]
        calls = [call for chunk in chunks for call in chunk.function_calls or ()]
        return "".join(chunk.text or "" for chunk in chunks), [(str(each.name), each.args) for each in calls]
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key=key, base_url=url, max_retries=0, timeout=0.5) as service:
        if api == "openai-chat":
            async with service.chat.completions.stream(model="fake-1", messages=hello) as chat:
                said = (await chat.get_final_completion()).choices[0].message
            made = [
                (each.function.name, json.loads(each.function.arguments)) for each in said.tool_calls or ()
            ]
            return said.content or "", made
        async with service.responses.stream(model="fake-1", input="hello") as responses:
            response = await responses.get_final_response()
    asked = [each for each in response.output if each.type == "function_call"]
    return response.output_text, [(each.name, json.loads(each.arguments)) for each in asked]


def plain(blocks: Sequence[Block]) -> tuple[str, list[tuple[str, Any]]]:
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return text, [(block.name, block.input) for block in blocks if isinstance(block, ToolCallBlock)]


OF_SDKS = [odd for odd in ODDITIES if odd.api != "ollama-chat"]


@pytest.mark.parametrize("odd", OF_SDKS, ids=lambda odd: f"{odd.api}: {odd.name}")
async def test_whatever_the_sdk_reads_in_an_odd_answer_is_read_here(
    on_stage: StageMaker, odd: Oddity
) -> None:
    async with on_stage(odd.api, [odd.answer], idle_timeout_s=0.5) as stage:
        await stage.play()
        try:
            theirs = await read_by_sdk(odd.api, str(stage.provider.base_url), KEY)
        except Exception:  # the SDK does not read this one: of whatever class, it gave no answer
            theirs = "", []
    text, calls = plain(stage.blocks)
    assert theirs[0] in ("", text)
    assert [each for each in theirs[1] if each[1]] in ([], calls)
