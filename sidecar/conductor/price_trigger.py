"""The trigger by price: compact once the cache saves more than the compaction costs.

A provider that keeps a cache still charges for each token that it reads there. With *N* tokens in a request
and *S* after a compaction, each later call reads *N - S* tokens less. The compaction itself costs once: the
summarising call reads *N* tokens and writes a summary of *D*, and the first call behind it writes *S* tokens
into the cache instead of reading them there. The prices are *c* for a cached token, *i* for a token that the
summarising call reads, *o* for an output token and *w* for a token that is new to the cache. With *R* calls
to come, a compaction pays from the size *N* on at which

    R * (N - S) * c  =  N * i + D * o + S * (w - c)

The number of calls to come is not known. A conversation is expected to go on for as long as it has gone on
since its last compaction, so *R* is the number of calls since then. For example with c = 0.30, i = 0.30,
o = 15, w = 3.75 dollars for a million tokens, S = 20,000, D = 6,000 and R = 50:

    N = (50 * 20,000 * 0.30 + 6,000 * 15 + 20,000 * 3.45) / (50 * 0.30 - 0.30) = 31,224

Each compaction shortens the conversation in view, so none comes before 36 % of the window are used beside
the system prompt and the tools; and none comes later than the window needs it. Where the prices or the cache
are not known, the window alone decides.
"""

from __future__ import annotations

from sidecar.llmgateway.contract import CostSheet


def find_paying_size(
    cost: CostSheet, *, after_tokens: int, summary_tokens: int, n_calls: int, is_prefix_cached: bool
) -> float | None:
    """Return the tokens of a request from which on a compaction pays, None where it never does.

    Args:
        cost: the prices of the model.
        after_tokens: the size of a request after a compaction.
        summary_tokens: the tokens that a model writes for the summary.
        n_calls: the calls that are expected to follow, 0 or more.
        is_prefix_cached: whether the summarising call reads the conversation from the cache.

    >>> sheet = CostSheet(3.0, 15.0, 0.30, 3.75)
    >>> ask = {"after_tokens": 20_000, "summary_tokens": 6_000, "is_prefix_cached": True}
    >>> round(find_paying_size(sheet, n_calls=50, **ask))
    31224
    """
    cached = cost.cache_read_per_mtok
    if cached is None or not cached < cost.input_per_mtok:
        return None
    written = cost.input_per_mtok if cost.cache_write_per_mtok is None else cost.cache_write_per_mtok
    saved_per_token = n_calls * cached - (cached if is_prefix_cached else cost.input_per_mtok)
    if saved_per_token <= 0:
        return None
    rewrite = summary_tokens * cost.output_per_mtok + after_tokens * (written - cached)
    return (n_calls * after_tokens * cached + rewrite) / saved_per_token
