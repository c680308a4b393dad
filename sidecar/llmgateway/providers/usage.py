"""What a call cost, the same for every provider: input without the cache tiers. Pure."""

from __future__ import annotations

from math import isfinite

from sidecar.llmgateway.contract import Usage

__all__ = ["token_count", "usage_of"]


def usage_of(
    prompt: object, output: object, *, cache_read: object = None, cache_write: object = None
) -> Usage:
    """Return the usage of a call whose *prompt* tokens include the cached ones.

    SDKs check nothing: a figure that is not a number counts as 0.

    >>> usage_of(100, 20, cache_read=64)
    Usage(input_tokens=36, output_tokens=20, cache_read_tokens=64, cache_write_tokens=None)
    """
    read, write = token_count(cache_read), token_count(cache_write)
    return Usage(max(0, token_count(prompt) - read - write), token_count(output), read or None, write or None)


def token_count(value: object) -> int:
    """Return *value* as a number of tokens, 0 when it is not one.

    >>> token_count(12), token_count(12.0), token_count("12"), token_count(None)
    (12, 12, 0, 0)
    """
    if isinstance(value, float) and isfinite(value):
        value = int(value)
    return max(0, value) if isinstance(value, int) else 0
