"""Models of real providers: thin adapters on HTTP or an SDK, each an extra, each imported when first used.

The adapters translate; everything else is done once for all of them: sanitizing the conversation, keys,
retrying, cancelling, typed errors, assembling the answer.
"""

from sidecar.llmgateway.providers.serving import ApiAddress, ProviderModels, address_of, is_installed

__all__ = ["ApiAddress", "ProviderModels", "address_of", "is_installed"]
