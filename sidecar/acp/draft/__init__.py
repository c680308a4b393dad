"""The second version of the protocol, a changing draft; spoken where it is switched on and requested."""

from sidecar.acp.draft.version import DRAFT

__all__ = ["DRAFT"]
