"""The SDKs of the providers send what the adapters send, and read what the fakes answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from provider_fakes import Ended, Said

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
async def test_the_sdk_sends_the_same_and_reads_the_fake(on_stage: Any, api: str, key: str) -> None:
    async with on_stage(api, SCENE) as stage:
        await stage.play()
        (ours,) = stage.fake.calls
        request = {name: value for name, value in ours.json.items() if name != "stream"}
        answer = [repr(part) async for part in stream(api, str(stage.provider.base_url), key, request)]
        theirs = stage.fake.calls[-1]
    assert theirs is not ours
    assert (theirs.path.partition("?")[0], theirs.json) == (ours.path, ours.json)
    for name in ("authorization", "content-type", "anthropic-version"):
        assert theirs.headers.get(name) == ours.headers.get(name), name
    assert any("Hel" in part for part in answer)


async def test_the_sdk_of_google_reads_the_fake(on_stage: Any, key: str) -> None:
    from google.genai import Client, types

    async with on_stage("google-generate", SCENE) as stage:
        await stage.play()
        options = types.HttpOptions(base_url=stage.provider.base_url)
        async with Client(api_key=key, http_options=options).aio as sdk:
            parts = await sdk.models.generate_content_stream(model="fake-1", contents="hello")
            text = "".join([part.text or "" async for part in parts])
        ours, theirs = stage.fake.calls
    assert text == "Hello"
    assert theirs.path.partition("?")[0] == ours.path.partition("?")[0]
    assert theirs.headers.get("x-goog-api-key") == ours.headers.get("x-goog-api-key") == key
