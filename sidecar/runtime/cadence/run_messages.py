"""The messages of a run: an immutable sequence that is cheap to extend, with a last turn that may be open.

They equal the tuple of the same turns. An older version never sees later turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, overload

from sidecar.conversation.history import AppendOnlySeq
from sidecar.llmgateway.contract import ToolTurn, Turn
from sidecar.runtime.cadence.fold import Draft
from sidecar.runtime.wire import Outgoing, is_blank

OpenTurn: TypeAlias = Draft | ToolTurn
"""A turn that is not finished: an answer being written, or a round of tools not yet complete."""


class RunMessages(Sequence[Turn]):
    """The finished turns of a conversation, then at most one open turn.

    Adding a turn costs no more than that turn, however long the conversation is.

    Attributes:
        finished: the turns that will not change any more.
        outgoing: the finished turns as a provider is sent them.
        open: the turn that is not finished, or None.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> hi = UserTurn((TextBlock("hi"),))
    >>> RunMessages.of((hi,)) == (hi,), RunMessages.of(()).with_turns((hi, hi))[1:]
    (True, (UserTurn(blocks=(TextBlock(text='hi'),)),))
    """

    __slots__ = ("finished", "open", "outgoing")

    def __init__(
        self, finished: AppendOnlySeq[Turn], outgoing: Outgoing, open_turn: OpenTurn | None = None
    ) -> None:
        self.finished = finished
        self.outgoing = outgoing
        self.open = open_turn

    @classmethod
    def of(cls, messages: Sequence[Turn]) -> RunMessages:
        """Return *messages* as run messages: at no cost if they are, else at the cost of their length.

        A blank assistant turn at the end is an open answer.
        """
        if isinstance(messages, RunMessages):
            return messages
        result = cls(AppendOnlySeq(), _NOTHING)
        if messages and is_blank(messages[-1]):
            return result.with_turns(messages[:-1]).with_open(Draft(messages[-1].blocks))
        return result.with_turns(messages)

    def with_open(self, turn: OpenTurn) -> RunMessages:
        """Return the finished turns with *turn* as the open one."""
        return RunMessages(self.finished, self.outgoing, turn)

    def with_turns(self, turns: Iterable[Turn]) -> RunMessages:
        """Return the finished turns and *turns*; an open turn is left out."""
        added = tuple(turns)
        return RunMessages(self.finished.extended(added), self.outgoing.extend(added))

    def _last(self) -> tuple[Turn, ...]:
        if self.open is None:
            return ()
        return (self.open.turn if isinstance(self.open, Draft) else self.open,)

    def __len__(self) -> int:
        return len(self.finished) + (self.open is not None)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return tuple(self[at] for at in range(start, stop, step))
            last = self._last() if start <= len(self.finished) < stop else ()
            return (*self.finished[start:stop], *last)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index {index} is outside of a conversation of {len(self)} turns")
        if at == len(self.finished) and self.open is not None:
            return self._last()[0]
        return self.finished[at]

    def __iter__(self) -> Iterator[Turn]:
        yield from self.finished
        yield from self._last()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, RunMessages | tuple):
            return len(self) == len(other) and tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, RunMessages | tuple):
            return NotImplemented
        return (*self, *other)

    def __radd__(self, other: Sequence[Turn]) -> tuple[Turn, ...]:
        if not isinstance(other, tuple):
            return NotImplemented
        return (*other, *self)

    def __repr__(self) -> str:
        return f"RunMessages({tuple(self)!r})"


_NOTHING: Final = Outgoing()
