"""The composition of a daemon from its parts: the only module that names the concrete ones.

Nothing runs here, and everything that a client could decide is left to the client.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sidecar._internal.allocator import limit_kept_memory
from sidecar._internal.env import indusagi_home, user_home_folder
from sidecar._internal.errors import InvalidInput
from sidecar._internal.loading import defer_import, install_command
from sidecar._internal.state_folder import close_state_folders
from sidecar._internal.values import Value
from sidecar.capabilities.mcp import SessionToolServers
from sidecar.capabilities.sandbox import Sandbox
from sidecar.capabilities.surroundings import describe_surroundings
from sidecar.capabilities.toolbox import SessionToolBox, default_tools
from sidecar.conductor.content import COMMANDS
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import NoEngine, SessionEngine
from sidecar.conductor.hub import Hub, Takeovers
from sidecar.conductor.record.branching import kind_recogniser
from sidecar.conductor.record.shelf import SessionShelf
from sidecar.conductor.spending import DaySpending
from sidecar.conductor.token_estimate import ModelFactors
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.knowledge import StoredSessions
from sidecar.extensions.finding import ExtensionFinder
from sidecar.llmgateway.config import CONFIG_FILE
from sidecar.llmgateway.gateway import PROVIDERS, offline_provider
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.llmgateway.user_rules import UserRules
from sidecar.rooms.knowledge.library import KnowledgeLibrary
from sidecar.runtime.store import (
    SessionStore,
    new_id,
    wall_clock_ms,
)
from sidecar.service.service import Service
from sidecar.service.stats import ProcessStats
from sidecar.service.tracing import Tracer
from sidecar.workspace.files import real_path
from sidecar.workspace.kept_contents import KeptContents
from sidecar.workspace.paths import resolve_path
from sidecar.workspace.watch import load_watchfiles
from sidecar.workspace.workspace import Workspace

if TYPE_CHECKING:  # a daemon begins without the driver
    from sidecar.runtime.store.postgres.store import PostgresStore

DEFAULT_ENGINE: Final = "windowBudget"
ENGINES: Final[dict[str, Callable[[], SessionEngine]]] = {
    "windowBudget": WindowBudgetEngine,
    "runtime": defer_import("sidecar.conductor.window.engines.runtime_memory", "RuntimeEngine"),
    "agentcore": defer_import("sidecar.conductor.window.engines.agentcore", "AgentcoreEngine"),
    "slidingWindow": defer_import("sidecar.conductor.window.engines.sliding_window", "SlidingWindowEngine"),
    "summarizing": defer_import("sidecar.conductor.window.engines.summarizing", "SummarizingEngine"),
    "none": NoEngine,
}
"""Every engine by its name on the wire. A new engine is added here, and tests find it here."""

recognise_kind: Final = kind_recogniser(lambda: [make().marks for make in ENGINES.values()])
"""Returns the kind of a turn that an earlier version stored without one, by the marks of the engines."""

DaemonLifetime: TypeAlias = Literal["client", "shared"]
"""The lifetime of a daemon: it ends with its only client, or some time after the last of several."""

_LIFETIME_HINTS: Final[dict[DaemonLifetime, str]] = {
    "client": 'for a shared daemon start "sidecar serve --shared"',
    "shared": 'for a daemon of its own start "sidecar serve" without --shared',
}

_NO_DRIVER: Final = "sessions are to be in a PostgreSQL database, and its driver is not installed"


class Daemon(Value):
    """A daemon that is ready for clients."""

    service: Service
    workspace: Workspace
    models: ModelRegistry
    lifetime: DaemonLifetime = "client"

    def configure(self, options: Mapping[str, Any]) -> None:
        """Apply the ``initializationOptions.sidecar`` of a client. Raises InvalidInput."""
        if not isinstance(options, Mapping):
            raise InvalidInput("initializationOptions.sidecar must be an object")
        wanted = options.get("lifetime", self.lifetime)
        if wanted != self.lifetime:  # it was decided by the command line, before the client could ask
            message = f"this daemon's lifetime is {self.lifetime!r}, not {wanted!r:.50}"
            raise InvalidInput(message, hint=_LIFETIME_HINTS[self.lifetime])
        if "models" in options:
            self.models.add_scripted(options["models"])

    def warm_up(self, after_s: float = 0) -> Thread:
        """Load libraries of the first call and session, in a thread that begins after *after_s* seconds.

        An import that fails is repeated, and its error reported, where the module is used.
        """
        steps = (self.models.load_first_call, self.models.load_ahead, load_watchfiles)

        def load() -> None:
            for step in steps:
                with suppress(Exception):
                    step()

        thread = Timer(after_s, load)
        thread.name, thread.daemon = "sidecar-warm-up", True
        thread.start()
        return thread


def build(
    home: Path | None = None, lifetime: DaemonLifetime = "client", *, models: ModelRegistry | None = None
) -> Daemon:
    """Return a daemon.

    Args:
        home: the folder of its state; by default the state directory of the environment.
        lifetime: whether it has one client, or is shared by several.
        models: the known models; by default the ones that the settings in *home* name.
    """
    home = home or indusagi_home()
    limit_kept_memory()
    close_state_folders(home)
    workspace, models = Workspace(), models or models_of_user(home)
    stats = ProcessStats(workspace, wall_clock_ms)
    contents = KeptContents(real_path(home))
    place = place_of_sessions(home, models.settings.store)
    shelf = SessionShelf(place, home)
    parts = SessionDeps(
        models=models,
        workspace=workspace,
        engines=ENGINES,
        toolbox=lambda context, observe: SessionToolBox(default_tools(), context, observe),
        tool_servers=SessionToolServers,
        resolve=lambda path, cwd: resolve_path(path, cwd, ()).path,
        child_started=stats.children.add,
        clock_ms=wall_clock_ms,
        new_id=new_id,
        permission_rules=UserRules(home),
        may_fetch_private=models.settings.fetch_private,
        budgets=models.settings.budgets,
        day=DaySpending(place),
        max_model_calls=models.settings.max_model_calls or 0,
        question_timeout_s=models.settings.question_timeout_s,
        confine=Sandbox([real_path(home)]).confine if models.settings.sandbox else None,
        contents=contents,
        home=real_path(home),
        compaction=models.settings.compaction,
        surroundings=lambda roots: describe_surroundings(roots, date.today()),
        extensions=ExtensionFinder(
            real_path(home),
            models.settings,
            user_home_folder(),
            frozenset(command.name for command in COMMANDS),
        ),
        library=KnowledgeLibrary(workspace, StoredSessions(shelf), home / "knowledge"),
        factors=ModelFactors(home / "model-factors.json"),
    )
    tracer = Tracer(home / "traces", wall_clock_ms)
    hub = Hub(shelf, parts, DEFAULT_ENGINE)
    shelf.freed.is_at_rest = lambda: not any(session.is_running for session in hub.sessions)
    service = Service(hub, stats, tracer, new_id)
    if not isinstance(place, SessionStore):
        takeovers = Takeovers(hub)
        place.leases.on_lost, place.leases.on_wanted = takeovers.lose, takeovers.hand_over
        contents.read_elsewhere = place.read_content
        if models.settings.store_checkpoints:
            place.find_content = contents.find
    return Daemon(service, workspace, models, lifetime)


def models_of_user(home: Path) -> ModelRegistry:
    """Return the models that the settings in *home* name, and the built-in ones."""
    offline = offline_provider(lambda name: shutil.which(name) is not None)
    return ModelRegistry(providers={**PROVIDERS, "offline": offline}, setup=ModelSetup.of_user(home))


def place_of_sessions(home: Path, address: str | None = None) -> SessionStore | PostgresStore:
    """Return where sessions are kept: the database at *address*, or the folder in *home* for None.

    Raises:
        InvalidInput: the extra for databases is not installed.
    """
    if address is None:
        return SessionStore(home / "sessions", recognise=recognise_kind)
    return _postgres_store(address)


def check_database(address: str) -> str:
    """Return in words which database answers at *address*. Blocks.

    Raises:
        InvalidInput: the extra for databases is not installed, or none answers.
    """
    database = _postgres_store(address).database
    try:
        return database.check()
    except OSError as error:
        hint = f"correct store in {CONFIG_FILE}, or start the server"
        raise InvalidInput(error.strerror or "the database does not answer", hint=hint) from error
    finally:
        database.close()


def init_database(address: str, roles: Sequence[str]) -> str:
    """Make the tables for sessions in the database at *address*, and return a report. Blocks.

    Args:
        address: the database, with the role of an administrator.
        roles: the roles that daemons use; each gets the rights that it needs.

    Raises:
        InvalidInput: the extra for databases is not installed, or the database refuses.
    """
    try:
        from sidecar.runtime.store.postgres.administration import init_tables
    except ImportError as error:
        raise InvalidInput(_NO_DRIVER, hint=f"run: {install_command('postgres')}") from error
    try:
        return init_tables(address, roles)
    except OSError as error:
        raise InvalidInput(error.strerror or "the database does not answer") from error


def _postgres_store(address: str) -> PostgresStore:
    try:
        from sidecar.runtime.store.postgres.store import PostgresStore
    except ImportError as error:
        raise InvalidInput(_NO_DRIVER, hint=f"run: {install_command('postgres')}") from error
    return PostgresStore(address, recognise=recognise_kind)
