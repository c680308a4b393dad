"""A provider on the loopback that does as the prompt says, for hours: it edits, runs, hangs, fails, talks.

The words are those of :data:`PROMPTS`. A request for a summary gets a short one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

from provider_fakes import WIRES, Asked, Called, Cut, Ended, Hang, Refused, Said, Scene, Spent, serve_http
from provider_fakes.http import Answer, FakeHttp
from sidecar.llmgateway.names import OPENAI_CHAT

__all__ = ["PROMPTS", "serve_model"]

PROMPTS: Final = ("talk at length", "read a.py", "edit a.py", "run a command", "search the files", "plan it")
"""What a user asks for; besides, the model is told to hang, to refuse and to break off."""

_PROSE: Final = tuple(f"Sentence {n} of a long answer about the parser and its tests. " for n in range(40))
_WORDS: Final = ("talk", "read", "edit", "run", "search", "plan", "hang", "refuse", "break off")
_SUMMARY: Final = "The user asked for edits of a.py. They were made. The tests pass."


@asynccontextmanager
async def serve_model() -> Any:
    """Serve the provider while the context is open; yields its address."""
    ids = count(1)

    def answer(asked: Asked) -> Answer:
        server.asked.clear()
        if not asked.path.endswith("/chat/completions"):
            return Answer((b"{}",), 404, {"content-type": "application/json"})
        scene = choose_scene(asked.json, lambda: f"c{next(ids)}")
        if isinstance(scene[0], Refused):
            body = json.dumps(WIRES[OPENAI_CHAT].refusal(scene[0])).encode()
            return Answer((body,), scene[0].status, {"content-type": "application/json"})
        return Answer(WIRES[OPENAI_CHAT].frames(scene))

    server: FakeHttp
    async with serve_http(answer) as server:
        yield server.url


def choose_scene(request: Any, new_id: Callable[[], str]) -> Scene:
    """Return what the model does with *request*: it goes by the words of the newest prompt."""
    messages = request["messages"]
    asked = text_of(next((m for m in reversed(messages) if m["role"] == "user"), {}))
    # A prompt that follows an interrupted one is sent in the same message.
    prompt = max((word for word in _WORDS if word in asked), key=asked.rfind, default="")
    size = sum(len(text_of(message)) for message in messages) // 4
    end: Scene = (Spent(size, 100), Ended())
    if not request.get("tools"):
        return (Said((_SUMMARY,)), *end)
    if messages[-1]["role"] == "tool":
        is_edit = "edit" in prompt and not any(
            call["function"]["name"] == "edit" for m in messages[-4:] for call in m.get("tool_calls") or ()
        )
        return (
            (called(new_id(), "edit", **an_edit(text_of(messages[-1]))), *end)
            if is_edit
            else (
                Said(("Done.",)),
                *end,
            )
        )
    if "hang" in prompt:
        return (Said(("Half an",)), Hang())
    if "refuse" in prompt:
        return (Refused(400, "the request is not to the taste of the model"),)
    if "break off" in prompt:
        return (Said(("Half an",)), Cut())
    tools: dict[str, tuple[str, dict[str, Any]]] = {
        "read": ("read", {"path": "a.py"}),
        "edit": ("read", {"path": "a.py"}),
        "run": ("bash", {"command": "seq 1 200; echo done >&2"}),
        "search": ("grep", {"pattern": "VALUE"}),
        "plan": ("todo", {"entries": [{"content": "do it", "status": "pending"}]}),
    }
    for word, (name, arguments) in tools.items():
        if word in prompt:
            return (called(new_id(), name, **arguments), Spent(size, 20), Ended("tool_calls"))
    return (Said(_PROSE), *end)


def an_edit(read: str) -> dict[str, str]:
    """Return the arguments that change the number in the file that was *read*."""
    numbers: Iterator[str] = (
        word for line in read.splitlines() if "VALUE = " in line for word in line.split()
    )
    old = next((word for word in numbers if word.isdigit() and len(word) > 3), "1000")
    return {"path": "a.py", "old_text": f"VALUE = {old}", "new_text": f"VALUE = {int(old) + 1}"}


def called(call_id: str, name: str, **arguments: Any) -> Called:
    """Return one tool call."""
    return Called(call_id, name, (json.dumps(arguments),))


def text_of(message: Any) -> str:
    """Return the text of a chat message."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
