"""``offline-1``, the embedded model: no network, no key, the same answer every time.

It turns a prompt into tool calls by its form, and cites the lines of their results. Every answer states that
it does not reason. It writes no summaries.
"""

from sidecar.llmgateway.offline.model import offline_model

__all__ = ["offline_model"]
