"""Model calls of a session: the head of every request, the wait before a call, the idle timeout during it.

Knows conversations and channels, and nothing of histories or engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path, PurePath
from typing import Final

from sidecar.conductor.context import Overhead, overhead_of
from sidecar.conductor.contract import RuleFileUsage
from sidecar.conductor.engines.contract import View
from sidecar.conductor.ports import SessionTools
from sidecar.conductor.rule_files import RuleFiles
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    Emission,
    ToolDescriptor,
    emissions_of,
    gateway_error,
)

_BRIEF: Final = """\
You are a coding agent beside an editor. You work below the folder {cwd} with the tools you are given.

- Look before you answer: read the files and search; cite places as path:line.
- A read shows a file as it is now, unsaved changes included. When a file changed since you read \
it, read it again before you edit it.
- Edit in small steps. Changing files and running commands asks the user first; a refusal is an answer.
- An old part of the conversation may be condensed into a digest. What it says still holds; read files \
again rather than guess what they held."""


def system_prompt(cwd: PurePath, rules: str, pins: str = "") -> str:
    """Return the system prompt for a session in *cwd*.

    Args:
        cwd: the session's folder.
        rules: the text of the rule files, or empty.
        pins: the passages that the user pinned, or empty.

    >>> system_prompt(PurePath("/project"), "").splitlines()[0][-20:]
    'tools you are given.'
    """
    told = f"Rules follow. Where two of them disagree, the later one counts.\n\n{rules}" if rules else ""
    return "\n\n".join(filter(None, (_BRIEF.format(cwd=cwd), told, pins)))


def call_when_ready(
    prepare: Callable[[], Awaitable[Conversation]], call: Callable[[Conversation], Channel]
) -> Channel:
    """Return the channel of a *call* that is made once *prepare* has returned the conversation to send.

    An exception of either one ends the channel.
    """

    async def emissions() -> AsyncGenerator[Emission, None]:
        async with emissions_of(call(await prepare())) as inner:
            async for emission in inner:
                yield emission

    return channel_of(emissions)


def with_idle_timeout(channel: Channel, timeout_s: float) -> Channel:
    """Return *channel* with a limit on the time between two emissions, so that no turn waits for ever.

    When *timeout_s* seconds pass without an emission, the call is closed and the channel raises a
    GatewayError. The length of the whole call is not limited.
    """

    async def watch_emissions() -> AsyncGenerator[Emission, None]:
        async with emissions_of(channel) as emissions:
            while True:
                try:
                    async with asyncio.timeout(timeout_s) as limit:
                        emission = await anext(emissions)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if not limit.expired():  # raised by the call itself
                        raise
                    text = f"the model sent nothing for {timeout_s:g} s; try again, or choose another model"
                    raise gateway_error("transport", text, cause=error) from None
                yield emission

    return channel_of(watch_emissions)


class RequestHead:
    """The part of every request that is not conversation: the system prompt with the rules, and the tools."""

    def __init__(
        self, cwd: Path, rules: RuleFiles, tools: SessionTools, pins: Callable[[], str] = str
    ) -> None:
        self._cwd = cwd
        self._pins = pins
        self._rules = rules
        self._tools = tools
        self._weighed: tuple[str, Sequence[ToolDescriptor], Overhead] | None = None

    def system(self, view: View | None = None) -> str:
        """Return the system prompt, with the rules as they were last read.

        Args:
            view: the entries that the request shows; None for the whole history.
        """
        if view is None or view.is_whole:
            return system_prompt(self._cwd, self._rules.text(), self._pins())
        shown = {(read.path, read.hash) for entry in view.entries for read in entry.reads}
        rules = self._rules.text(lambda each: (str(each.view.path), each.view.hash) in shown)
        return system_prompt(self._cwd, rules, self._pins())

    async def refresh_rules(self) -> None:
        """Read the rules of the user and of the project as they are now."""
        await self._rules.refresh()

    def rules(self) -> tuple[RuleFileUsage, ...]:
        """Return the rule files with their sizes."""
        return self._rules.usage()

    def overhead(self) -> Overhead:
        """Weigh the head; it is weighed again only when the system prompt or the tools change."""
        system, tools = self.system(), self._tools.descriptors()
        if self._weighed is None or self._weighed[:2] != (system, tools):
            self._weighed = (system, tools, overhead_of(system, tools))
        return self._weighed[2]
