"""The rules of the house that a machine can keep: who imports whom, who is pure, what stays empty."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from repository import PACKAGE, ROOT, imports, modules

LAYERS = (
    ("cli", "__main__"),
    ("commands",),
    ("boot",),
    ("attach", "panel"),
    ("server", "acp"),
    ("service",),
    ("transport",),
    ("protocol",),
    ("conductor.hub", "conductor.completing", "conductor.subagents"),
    ("conductor.session",),
    ("conductor.turns",),
    ("conductor.window",),
    ("conductor.workbench",),
    ("conductor.record",),
    ("conductor",),
    ("runtime.conductor",),
    (
        "runtime.turn",
        "runtime.dispatch",
        "runtime.ledger",
        "runtime.store",
        "llmgateway.providers",
        "llmgateway.offline",
        "llmgateway.scripted",
        "llmgateway",
        "capabilities",
        "extensions",
        "workspace",
        "permissions",
        "rooms.knowledge",
        "importing",
    ),
    ("chronicle", "runtime.cadence", "runtime.memory", "runtime.wire", "window_budget", "agentcore", "rooms"),
    (
        "runtime.contract",
        "capabilities.contract",
        "capabilities.effects",
        "permissions.access",
        "workspace.contract",
    ),
    ("text",),
    ("conversation",),
    ("llmgateway.contract",),
    ("_internal",),
)
"""From the top down; a module may import from its own layer and from those below it."""

SHAPES = {
    "sidecar.conductor.contract",
    "sidecar.conductor.events",
    "sidecar.conductor.record.log",
}
"""Values of the conductor that the wire is made of; whoever speaks of the wire may name them."""

ENGINES = (
    "chronicle",
    "runtime.memory",
    "runtime.cadence",
    "runtime.wire",
    "window_budget",
    "agentcore",
    "rooms.memory",
)
PURE = (
    "chronicle",
    "conversation",
    "text",
    "runtime.contract",
    "llmgateway.contract",
    "capabilities.effects",
    "runtime.cadence",
    "runtime.memory",
    "runtime.wire",
    "window_budget",
    "agentcore",
    "rooms.memory",
)
STATEFUL = ("agentcore.compaction", "rooms.memory.retrieval", "rooms.memory.summarizing")
"""Stateful shells around pure engines; they may wait with asyncio, on a clock that is an argument."""

IMPURE = {
    "asyncio",
    "threading",
    "os",
    "pathlib",
    "time",
    "random",
    "socket",
    "logging",
    "subprocess",
}
OWNERS = {
    "pygls": ("server",),
    "lsprotocol": ("server",),
    "watchfiles": ("workspace",),
    "charset_normalizer": ("workspace",),
    "jsonschema": ("commands",),
    "referencing": ("commands",),
    "cattrs": ("protocol", "runtime.store"),
    "mcp": ("capabilities.mcp",),
    "mcp_types": ("capabilities.mcp",),
    "openai": ("llmgateway.providers",),
    "anthropic": ("llmgateway.providers",),
    "google": ("llmgateway.providers",),
    "psycopg": ("runtime.store.postgres",),
    "psycopg_pool": ("runtime.store.postgres",),
}


@cache
def layer_of(name: str) -> int | None:
    """Return the index of the layer of a module below ``sidecar``; the most exact entry counts."""
    best: tuple[int, int] | None = None
    for index, rooms in enumerate(LAYERS):
        for room in rooms:
            if name == room or name.startswith(f"{room}."):
                best = max(best or (0, 0), (len(room), index))
    return best[1] if best else None


def is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def test_imports_point_down() -> None:
    upwards = []
    for name, path in modules():
        own = layer_of(name)
        if name in ("", "__init__", "memory"):
            continue
        assert own is not None or name in ("runtime", "rooms"), f"{name} stands in no layer"
        for imported in imports(path):
            is_shape = any(imported == shape or imported.startswith(f"{shape}.") for shape in SHAPES)
            if imported.startswith("sidecar.") and not is_shape:
                other = layer_of(imported.removeprefix("sidecar."))
                if own is not None and other is not None and other < own:
                    upwards.append(f"{name} imports {imported}, which stands above it")
    assert upwards == []


def test_engines_never_import_each_other() -> None:
    family = ("runtime.memory", "runtime.cadence", "runtime.wire")
    for name, path in modules():
        own = [engine for engine in ENGINES if is_in(name, (engine,))]
        others = tuple(f"sidecar.{engine}" for engine in ENGINES if engine not in own)
        if own and own[0] in family:
            others = tuple(each for each in others if each.removeprefix("sidecar.") not in family)
        if own:
            assert [(name, imported) for imported in imports(path) if is_in(imported, others)] == []


def test_contracts_and_engines_are_pure() -> None:
    for name, path in modules():
        if is_in(name, PURE):
            allowed = {"asyncio"} if name in STATEFUL else set()
            assert {imported.split(".")[0] for imported in imports(path)} & IMPURE <= allowed, name
    assert lines_with(r"(?<![\w.])open\(|\.(now|today)\(", PURE) == []


def test_only_the_stateful_shells_wait() -> None:
    waiting = {
        name
        for name, path in modules()
        if is_in(name, PURE) and "asyncio" in {imported.split(".")[0] for imported in imports(path)}
    }
    assert waiting == set(STATEFUL)


def test_each_library_stays_in_its_room() -> None:
    for name, path in modules():
        for imported in imports(path):
            owners = OWNERS.get(imported.split(".")[0])
            assert owners is None or is_in(name, owners), f"{name} imports {imported}"


def lines_with(pattern: str, rooms: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the lines in which *pattern* is found, each behind its module; of *rooms* alone if there are."""
    found = re.compile(rf"^.*(?:{pattern}).*$", re.MULTILINE)
    return [
        (name, match[0])
        for name, path in modules()
        if not rooms or is_in(name, rooms)
        for match in found.finditer(path.read_text(encoding="utf-8"))
    ]


