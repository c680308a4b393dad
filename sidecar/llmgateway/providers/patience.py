"""How often and how soon a failed call is tried again. Pure; chance is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.llmgateway.contract import GatewayError

__all__ = ["Patience"]


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of trying again; times in milliseconds.

    A call is made *max_attempts* times at most. The first pause is about *first_ms*, each further one twice
    as long, none longer than *longest_ms*. A server that asks to be left alone longer than
    *longest_asked_ms* is not waited for: the user hears of it instead.
    """

    max_attempts: int = 6
    first_ms: int = 500
    longest_ms: int = 30_000
    longest_asked_ms: int = 120_000

    def pause_ms(self, attempt: int, error: GatewayError, chance: float) -> int | None:
        """Return how long to wait after failed *attempt* (1, 2, ...), or None to give up.

        Args:
            chance: in 0..1; spreads those who failed together over half of the pause.

        >>> from sidecar.llmgateway.contract import gateway_error
        >>> Patience().pause_ms(3, gateway_error("http", "busy", status=503), chance=1.0)
        2000
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        pause = min(self.longest_ms, self.first_ms * 2 ** (attempt - 1))
        jittered = int(pause * (1 + chance) / 2)
        if error.retry_after_ms is None:
            return jittered
        if error.retry_after_ms > self.longest_asked_ms:
            return None
        return max(error.retry_after_ms, jittered)
