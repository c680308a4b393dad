"""The fixed setup of an agent (facts 1.2)."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.llmgateway.contract import ThinkingLevel
from sidecar.runtime.contract.tools import ToolBox

__all__ = ["DEFAULT_MAX_TURNS", "NO_COMPACTION", "AgentConfig", "CompactionPolicy"]

DEFAULT_MAX_TURNS = 64
"""Model calls that one submit may make when ``AgentConfig.max_turns`` is None."""


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When ``runtime.memory`` condenses: at *trigger_ratio* of the window, keeping *keep_recent* turns.

    ``keep_recent`` counts turns here; in ``window_budget`` the same word counts tokens.
    """

    trigger_ratio: float
    keep_recent: int


NO_COMPACTION = CompactionPolicy(trigger_ratio=float("inf"), keep_recent=0)
"""The policy that never compacts. ``AgentConfig.compaction = None`` means the default policy instead."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The setup of one agent; ``None`` leaves a knob to its default."""

    model: str
    system: str | None = None
    tools: ToolBox | None = None
    max_output_tokens: int | None = None
    thinking: ThinkingLevel | None = None
    compaction: CompactionPolicy | None = None
    max_turns: int | None = None
