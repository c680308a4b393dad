"""The README's examples are Python, and those that need no daemon run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sidecar_client
from sidecar_client import reject

README = Path(sidecar_client.__file__).parents[1] / "README.md"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_every_example_compiles() -> None:
    assert len([compile(text, README, "exec") for text in examples()]) == 5


async def test_the_examples_without_a_daemon_run() -> None:
    namespace: dict[str, Any] = {}
    for text in examples()[2:]:
        exec(text, namespace)
    await namespace["test_my_script"]()
    assert namespace["reject"] is reject