def test_one_module_reads_the_environment() -> None:
    passes_its_own_on = "capabilities.supervisor"  # a program that may import no module of ours
    reading = {name for name, _ in lines_with(r"\bos\.(?:environ|getenv)\b")}
    assert reading == {"_internal.env", passes_its_own_on}


def test_every_exemption_from_the_types_says_why() -> None:
    folders = (PACKAGE, ROOT / "tests", ROOT / "clients" / "python")
    bare = re.compile(r"# type: ignore(\[[\w, -]+\])?$", re.MULTILINE)
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    assert [path.name for path in paths if bare.search(path.read_text(encoding="utf-8"))] == []


def test_what_an_exception_says_is_logged_for_debugging_alone() -> None:
    """It may quote a prompt or a file; ``log_fault`` tells its class and where it came from."""
    told = lines_with(r"_log\.exception\(|exc_info=")
    assert [(name, line) for name, line in told if "_log.debug(" not in line] == []


def test_no_group_of_a_pattern_is_possessive() -> None:
    """Before 3.11.5 Python goes on behind the part of such a group that did not match.

    So a pattern accepts and refuses the wrong texts there; this is CPython issue 106052. An atomic group
    is not concerned, nor is a possessive set.
    """
    assert lines_with(r"(?<!\()\)(?:[*+?]|\{[\d,]+\})\+") == []


