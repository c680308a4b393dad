"""Models of real providers: thin adapters on the SDKs, each an extra, each imported when first used.

What an adapter does not do is done once for all of them: mending the conversation, keys, trying again,
cancelling, typed errors, putting the answer together.
"""

from sidecar.llmgateway.providers.calling import Retrying
from sidecar.llmgateway.providers.connecting import is_installed
from sidecar.llmgateway.providers.patience import Patience
from sidecar.llmgateway.providers.serving import Address, Serving, address_of

__all__ = ["Address", "Patience", "Retrying", "Serving", "address_of", "is_installed"]
