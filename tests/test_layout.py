"""The tests of each module are found: by its name, by an import in the tests of its folder, or in a table.

``sidecar/runtime/dispatch.py`` is tested in ``tests/runtime/test_dispatch.py``. A module that no test of its
folder names or imports, because it is reached through another one, stands in ``TESTED_IN``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from repository import ONE_TEST, ROOT, modules

TESTS = ROOT / "tests"

TESTED_IN = {
    "conductor.*": "conductor/test_session.py",
    "_internal.errors": "protocol/test_schema.py",
    "_internal.loading": "test_packaging.py",
    "acp.client": "acp/test_sessions.py",
    "acp.connection": "acp/test_faults.py",
    "acp.sink": "acp/test_prompts.py",
    "acp.version": "acp/test_handshake.py",
    "boot": "service/conftest.py",
    "capabilities.diagnostics": "service/test_diagnostics.py",
    "capabilities.file_changes": "capabilities/test_edit.py",
    "capabilities.mcp.link": "capabilities/mcp/test_real.py",
    "capabilities.paths": "capabilities/test_read.py",
    "capabilities.subagent": "e2e/test_tools.py",
    "capabilities.supervisor": "capabilities/test_processes.py",
    "cli": "commands/test_arguments.py",
    "commands.*": "commands/test_process.py",
    "importing.content": "test_doctests.py",
    "llmgateway.offline.*": "llmgateway/test_offline_model.py",
    "llmgateway.providers.openai_http": "llmgateway/providers/test_requests.py",
    "llmgateway.providers.pydantic_ai_direct": "llmgateway/providers/test_pydantic_ai.py",
    "memory": "test_architecture.py",
    "permissions.checks": "permissions/test_hostile.py",
    "permissions.commands": "permissions/test_policy.py",
    "permissions.repository": "permissions/test_policy.py",
    "permissions.table": "permissions/test_hostile.py",
    "rooms.ai": "rooms/memory/test_estimate.py",
    "runtime.cadence.steps": "runtime/cadence/test_reducer.py",
    "runtime.store.*": "runtime/store/test_journal.py",
    "server.*": "server/test_serve.py",
    "service.handlers.*": "service/test_handlers.py",
}
"""Modules below ``sidecar``, and the test below ``tests`` that covers them."""

MODULES = [(name, path) for name, path in modules() if path.name not in ("__init__.py", "__main__.py")]


@cache
def imported_in(folder: Path) -> str:
    """Return the import lines of all tests below *folder*."""
    lines = re.compile(r"^\s*(?:from|import) sidecar.*$", re.MULTILINE)
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return "\n".join(line for text in texts for line in lines.findall(text))


def is_found(name: str) -> bool:
    """Return whether the tests of a module carry its name, or import it in the tests of its folder."""
    room, _, stem = name.rpartition(".")
    if (TESTS / room.replace(".", "/") / f"test_{stem}.py").exists():
        return True
    lines = imported_in(TESTS / name.partition(".")[0])
    return re.search(rf"(?:from|import) sidecar\.{re.escape(name)}\b(?!\.)", lines) is not None


def test_the_tests_of_every_module_are_found() -> None:
    """A module is imported or named by a test below its folder, or stands in ``TESTED_IN``."""
    in_table = {name for name, _ in MODULES for pattern in TESTED_IN if fnmatchcase(name, pattern)}
    assert [name for name, _ in MODULES if name not in in_table and not is_found(name)] == []


def test_the_table_is_needed_and_true() -> None:
    assert [test for test in TESTED_IN.values() if not (TESTS / test).exists()] == []
    hidden = [name for name, _ in MODULES if not is_found(name)]
    assert [pattern for pattern in TESTED_IN if not any(fnmatchcase(name, pattern) for name in hidden)] == []


DOCSTRING = re.compile(r'^ +"""(?:.|\n)*?"""\n', re.MULTILINE)


def test_no_test_is_a_copy_of_its_neighbour() -> None:
    """Of two tests in one file that do the same, one does not test the behaviour that its name says."""
    copies = []
    for path in sorted(TESTS.rglob("test_*.py")):
        seen: dict[tuple[str, str], str] = {}
        for test in ONE_TEST.finditer(path.read_text(encoding="utf-8")):
            does = DOCSTRING.sub("", test["does"], count=1).rstrip()
            first = seen.setdefault((test["marks"], does), test["name"])
            if first != test["name"]:
                copies.append(f"{path.name}: {test['name']} is {first}")
    assert copies == []