def test_the_memory_facade_is_empty() -> None:
    import sidecar.memory

    assert sidecar.memory.__all__ == []
    assert [name for name in vars(sidecar.memory) if not name.startswith("__")] == ["annotations"]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("module", "unloaded"),
    [
        pytest.param(
            "sidecar_client.sync",
            (
                *("pygls", "lsprotocol", "rich", "watchfiles", "sidecar.server"),
                *("sidecar.runtime", "sidecar.window_budget", "sidecar.conductor.session"),
            ),
            id="the client and the protocol load no part of a daemon",
        ),
        pytest.param(
            "sidecar.server, sidecar.commands.serve",
            (
                "argparse",
                "sidecar.boot",
                "sidecar.conductor.contract",
                "sidecar.protocol.methods",
                "pygls",
                "lsprotocol",
                "cattrs",
                "psutil",
                "watchfiles",
                "charset_normalizer",
            ),
            id="a language server answers before it loads a session",
        ),
        pytest.param(
            "sidecar.cli, sidecar.acp, sidecar.commands.serve",
            (
                *("argparse", "pathlib", "cattrs", "pygls", "rich", "watchfiles"),
                *("sidecar.boot", "sidecar.conductor", "sidecar.runtime", "sidecar.workspace"),
                "sidecar.protocol.codec",
            ),
            id="and so does an agent",
        ),
        pytest.param(
            "sidecar.boot, sidecar.server.connection, sidecar.server.sink",
            ("pygls", "lsprotocol"),
            id="a session of an editor begins without its language server",
        ),
        pytest.param(
            "sidecar.commands.run, sidecar.commands.sessions",
            (
                "sidecar.conversation",
                "sidecar.conductor.records",
                "sidecar.conductor.session",
                "sidecar.boot",
            ),
            id="a command that starts a daemon loads no part of one",
        ),
        pytest.param(
            "sidecar.commands.run",
            ("cattrs", "rich", "sidecar.commands.terminal"),
            id="one prompt starts its daemon before it loads what shows the answer",
        ),
        pytest.param(
            "sidecar.commands.doctor",
            ("sidecar.boot", "sidecar.conductor.session"),
            id="nor does the one that looks at the machine",
        ),
        pytest.param(
            "sidecar.cli, sidecar.commands.shim, sidecar.attach.connecting, sidecar.attach.shim",
            (
                *("asyncio", "dataclasses", "logging", "subprocess", "msgspec", "psutil"),
                *("pathlib", "re", "typing"),
            ),
            id="a shim is lighter still",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="there the shim is another"),
        ),
    ],
)
def test_what_an_import_does_not_load(module: str, unloaded: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {unloaded!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.processes
def test_a_daemon_begins_without_what_not_every_session_needs() -> None:
    """A library that is added here costs every start; most can be imported on first use."""
    code = (
        "import sys; before = {*sys.modules};"
        "import sidecar.boot, sidecar.server.lsp, sidecar.server.sink, sidecar.acp, sidecar.commands.serve;"
        "sidecar.boot.build();"
        "print(*{*sys.modules} - before)"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    loaded = {*ran.stdout.split()}
    libraries = {name.partition(".")[0] for name in loaded if not name.startswith("_")}
    allowed = {"attr", "attrs", "cattrs", "lsprotocol", "msgspec", "psutil", "pygls", "rfc8785", "sidecar"}
    allowed |= {"typing_extensions", "exceptiongroup"} | sys.stdlib_module_names
    assert libraries - allowed == set()
    for_some_sessions = {
        *("sqlite3", "statistics", "sidecar.agentcore", "sidecar.service.export"),
        *("sidecar.conductor.window.engines.runtime_memory", "sidecar.conductor.window.engines.summarizing"),
        *("sidecar.llmgateway.providers.calling", "sidecar.llmgateway.providers.openai_chat"),
    }
    assert loaded & for_some_sessions == set()


def test_the_python_client_knows_the_protocol_alone() -> None:
    folder = ROOT / "clients" / "python" / "sidecar_client"
    allowed = ("sidecar.protocol",)
    found = {
        f"{path.name}: {imported}"
        for path in folder.rglob("*.py")
        for imported in imports(path)
        if imported.startswith("sidecar.") and not is_in(imported, allowed)
    }
    assert found == set()
