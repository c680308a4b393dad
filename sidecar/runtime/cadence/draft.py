"""The assistant turn that is still being written: a log of emissions, folded only when somebody looks.

A delta costs the same however long the turn already is (failure B-R18). It never decides what a stop means.
"""

from __future__ import annotations

from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.llmgateway.contract import AssistantTurn, Block, DoneEmission, Emission
from sidecar.runtime.cadence.fold import fold_all, seal_call
from sidecar.runtime.wire import is_blank, with_distinct_ids

__all__ = ["Draft"]


class Draft:
    """An open assistant turn; immutable.

    >>> from sidecar.llmgateway.contract import TextEmission
    >>> Draft().folded(TextEmission("Hel")).folded(TextEmission("lo")).turn
    AssistantTurn(blocks=(TextBlock(text='Hello'),))
    """

    __slots__ = ("_base", "_log", "_turn")

    def __init__(self, base: tuple[Block, ...] = (), log: AppendOnlySeq[Emission] | None = None) -> None:
        self._base = base
        self._log: AppendOnlySeq[Emission] = AppendOnlySeq() if log is None else log
        self._turn: AssistantTurn | None = None

    def folded(self, emission: Emission) -> Draft:
        """Return this draft with one more emission; a done emission stands for all before it."""
        if isinstance(emission, DoneEmission):
            return Draft(tuple(emission.reply.blocks))
        return Draft(self._base, self._log.extended((emission,)))

    @property
    def turn(self) -> AssistantTurn:
        """The turn as far as it is written; argument text is raw."""
        if self._turn is None:
            self._turn = AssistantTurn(fold_all(self._base, self._log))
        return self._turn

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been said yet."""
        return is_blank(self.turn)

    def sealed(self) -> AssistantTurn:
        """Return the finished turn: streamed arguments parsed (R6), every call under an id of its own.

        What a done emission gave is final: its input may be a string and then stays one.
        """
        n_given = len(self._base)
        blocks = tuple(
            block if at < n_given and block is self._base[at] else seal_call(block)
            for at, block in enumerate(self.turn.blocks)
        )
        return with_distinct_ids(AssistantTurn(blocks))
