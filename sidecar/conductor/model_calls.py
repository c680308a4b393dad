"""Model calls of a session: the head of every request, the wait before a call, the idle timeout during it.

Knows conversations and channels, and nothing of histories or engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from sidecar.conductor.brief import write_brief
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
        self,
        look: Callable[[], Coroutine[Any, Any, str]],
        rules: RuleFiles,
        tools: SessionTools,
        pins: Callable[[], str] = str,
        rule_tokens: Callable[[], int] = int,
    ) -> None:
        """Make the head.

        Args:
            look: describes the surroundings; it is called once, and must not raise.
            rules: the rule files.
            tools: the tools of the session.
            pins: returns the pinned passages as text.
            rule_tokens: returns the tokens of the user's rules that are sent beside the conversation.
        """
        self._look = look
        self._surroundings = ""
        self._looking: asyncio.Task[str] | None = None
        self._pins = pins
        self._rules = rules
        self._tools = tools
        self._rule_tokens = rule_tokens
        self._weighed: tuple[str, Sequence[ToolDescriptor], Overhead] | None = None

    def system(self, view: View | None = None) -> str:
        """Return the system prompt, with the rules as they were last read.

        Args:
            view: the entries that the request shows; None for the whole history.
        """
        if view is None or view.is_whole:
            return write_brief(self._surroundings, self._rules.text(), self._pins())
        shown = {(read.path, read.hash) for entry in view.entries for read in entry.reads}
        rules = self._rules.text(lambda each: (str(each.view.path), each.view.hash) in shown)
        return write_brief(self._surroundings, rules, self._pins())

    async def open(self) -> None:
        """Read the rules, and begin to look at the surroundings, which takes longer."""
        self._looking = asyncio.create_task(self._look())
        await self._rules.refresh()

    async def refresh(self) -> None:
        """Wait for the surroundings, and read the rules of the user and of the project as they are now."""
        if self._looking is not None:
            self._surroundings, self._looking = await self._looking, None
        await self._rules.refresh()

    def close(self) -> None:
        """Look no longer."""
        if self._looking is not None:
            self._looking.cancel()

    def rules(self) -> tuple[RuleFileUsage, ...]:
        """Return the rule files with their sizes."""
        return self._rules.usage()

    def overhead(self) -> Overhead:
        """Weigh the head; it is weighed again only when the system prompt or the tools change."""
        system, tools = self.system(), self._tools.descriptors()
        if self._weighed is None or self._weighed[:2] != (system, tools):
            self._weighed = (system, tools, overhead_of(system, tools))
        return replace(self._weighed[2], rules=self._rule_tokens())
