"""A total over a conversation that grows: a turn is weighed once, another conversation from its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidecar.llmgateway.contract import Turn

__all__ = ["RunningTotal"]


class RunningTotal:
    """The sum of *weigh* over the turns of one list; the list may only grow, or be another one."""

    def __init__(self, weigh: Callable[[Turn], int]) -> None:
        self._weigh = weigh
        self._turns: Sequence[Turn] = ()
        self._n_weighed = 0
        self._total = 0

    def of(self, turns: Sequence[Turn]) -> int:
        """Return the total over *turns*."""
        if turns is not self._turns or len(turns) < self._n_weighed:
            self._turns, self._n_weighed, self._total = turns, 0, 0
        for index in range(self._n_weighed, len(turns)):
            self._total += self._weigh(turns[index])
        self._n_weighed = len(turns)
        return self._total
