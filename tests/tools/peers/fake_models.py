"""One streaming fake for all agents: it answers in whichever format it is asked, in a thread of its own.

It plays one task at a time: reads of files, with the tool of the agent for that, then an answer in deltas.
Calls that offer no tools are about something else, such as a title, and get a short answer.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from provider_fakes import WIRES, Asked, Called, Ended, FakeHttp, Said, Scene, Spent
from provider_fakes.http import Answer
from sidecar.llmgateway.contract import ApiKind

LAST_WORD: Final = "done."
FILES: Final = tuple(f"file_{n}.txt" for n in range(50))
"""The files that are read, in the folder of the project: an agent may stop a model that repeats itself."""

_FORMATS: Final[Mapping[str, ApiKind]] = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic-messages",
    ":streamGenerateContent": "google-generate",
}
_PATH_NAMES: Final = ("path", "filePath", "file_path", "absolute_path")


@dataclass(frozen=True, slots=True)
class Task:
    """What the model does: *n_reads* calls that read a file each, then an answer in *n_deltas* deltas."""

    n_reads: int = 0
    n_deltas: int = 5


class FakeModels:
    """The fake; *url* is its address once it is entered.

    Attributes:
        n_calls: the model calls of the task so far.
        first_call_s: the time of the first of them, by ``time.perf_counter``.
        problem: why the task could not be played, None when it could.
    """

    def __init__(self) -> None:
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake models", daemon=True)
        self._http = FakeHttp(self._answer)
        self.play(Task(), Path())

    def __enter__(self) -> FakeModels:
        """Listen on the loopback interface."""
        self._thread.start()
        self._stop = asyncio.run_coroutine_threadsafe(self._http.start(), self._loop).result()
        self.url = self._http.url
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and end the connections."""

        async def stop() -> None:
            await self._stop()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def play(self, task: Task, project: Path) -> None:
        """Play *task* in the folder *project* from now on, from its beginning."""
        self._project = project
        self._task = task
        self._http.asked.clear()
        self.n_calls = 0
        self.first_call_s = 0.0
        self.problem: str | None = None

    def _answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        api = next((api for end, api in _FORMATS.items() if path.endswith(end)), None)
        if asked.method != "POST" or api is None:
            return Answer(
                (b'{"error": {"message": "no such page"}}',), 404, {"content-type": "application/json"}
            )
        if not (tools := dict(_tools_in(asked.json))):
            return Answer(WIRES[api].frames((Said(("A title",)), Spent(9, 2), Ended())))
        self.first_call_s = self.first_call_s or time.perf_counter()
        self.n_calls += 1
        return Answer(WIRES[api].frames(self._scene(tools)))

    def _scene(self, tools: Mapping[str, Mapping[str, Any]]) -> Scene:
        task = self._task
        if self.n_calls <= task.n_reads:
            if (call := reading_call(tools, str(self._project / FILES[self.n_calls - 1]))) is None:
                self.problem = f"no tool of it reads a file: {', '.join(tools)}"
            else:
                name, arguments = call
                called = Called(f"call_{self.n_calls}", name, (json.dumps(arguments),))
                return (called, Spent(1_000, 20), Ended("tool_calls"))
        words = tuple(f"word {n} " for n in range(task.n_deltas - 1))
        return (Said((*words, LAST_WORD)), Spent(1_000, task.n_deltas), Ended())


def reading_call(tools: Mapping[str, Mapping[str, Any]], file: str) -> tuple[str, dict[str, Any]] | None:
    """Return the call that reads *file*: the name of a tool and its arguments; None without such a tool.

    Args:
        tools: the schemas of the arguments of all tools, by name.
        file: the absolute path of the file.

    >>> reading_call({"read": {"properties": {"filePath": {}}}}, "/a"), reading_call({"todo": {}}, "/a")
    (('read', {'filePath': '/a'}), None)
    """
    for name in ("read", "read_file"):
        members = tools.get(name, {}).get("properties", {})
        for member in _PATH_NAMES:
            if member in members:
                return name, {member: file}
    # Codex has no tool that reads files: its model runs commands.
    commands = {"exec_command": {"cmd": f"cat {file}"}, "shell_command": {"command": f"cat {file}"}}
    return next(((name, arguments) for name, arguments in commands.items() if name in tools), None)


def _tools_in(body: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tools of a request in any format, by name, with the schema of their arguments."""
    offered: Sequence[Any] = body.get("tools") or ()
    for tool in offered:
        for each in tool.get("functionDeclarations") or (tool.get("function") or tool,):
            schemas = (each.get(name) for name in ("parameters", "parametersJsonSchema", "input_schema"))
            if "name" in each:
                yield each["name"], next(filter(None, schemas), {})
