"""One model call as a stream of signals."""

from sidecar.runtime.turn.driver import drive_turn

__all__ = ["drive_turn"]
