"""A daemon over the fake service, for tests that need a real process: ``python fake_daemon.py``.

The order is the one the real daemon keeps: standard input and output first, everything heavy after.
"""

from sidecar.transport.stdio import take_stdio

FDS = take_stdio()

import sys  # noqa: E402  # after the protocol has its descriptors
from pathlib import Path  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))  # absent when Python was started with -P

from fake_editor import FAKE_INFO  # noqa: E402
from fake_service import FakeService  # noqa: E402
from fake_workspace import FakeWorkspace  # noqa: E402
from sidecar.server import LspOptions, serve_lsp  # noqa: E402
from sidecar.transport.lifetime import Lifetime, run  # noqa: E402
from sidecar.transport.streams import open_stdio  # noqa: E402


async def main(lifetime: Lifetime) -> int:
    """Serve the one client."""
    lifetime.watch_parent()
    stream = await open_stdio(FDS)
    backend = FakeService().behind(FakeWorkspace())
    return await serve_lsp(
        stream, LspOptions(info=FAKE_INFO, open_backend=lambda _options: backend), lifetime
    )


run(main)
