"""A provider on the loopback that plays scenes in a thread, for tests that wait for processes blockingly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from provider_fakes import FakeProvider, fake_provider
from provider_fakes.scenes import Ended, Said, Scene, Spent

MODEL = "anthropic:claude-sonnet-4-5"
"""A model of the provider."""


def says(text: str) -> Scene:
    """Return an answer of the model, in small pieces."""
    return (Said(tuple(text[at : at + 7] for at in range(0, len(text), 7))), Spent(900, 40), Ended())


@contextmanager
def provider_in_thread(scenes: Sequence[Scene]) -> Iterator[FakeProvider]:
    """Serve *scenes* as :data:`MODEL` while the context is open."""
    loop, found, ended = asyncio.new_event_loop(), list[FakeProvider](), asyncio.Event()
    ready = threading.Event()

    async def serve() -> None:
        async with fake_provider("anthropic-messages", scenes) as provider:
            found.append(provider)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()


def provider_env(provider: FakeProvider) -> Mapping[str, str]:
    """Return the environment variables by which a daemon reaches *provider*."""
    return {"ANTHROPIC_API_KEY": "sk-test", "ANTHROPIC_BASE_URL": provider.http.url, "INDUSAGI_MODEL": MODEL}
