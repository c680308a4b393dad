"""What a call cost, the same for every provider: input without the cache tiers. Pure."""

from __future__ import annotations

from sidecar.llmgateway.contract import Usage

__all__ = ["usage_of"]


def usage_of(
    prompt: int | None, output: int | None, *, cache_read: int | None = 0, cache_write: int | None = 0
) -> Usage:
    """Return the usage of a call whose *prompt* tokens include what the cache held; None counts as 0.

    >>> usage_of(100, 20, cache_read=64)
    Usage(input_tokens=36, output_tokens=20, cache_read_tokens=64, cache_write_tokens=None)
    """
    read, write = cache_read or 0, cache_write or 0
    return Usage(max(0, (prompt or 0) - read - write), output or 0, read or None, write or None)
