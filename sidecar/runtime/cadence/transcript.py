"""The messages of a run: an immutable sequence that is cheap to extend, with a last turn that may be open.

It equals the tuple of the same turns. An older version never sees what was added later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, overload

from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.llmgateway.contract import ToolTurn, Turn
from sidecar.runtime.cadence.draft import Draft
from sidecar.runtime.wire import Outgoing, is_blank

__all__ = ["OpenTurn", "Transcript"]

OpenTurn: TypeAlias = Draft | ToolTurn
"""A turn that is not finished: an answer being written, or a round of tools not yet complete."""


class Transcript(Sequence[Turn]):
    """The finished turns of a conversation, then at most one open turn.

    Adding a turn costs what that turn costs, however long the conversation is (failure B-R18).

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> hi = UserTurn((TextBlock("hi"),))
    >>> Transcript.of((hi,)) == (hi,), Transcript.of(()).with_turns((hi, hi))[1:]
    (True, (UserTurn(blocks=(TextBlock(text='hi'),)),))
    """

    __slots__ = ("_finished", "_open", "_outgoing")

    def __init__(
        self, finished: AppendOnlySeq[Turn], outgoing: Outgoing, open_turn: OpenTurn | None = None
    ) -> None:
        self._finished = finished
        self._outgoing = outgoing
        self._open = open_turn

    @classmethod
    def of(cls, messages: Sequence[Turn]) -> Transcript:
        """Return *messages* as a transcript; itself if it is one, else at the cost of its length.

        A blank assistant turn at the end is an answer that nothing has been written of yet.
        """
        if isinstance(messages, Transcript):
            return messages
        transcript = cls(AppendOnlySeq(), _NOTHING)
        if messages and is_blank(messages[-1]):
            return transcript.with_turns(messages[:-1]).with_open(Draft(messages[-1].blocks))
        return transcript.with_turns(messages)

    @property
    def finished(self) -> AppendOnlySeq[Turn]:
        """The turns that will not change any more."""
        return self._finished

    @property
    def outgoing(self) -> Outgoing:
        """What a provider is sent of the finished turns."""
        return self._outgoing

    @property
    def open(self) -> OpenTurn | None:
        """The turn that is not finished, or None."""
        return self._open

    def with_open(self, turn: OpenTurn) -> Transcript:
        """Return the finished turns with *turn* as the open one."""
        return Transcript(self._finished, self._outgoing, turn)

    def with_turns(self, turns: Iterable[Turn]) -> Transcript:
        """Return the finished turns and *turns*; an open turn is left out."""
        added = tuple(turns)
        return Transcript(self._finished.extended(added), self._outgoing.extended(added))

    def _last(self) -> tuple[Turn, ...]:
        if self._open is None:
            return ()
        return (self._open.turn if isinstance(self._open, Draft) else self._open,)

    def __len__(self) -> int:
        return len(self._finished) + (self._open is not None)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} is outside of a conversation of {len(self)} turns")
        if at == len(self._finished) and self._open is not None:
            return self._last()[0]
        return self._finished[at]

    def _slice(self, start: int, stop: int, step: int) -> tuple[Turn, ...]:
        if step != 1:
            return tuple(self[at] for at in range(start, stop, step))
        last = self._last() if start <= len(self._finished) < stop else ()
        return (*self._finished[start:stop], *last)

    def __iter__(self) -> Iterator[Turn]:
        yield from self._finished
        yield from self._last()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Transcript | tuple):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, Transcript | tuple):
            return NotImplemented
        return (*self, *other)

    def __radd__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, tuple):
            return NotImplemented
        return (*other, *self)

    def __repr__(self) -> str:
        return f"Transcript({tuple(self)!r})"


_NOTHING: Final = Outgoing()
