"""What the compactor needs of its session, which is each time asked anew. Values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidecar.conductor.engines.base import Frame, FreshFiles, SessionEngine
from sidecar.llmgateway.contract import ModelCard, Turn
from sidecar.runtime.contract import ModelInvoker

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the compactor needs of its session, each asked for when needed.

    *frame* weighs the conversation as it is now; *own_engine* names the session's own; *reseat* gives the
    agent another conversation; *uri_of* names a file that the model named by a path.
    """

    frame: Callable[[], Frame]
    own_engine: Callable[[], str]
    engine: Callable[[str], SessionEngine]
    reseat: Callable[[Sequence[Turn]], None]
    summarizer: Callable[[], tuple[ModelInvoker | None, ModelCard | None]]
    fresh: FreshFiles
    uri_of: Callable[[str], str]
    restored: Callable[[Sequence[str], str], None]
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    deadline_s: float
