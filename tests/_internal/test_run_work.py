"""Work that a pure module awaits."""

from __future__ import annotations

import asyncio
from threading import get_ident

import pytest

from sidecar._internal.run_work import RunWork, run_now


@pytest.mark.parametrize(("run", "is_here"), [(run_now, True), (asyncio.to_thread, False)])
async def test_work_runs_here_or_in_a_thread_and_its_error_reaches_the_caller(
    run: RunWork, is_here: bool
) -> None:
    assert (await run(get_ident) == get_ident()) is is_here
    assert await run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run(divmod, 7, 0)
