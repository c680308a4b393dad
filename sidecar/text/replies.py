"""Replies of models, as all summarisers read them: the text, and how the reply ended.

A reply comes as emissions. The text of the done reply is the whole one; where a channel ends without it, the
deltas together are. Reasoning and calls of tools are left out. Each engine decides on its own about a reply
that was cut off, refused or empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from sidecar.llmgateway.contract import (
    AssistantTurn,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    StopReason,
    TextEmission,
    Usage,
    UsageEmission,
    WithdrawnEmission,
    join_texts,
)


class ReplyReader(Struct):
    """A reply as far as it has come.

    Attributes:
        deltas: its text, in pieces.
        done: the whole reply, None before it has come.
        stop: the way it ended.
        usage: the usage that was reported last.
        error: the error that it ended with, None for none.
    """

    deltas: list[str] = field(default_factory=list)
    done: AssistantTurn | Reply | None = None
    stop: StopReason = "complete"
    usage: Usage | None = None
    error: GatewayError | None = None

    @classmethod
    def of(cls, emissions: Iterable[Emission]) -> ReplyReader:
        """Return the reader of *emissions*.

        >>> ReplyReader.of([TextEmission("a"), TextEmission("b"), StopEmission("max_output")]).text
        'ab'
        """
        reader = cls()
        any(map(reader.add, emissions))
        return reader

    @property
    def text(self) -> str:
        """The text of the whole reply, which wins even when it is empty, else the deltas together."""
        if self.done is None:
            return "".join(self.deltas)
        return join_texts(self.done.blocks)

    @property
    def is_complete(self) -> bool:
        """Whether the model ended the reply by itself."""
        return self.error is None and self.stop in ("complete", "tool_calls")

    def add(self, emission: Emission) -> bool:
        """Take one more *emission*; return whether it is the last one."""
        match emission:
            case TextEmission(delta=delta):
                self.deltas.append(delta)
            case UsageEmission(usage=usage):
                self.usage = usage
            case StopEmission(stop=stop):
                self.stop = stop
            case WithdrawnEmission():
                self.deltas.clear()
            case ErrorEmission(error=error):
                self.error = error
            case DoneEmission(reply=reply, usage=usage):
                self.done = reply
                self.stop = reply.stop if isinstance(reply, Reply) else self.stop
                self.usage = usage or (reply.usage if isinstance(reply, Reply) else None) or self.usage
            case _:
                pass
        return self.done is not None or self.error is not None
