"""The second edition of the protocol, a draft that moves; spoken where it is switched on and asked for."""

from sidecar.acp.draft.version import DRAFT

__all__ = ["DRAFT"]
