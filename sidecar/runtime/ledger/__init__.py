"""Who hears of a run: the hub that tells its events, and the one who keeps the latest snapshot."""

from sidecar.runtime.ledger.accumulator import SnapshotAccumulator
from sidecar.runtime.ledger.bus import RunEventHandler, RunLedger, Unsubscribe

__all__ = ["RunEventHandler", "RunLedger", "SnapshotAccumulator", "Unsubscribe"]
