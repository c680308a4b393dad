"""Work that may take long: a pure module awaits it, and its caller decides where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class RunWork(Protocol):
    """Calls a function, here or in a thread, and returns its result."""

    async def __call__(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call *work*."""
        ...


async def run_now(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call *work* here."""
    return work(*args, **kwargs)
