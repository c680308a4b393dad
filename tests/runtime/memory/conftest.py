"""Short spellings of turns, and the models of these tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    CostSheet,
    ModelCard,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)


class Turns:
    """Builders of turns."""

    def user(self, text: str) -> UserTurn:
        """One text block of the user's."""
        return UserTurn((TextBlock(text),))

    def agent(self, text: str) -> AssistantTurn:
        """One text block of the model's."""
        return AssistantTurn((TextBlock(text),))

    def calls(self, *ids: str, name: str = "read", **arguments: Any) -> AssistantTurn:
        """Calls of one tool."""
        return AssistantTurn(tuple(ToolCallBlock(each, name, dict(arguments)) for each in ids))

    def results(self, *ids: str, output: Any = "ok", is_error: bool = False) -> ToolTurn:
        """Results of those calls."""
        return ToolTurn(tuple(ToolResultBlock(each, output, is_error) for each in ids))

    def spelled(self, letters: str, size: int = 4) -> list[Turn]:
        """``u`` user, ``a`` agent, ``c`` call, ``t`` its result, ``b`` two calls, ``p``, ``q`` their results.

        Every turn has about *size* characters.
        """
        turns: list[Turn] = []
        for index, letter in enumerate(letters):
            text = f"{letter}{index}".ljust(size, ".")
            match letter:
                case "u":
                    turns.append(self.user(text))
                case "a":
                    turns.append(self.agent(text))
                case "c":
                    turns.append(self.calls(f"c{index}", path=text))
                case "t":
                    turns.append(self.results(f"c{index - 1}", output=text))
                case "b":
                    turns.append(self.calls(f"p{index}", f"q{index}", path=text))
                case _:
                    start = letters.rindex("b", 0, index)
                    turns.append(self.results(f"{letter}{start}", output=text))
        return turns


@pytest.fixture
def turns() -> Turns:
    """Builders of turns."""
    return Turns()


@pytest.fixture
def card() -> Callable[[int], ModelCard]:
    """A model with a window of so many tokens."""

    def make(window: int) -> ModelCard:
        return ModelCard(
            "small",
            "mock",
            "mock",
            "Small",
            context_window=window,
            max_output_tokens=4_096,
            modalities=("text",),
            reasoning=False,
            cost=CostSheet(0, 0),
        )

    return make
