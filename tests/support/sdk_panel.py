"""A panel on the Python SDK of the Agent Client Protocol, which no module imports before its tests run.

The SDK builds some hundred classes when it is imported, for a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import RequestError, schema, spawn_agent_process

__all__ = ["RequestError"]

PATIENCE_S = 20.0
LINE_BYTES = 32 * 1024 * 1024


class SdkPanel:
    """An editor's side of the SDK: keeps the updates, has unsaved text, and allows everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.unsaved: dict[str, str] = {}
        self.fields: Mapping[str, Any] = {}
        self._news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self._news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(str(tool_call.title))
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(
        self, message: str, mode: Any, **kwargs: Any
    ) -> schema.AcceptElicitationResponse:
        self.asked.append(message)
        self.fields = mode.requested_schema.properties
        return schema.AcceptElicitationResponse(action="accept", content={"q1": ["logs"]})

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> schema.ReadTextFileResponse:
        if path not in self.unsaved:
            raise RequestError(-32002, "no such file")
        return schema.ReadTextFileResponse(content=self.unsaved[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> None:
        self.unsaved.pop(path, None)
        Path(path).write_text(content)  # noqa: ASYNC240

    async def wait_for(self, text: str) -> None:
        """Return once the agent has written *text*."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.text():
                self._news.clear()
                await self._news.wait()

    def updates_of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def text(self) -> str:
        return "".join(update.content.text for update in self.updates_of("agent_message_chunk"))

    async def ask(self, agent: Any, sid: str, words: str) -> Any:
        """Send a prompt and return the answer to it, which comes when its turn has ended."""
        block = schema.TextContentBlock(type="text", text=words)
        return await agent.prompt(session_id=sid, prompt=[block])


@asynccontextmanager
async def connected_agent(
    panel: SdkPanel, *command: str, env: Mapping[str, str], **options: object
) -> AsyncIterator[Any]:
    """Give an agent that has shaken hands with *panel*; its process ends with 0 when its input does."""
    client: Any = panel
    how: Any = {"transport_kwargs": {"limit": LINE_BYTES}, "use_unstable_protocol": True}  # for forms
    async with spawn_agent_process(client, *command, env=env, **how) as (agent, process):
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        capabilities = schema.ClientCapabilities(fs=files, elicitation=forms)
        answer = await agent.initialize(65535, client_capabilities=capabilities, sidecar=options)
        assert answer.protocol_version == 1
        yield agent
    assert process.returncode == 0
