"""One conversation over several providers: each is sent what it takes, and nothing is lost to the others."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from provider_fakes import Called, Ended, Said, Scene, Spent, Thought

pytestmark = pytest.mark.processes

PIXELS = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (1).to_bytes(4, "big") * 2
PICTURE = {"type": "image", "mimeType": "image/png", "data": b64encode(PIXELS).decode()}


def round_of(name: str) -> list[Scene]:
    """Two calls of a model: it thinks and reads a file, then answers."""
    reads = Called(f"call_{name}", "read", ('{"path": "a.txt"}',))
    return [
        (Thought((f"{name} thinks",), f"c2lnbmVk{name}"), reads, Spent(10, 5), Ended("tool_calls")),
        (Said((f"{name} says hi",)), Spent(20, 5), Ended()),
    ]


async def test_a_conversation_wanders_from_provider_to_provider(on_stage: Any, told: Any) -> None:
    """The fakes refuse what is not valid, so that each answer says that the request was."""
    wandered = ("anthropic:claude-x", "google:gemini-x", "openai-chat:gpt-x", "anthropic:claude-x")
    scenes = {
        "anthropic-messages": [*round_of("Anna"), (Said(("Anna again",)), Ended())],
        "google-generate": round_of("Gigi"),
        "openai-chat": round_of("Opal"),
    }
    async with on_stage(scenes) as stage:
        (stage.folder / "a.txt").write_text("hi\n")
        session = await stage.session("anthropic:claude-x")
        texts = []
        for model in wandered:
            await session.choose("model", model)
            asked = ({"type": "text", "text": "what is this?"}, PICTURE)
            texts.append((await (await session.submit(asked)).outcome).text)
        sent = {api: fake.sent for api, fake in stage.fakes.items()}
    assert texts == ["Anna says hi", "Gigi says hi", "Opal says hi", "Anna again"]
    assert told(session, "faulted", "retry") == []
    own = str(sent["anthropic-messages"][-1])
    assert "'thinking': 'Anna thinks', 'signature': 'c2lnbmVkAnna'" in own
    assert "Gigi thinks" not in own
    assert "Opal thinks" not in own
    assert own.count("'tool_use_id'") == 3
    assert own.count("'media_type': 'image/png'") == 4
    assert "thinks" not in str(sent["google-generate"][0])
    assert "c2lnbmVkGigi" in str(sent["google-generate"][1])
    assert "Gigi thinks" not in str(sent["openai-chat"][0])
    assert "Opal thinks" in str(sent["openai-chat"][1])


async def test_the_choice_is_stored_with_the_session(on_stage: Any) -> None:
    async with on_stage({"anthropic-messages": [(Said(("hi",)), Ended())]}) as stage:
        session = await stage.session("offline-1")
        await session.choose("model", "anthropic:claude-x")
        await stage.daemon.service.hub.close(session.sid)
        loaded = (await stage.daemon.service.hub.load(session.sid)).session
        assert loaded.info.model == "anthropic:claude-x"
        assert (await stage.ask(loaded, "hello")).text == "hi"


PRICED = """
[models.dear]
provider = "anthropic"
name = "dear"
context_window = 9000
cost = { input = 10.0, output = 50.0, cache_read = 1.0 }

[models.cheap]
provider = "openai-chat"
name = "cheap"
context_window = 9000
cost = { input = 1.0, output = 2.0 }

[models.free]
provider = "openai-chat"
name = "free"
context_window = 9000
"""


async def test_each_call_has_the_price_of_its_own_model(on_stage: Any) -> None:
    """And still does when the session is loaded again; a cache without a price costs as any input."""
    said = (Said(("ok",)), Spent(1_000, 100, cache_read=500), Ended())
    scenes = {"anthropic-messages": [said], "openai-chat": [said]}
    costs = []
    async with on_stage(scenes, config=PRICED) as stage:
        session = await stage.session("dear")
        for model in ("dear", "cheap", "free"):
            await session.choose("model", model)
            await stage.ask(session, "hello")
            costs.append(session.window.request.usage().cost)
        await stage.daemon.service.hub.close(session.sid)
        loaded = (await stage.daemon.service.hub.load(session.sid)).session
        costs.append(loaded.window.request.usage().cost)
    assert costs == [0.0155, 0.0172, 0.0172, 0.0172]


@pytest.mark.parametrize("model", ["openai-chat:gpt-5.2", "openai-chat:openai/gpt-5.3-codex", "big"])
async def test_a_gpt_is_offered_patches_by_whatever_name_it_is_chosen(on_stage: Any, model: str) -> None:
    named = '[models.big]\nprovider = "openai-chat"\nname = "gpt-5.2"\ncontext_window = 90000\n'
    async with on_stage({"openai-chat": [(Said(("ok",)), Ended())]}, config=named) as stage:
        await stage.ask(await stage.session(model), "hello")
        (sent,) = stage.fake.sent
    assert "apply_patch" in [tool["function"]["name"] for tool in sent["tools"]]
