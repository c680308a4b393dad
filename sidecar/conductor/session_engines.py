"""The compaction engines of one session: an instance of each, made when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.engines.contract import CompactionRequest, SessionEngine
from sidecar.conductor.records import SessionInfo

_MAX_SIZE: Final = 1e12
_SHARES: Final = ("triggerRatio", "tier1Ratio", "tier2Ratio")
_SIZES: Final = (
    *("keepRecent", "reserveTokens", "maxEvents"),
    *("truncateChars", "summaryMaxTokens", "minEvents"),
)
THRESHOLDS: Final[Mapping[str, float]] = dict.fromkeys(_SHARES, 1.0) | dict.fromkeys(_SIZES, _MAX_SIZE)
"""The largest value of each threshold of the engines, by its name on the wire; the least is 0."""


def check_policy(policy: Mapping[str, float]) -> dict[str, float]:
    """Return *policy*, thresholds by their wire names, as a dict.

    A session may change its engine, so that the thresholds of every engine are taken.

    Raises InvalidInput for an unknown name, and for a number outside of the range of its threshold.

    >>> check_policy({"triggerRatio": 0.5})
    {'triggerRatio': 0.5}
    """
    for name, value in policy.items():
        most = THRESHOLDS.get(name)
        if most is None:
            raise InvalidInput(
                f"no threshold {name!r} in policy", hint=f"known ones: {', '.join(THRESHOLDS)}"
            )
        if not 0 <= value <= most:
            raise InvalidInput(f"policy.{name} is {value}", hint=f"give a number from 0 to {most:g}")
    return dict(policy)


class SessionEngines:
    """The engines of one session; *info* returns the session's values as they are now."""

    def __init__(
        self, factories: Mapping[str, Callable[[], SessionEngine]], info: Callable[[], SessionInfo]
    ) -> None:
        self._factories = factories
        self._info = info
        self._made: dict[str, SessionEngine] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the engines on offer."""
        return tuple(self._factories)

    @property
    def own_name(self) -> str:
        """The name of the session's own engine."""
        return self._info().engine

    @property
    def own(self) -> SessionEngine:
        """The session's own engine."""
        return self.get(self.own_name)

    def get(self, name: str) -> SessionEngine:
        """Return the instance of the engine *name*.

        A compaction that another build stored may name an engine that is not on offer here. Then the
        session's own engine is used.
        """
        if name not in self._made:
            self._made[name] = self._factories.get(name, self._factories[self.own_name])()
        return self._made[name]

    def find_name(self, name: str | None) -> str:
        """Return *name*, or the session's own for None. Raises InvalidInput for an unknown one."""
        found = name or self.own_name
        if found not in self._factories:
            raise InvalidInput(f"no engine {found!r}", hint=f"known engines: {', '.join(self._factories)}")
        return found

    def resolve(self, request: CompactionRequest) -> CompactionRequest:
        """Return *request* with its engine named, and the session's policy below its own.

        Raises InvalidInput for an unknown engine and a policy outside its range.
        """
        policy = {**self._info().policy, **check_policy(request.policy)}
        return replace(request, engine=self.find_name(request.engine), policy=policy)

    def automatic(self) -> CompactionRequest:
        """Return the request of a compaction that the session makes by itself."""
        return CompactionRequest(engine=self.own_name, force=False, policy=self._info().policy)
