"""Indexes: everything that is known about a conversation, as states folded over its entries.

There is one pattern. A *step* takes the state so far and one entry and returns the next state. While a
history only grows the state is advanced by its new entries; when the history was moved, it is folded again
from the start. So no undo, rewind, drop, fork or load has to remember to correct anything.

An index may reach through summaries: then the entries that a summary stands for are folded first, marked as
no longer in view, and nothing that was ever said is lost to it.

Cost: an advance costs the new entries, a move costs the path. A step never awaits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from sidecar.conversation.entries import Entry
from sidecar.conversation.history import History

S = TypeVar("S")


class Index(Generic[S]):
    """A state that follows a history.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> prompts = Index(lambda: 0, lambda n, entry, in_view: n + (entry.kind == "user"))
    >>> hello = History([Entry(UserTurn((TextBlock("hello"),)), "user")])
    >>> prompts.of(hello), prompts.of(hello.extended(hello)), prompts.of(History())
    (1, 2, 0)
    """

    def __init__(
        self,
        start: Callable[[], S],
        step: Callable[[S, Entry, bool], S],
        *,
        reaches_folded: bool = False,
    ) -> None:
        """Make an index.

        Args:
            start: makes the state of an empty conversation.
            step: returns the state after one more entry. It owns the state it is given and may change and
                return it. Its last argument says whether the model still sees the entry.
            reaches_folded: whether entries behind summaries are folded as well, as not in view.
        """
        self._start = start
        self._step = step
        self._reaches_folded = reaches_folded
        self._history = History()
        self._state = start()

    def of(self, history: History) -> S:
        """Return the state of *history*."""
        added = history.since(self._history)
        if added is None:
            self._state, added = self._start(), tuple(history)
        for entry in added:
            if entry.kind == "summary" and self._reaches_folded:
                for folded in history.unfold(entry):
                    self._state = self._step(self._state, folded, False)
            self._state = self._step(self._state, entry, True)
        self._history = history
        return self._state
