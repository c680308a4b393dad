"""The settings: ``config.toml`` of the state directory, ``.sidecar.toml`` of a folder.

Keys are in neither of them. A folder's file chooses a model; it may set the addresses of models, hooks and
tool servers only once the user has listed the folder under ``trusted``, because its author would receive keys
and conversations, or run programs. Rules for permissions are taken from the user's own file alone. It is
read before the user has seen it, so its size and nesting are bounded and it must lie in the folder. A mistake
costs the smallest part around it, such as one hook, and is reported with its line. A line that is not TOML is
left out where no permission, hook, server or budget depends on it; else the whole file is. Where that leaves
out a rule that denies, or may, the rules say so, and every action asks.

Hooks and tool servers stand here as settings spell them; :mod:`sidecar.extensions` makes objects of them.
The text below a setting describes it for users: the page of all settings is made of these texts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import field

from sidecar._internal.env import expand_home, read_env
from sidecar._internal.values import Value
from sidecar.llmgateway.budget import PERIODS, parse_budgets
from sidecar.llmgateway.contract import CostBudget, CostSheet, PriceTier, ThinkingLevel
from sidecar.llmgateway.names import OPENAI_CHAT, PROVIDERS_BY_NAME, PYDANTIC_AI, Provider, Providers
from sidecar.permissions.rules import Rule, Rules, parse_rule
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import DiskText, read_text
from sidecar.workspace.paths import read_project_text

HookEvent: TypeAlias = Literal[
    "beforeTool", "afterTool", "prompt", "compaction", "stop", "question", "settled"
]
NotifyWay: TypeAlias = Literal["osc9", "osc777", "bell", "off"]
"""How ``sidecar chat`` reports by its terminal that it waits: the bell, and a notice by one of two codes."""

_MAX_TIMEOUT_S: Final = 600.0

CONFIG_FILE: Final = "config.toml"
FOLDER_FILE: Final = ".sidecar.toml"
SETTINGS_LIMIT_BYTES: Final = 256_000
OF_USER: Final = {
    "rules": "[permissions]",
    "compaction": "[compaction]",
    "budgets": "[budget]",
    "sandbox": "sandbox",
    "fetch_private": "fetch_private",
    "local_servers": "local_servers",
    "max_model_calls": "max_model_calls",
    "model_idle_timeout_s": "model_idle_timeout_s",
    "question_timeout_s": "question_timeout_s",
    "store": "store",
    "store_checkpoints": "store_checkpoints",
    "notify": "notify",
}
"""The settings that only the user's own file makes, each with its name there."""

OF_TRUSTED: Final = {
    "providers": "[providers]",
    "models": "[models]",
    "hooks": "[[hooks]]",
    "servers": "[mcp_servers]",
}
"""The settings that the file of a folder makes only once the folder is trusted, each with its name there."""

MAX_NESTING: Final = 32
"""How deep arrays and tables may be nested in a settings file, dotted keys included."""

OPAQUE: Final = re.compile(
    r"""
      "{3} (?: \\. | [^\\] )*? (?: "{3} | \Z )
    | '{3} .*? (?: '{3} | \Z )
    | " (?: \\. | [^"\n\\] )* "?
    | ' [^'\n]* '?
    | \# [^\n]*
    """,
    re.DOTALL | re.VERBOSE,
)
"""Strings and comments of TOML; an unclosed one reaches as far as it could, so that matching stays linear."""

_SANDBOX: Final = re.compile(r"^[ \t]*sandbox[ \t]*=(?![ \t]*false\b)", re.MULTILINE)
_UNKNOWN: Final = re.compile("unknown field `(.+?)`")
_PERMISSIONS: Final = re.compile("permission", re.IGNORECASE)
"""Text that a file with rules for permissions has, whatever its mistakes are."""

_UNREAD_RULES: Final = (
    "a rule in {} that denies may be missing, because of a mistake there; until it is corrected every action "
    "asks, in each mode; sidecar doctor shows the place"
)
_PLACE: Final = re.compile(r" ?\(at line (\d+), column \d+\)")
_NAMED_LINE: Final = re.compile(r"[ \t]*([\w-]+)[ \t]*=[ \t]*(.*)")
_HEADER: Final = re.compile(r"[ \t]*\[+[ \t]*([\w-]+)")
_HARMLESS: Final = ("models", "compaction")
"""The tables of which a line may be left out: nothing is allowed without it."""

_LONG_KEY: Final = re.compile(rf"(?<![\w\-])(?:[\w\-]++[ \t]*+\.[ \t]*+){{{MAX_NESTING}}}")
S = TypeVar("S", bound=msgspec.Struct | Value)


class HookEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[hooks]]`` table."""

    on: HookEvent
    """The event at which it runs."""
    command: str
    """A line for the shell; it gets JSON on its standard input, and its exit code decides."""
    tools: list[str] = []
    """For `beforeTool` and `afterTool`: the names of the tools, such as `mcp__*`; all without it."""
    timeout_s: float = 30.0
    """When it is ended, at most 600."""

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ValueError("hooks: command is empty")
        if not 0 < self.timeout_s <= _MAX_TIMEOUT_S:
            raise ValueError(f"hooks: timeout_s must be above 0 and at most {_MAX_TIMEOUT_S:g}")
        if self.tools and self.on not in ("beforeTool", "afterTool"):
            raise ValueError(f"hooks: tools is only for beforeTool and afterTool, not for {self.on}")


class ServerEntry(msgspec.Struct, frozen=True):
    """One table of ``[mcp_servers]``, and one object of ``mcpServers`` in ``.mcp.json``.

    Unknown members are ignored: other agents have more of them.
    """

    command: str | None = None
    """The program of a server on this machine; a server has this or a `url`."""
    args: list[str] = []
    """The arguments of the program; `${NAME}` stands for a variable of the environment."""
    env: dict[str, str] = {}
    """Variables for the program."""
    type: Literal["stdio", "http", "sse", "streamable-http"] | None = None
    """The transport; found out without it."""
    url: str | None = None
    """The address of a server elsewhere."""
    headers: dict[str, str] = {}
    """Headers for each request to it, such as `Authorization`."""
    disabled: bool = False
    """Leaves it out, and keeps its table."""

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("a tool server has either a command or a url")


class TierEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of calls with an input of more than *above* tokens."""

    above: int
    """The input of a call, in tokens, above which this tier holds."""
    input: float
    """The price of input, in dollars for a million tokens, as the three below."""
    output: float
    """That of output."""
    cache_read: float | None = None
    """That of input out of the cache."""
    cache_write: float | None = None
    """That of input into the cache."""


class CostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices in US dollars for a million tokens, and *per_request* for a call."""

    input: float
    """The price of input, in dollars for a million tokens, as the four below."""
    output: float
    """That of output."""
    cache_read: float | None = None
    """That of input out of the cache; as `input` without it."""
    cache_write: float | None = None
    """That of input into the cache; as `input` without it."""
    reasoning: float | None = None
    """That of thinking; as `output` without it."""
    per_request: float | None = None
    """Dollars for each call."""
    tiers: list[TierEntry] = []
    """Other prices for calls with more input, each a table with `above` in tokens."""

    def sheet(self) -> CostSheet:
        """Return the prices as the card of a model has them."""
        tiers = sorted(self.tiers, key=lambda tier: tier.above)
        return CostSheet(
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            reasoning_per_mtok=self.reasoning,
            per_request=self.per_request,
            tiers=tuple(PriceTier(*msgspec.structs.astuple(tier)) for tier in tiers),
        )


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's settings of a model; None keeps the value of the catalogue."""

    provider: str | None = None
    """The provider to ask, one of this file or of the daemon."""
    name: str | None = None
    """The name of the model there; with `provider` it makes the name of the table another name for it."""
    context_window: int | None = None
    """The window, in tokens."""
    max_output_tokens: int | None = None
    """The longest answer that it can give, in tokens."""
    reasoning: bool | None = None
    """Whether it can think."""
    images: bool | None = None
    """Whether it sees images."""
    cost: CostEntry | None = None
    """Its prices."""

    def __post_init__(self) -> None:
        for name in ("context_window", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more")


class _ProviderEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    base_url: str
    """Its address, which begins with `http://` or `https://`."""
    api: (
        Literal["openai-chat", "openai-responses", "anthropic-messages", "google-generate", "ollama-chat"]
        | None
    ) = None
    """The format that it speaks; that of a known provider, else `openai-chat`, without it."""
    key_env: str | None = None
    """The variable with its key; without it, that of a known provider, else none."""

    def provider(self, name: str) -> Provider:
        """Return the provider *name* with these settings; a known one at another address keeps the rest.

        Raises ValueError for a wrong one.
        """
        if ":" in name or not name:
            raise ValueError(f"a provider cannot be called {name!r}; a name has no colon")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"providers.{name}.base_url must begin with http:// or https://")
        keys = (self.key_env,) if self.key_env else ()
        known = PROVIDERS_BY_NAME.get(name)
        if known is None or known.api == PYDANTIC_AI:
            return Provider(name, self.api or OPENAI_CHAT, self.base_url, key_env=keys, needs_key=bool(keys))
        return replace(
            known,
            api=self.api or known.other_api or known.api,
            base_url=self.base_url,
            base_url_env=None,
            host_env=None,
            key_env=keys or known.key_env,
            needs_key=bool(keys),
        )


class _Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: list[str] = []
    """Rules for actions that run without a question, such as `npm run *` or `edit: docs/**`."""
    deny: list[str] = []
    """Rules for actions that are refused in every mode."""


class _Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prompt: str | None = None
    """The most that one prompt may cost, in dollars or tokens: `"0.50usd"`, `"200k"`."""
    session: str | None = None
    """The most that a session may cost."""
    day: str | None = None
    """The most that all sessions of a day may cost together."""


class CompactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's settings of compactions."""

    prepare: bool = True
    """Whether a summary is written in the background before it is due."""
    same_prefix: bool = True
    """Whether it is requested behind the conversation, where the provider has that in its cache."""
    by_price: bool = True
    """Whether a compaction is due earlier where it saves more than it costs."""
    due_share: Annotated[float, msgspec.Meta(ge=0.1, le=0.95)] | None = None
    """The share of the window at which a compaction is due; each engine has its own without it."""
    branch_digests: bool = True
    """Whether the model is told of the branch that a rewind or a fork has left."""
    view_share: Annotated[float, msgspec.Meta(ge=0.02, le=0.25)] = 0.2
    """The share of the window that the conversation takes after a compaction."""
    note: Literal["auto", "always", "never"] = "auto"
    """Whether a model writes a note above the chronicle; `auto` where that is cheap."""

    @property
    def names_off(self) -> tuple[str, ...]:
        """The names of the settings that are turned off."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is False)


class _OwnSettings(Value, kw_only=True):
    """The settings that have one form in a file and in the program."""

    model: str | None = None
    """The model of sessions that name none; the variable `INDUSAGI_MODEL` goes before it."""
    summarizer: str | None = None
    """The model that writes summaries, else that of the session; `INDUSAGI_SUMMARIZER` goes before it."""
    thinking: ThinkingLevel | None = None
    """How long models think where a session does not say; each model's own way without it."""
    max_output_tokens: int | None = None
    """The longest answer, in tokens; the most that the model allows without it."""
    models: dict[str, ModelEntry] = field(default_factory=dict)
    """A name of your own for a model, or the name `provider:model`, with the facts that you know."""
    trusted: tuple[str, ...] = ()
    """Folders with files that may say where models are, and start programs."""
    sandbox: bool = False
    """Runs the commands of models in a sandbox or, where there is none, not at all."""
    fetch_private: bool = False
    """Lets the tool `fetch` read pages of this machine and its network."""
    local_servers: bool = True
    """Whether the ports of Ollama and LM Studio on this machine are asked for their models."""
    max_model_calls: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The most model calls of one prompt; without it, or with 0, no limit, and a notice each 50."""
    model_idle_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """How long a model call may be silent before it is made again, in seconds; 300 without it."""
    question_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 1800.0
    """How long a question of the agent waits for an answer, in seconds."""
    store: str | None = None
    """The address of a database, `postgresql://...`, for the sessions; files without it."""
    store_checkpoints: bool = False
    """Whether the database has the contents of changed files as well."""
    notify: NotifyWay = "osc9"
    """How `sidecar chat` calls you: a notice by one of two codes of terminals, the bell, or not."""
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    """When and how conversations are condensed."""
    hooks: tuple[HookEntry, ...] = ()
    """Programs of yours that run at events; each is a table `[[hooks]]`."""


class SettingsFile(_OwnSettings, kw_only=True):
    """The tables of a settings file, as it spells them."""

    providers: dict[str, _ProviderEntry] = field(default_factory=dict)
    """Servers of models: your own, or other addresses of known ones; ask one with `NAME:MODEL`."""
    permissions: _Permissions = field(default_factory=_Permissions)
    """Rules for the actions of tools."""
    budget: _Budgets = field(default_factory=_Budgets)
    """The most that prompts, sessions and days may cost."""
    mcp_servers: dict[str, ServerEntry] = field(default_factory=dict)
    """Servers with tools, in every session; each is a table with a name of yours."""


class ModelSettings(_OwnSettings, kw_only=True):
    """Settings of one level; None and empty leave a setting to the level below.

    *rules* are the user's permission rules; *compaction* and *budgets* hold in all folders. A file with a
    mistake still asks for a *sandbox*.

    *problems* are sentences for the user about files, and parts of them, that could not be used; *unreadable*
    is the one about the whole of the user's own file, *model_problem* the one about its choice of a model.
    """

    providers: Providers = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    budgets: tuple[CostBudget, ...] = ()
    servers: Mapping[str, ServerEntry] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unreadable: str | None = None
    model_problem: str | None = None

    def facts_about(self, name: str, provider: str, model: str) -> ModelEntry:
        """Return the facts that the user gave of *model* of *provider*, as *name* or under another name."""
        same = (each for each in self.models.values() if (each.provider, each.name) == (provider, model))
        return self.models.get(name) or next(same, ModelEntry())

    def under(self, upper: ModelSettings) -> ModelSettings:
        """Return these settings, overridden by the settings of *upper*."""
        return replace(
            self,
            model=upper.model or self.model,
            summarizer=upper.summarizer or self.summarizer,
            thinking=upper.thinking or self.thinking,
            max_output_tokens=upper.max_output_tokens or self.max_output_tokens,
            models={**self.models, **upper.models},
            providers={**self.providers, **upper.providers},
            hooks=(*self.hooks, *upper.hooks),
            servers={**upper.servers, **self.servers},
            problems=(*self.problems, *upper.problems),
        )

    def trusted_folders(self) -> frozenset[Path]:
        """Return the trusted folders, resolved."""
        return frozenset(expand_home(each).resolve() for each in self.trusted)


_NO_SETTINGS: Final = ModelSettings()


def how_to_trust(folder: Path) -> str:
    """Return the line that makes *folder* trusted, as the end of a sentence."""
    return f'to trust it, write trusted = ["{folder}"] in {CONFIG_FILE} of the state directory'


def read_settings(home: Path) -> ModelSettings:
    """Return the settings in ``config.toml`` of the state directory *home*."""
    path = home / CONFIG_FILE
    found = _read(path, lambda: read_text(path, SETTINGS_LIMIT_BYTES))
    unread = found.rules.problem
    return found if unread is None else replace(found, problems=(*found.problems, unread))


class UserSettings:
    """The settings of the user, as ``config.toml`` of *home* has them now. Works on the disk."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._found = ModelSettings()
        self._version: tuple[int, ...] | None = None

    def read(self) -> ModelSettings:
        """Return the settings; a changed file is read again, and one with a mistake changes nothing.

        But for the first one, of which it is known then that rules may be missing.
        """
        try:
            found = (self._home / CONFIG_FILE).stat()
            version: tuple[int, ...] = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            version = ()
        if version != self._version:
            settings = read_settings(self._home)
            if settings.unreadable is None or self._version is None:
                self._found = settings
            self._version = version
        return self._found


def read_folder_settings(folder: Path, user: ModelSettings) -> ModelSettings:
    """Return the settings in ``.sidecar.toml`` of *folder*; a setting that it may not make is a problem.

    The settings of the *user* tell whether the folder is trusted.
    """
    path = folder / FOLDER_FILE
    read = _read(path, lambda: read_project_text(path, (folder,), SETTINGS_LIMIT_BYTES))
    found = replace(read, trusted=(), rules=replace(read.rules, problem=None))
    for name, written in OF_USER.items():
        unset = getattr(_NO_SETTINGS, name)
        if getattr(found, name) != unset:
            problem = (
                f"{path}: {written} is not used here; write it into {CONFIG_FILE} of the state directory"
            )
            found = replace(found, **{name: unset}, problems=(*found.problems, problem))
    named = [written for name, written in OF_TRUSTED.items() if getattr(found, name)]
    if not named or folder.resolve() in user.trusted_folders():
        return found
    problem = (
        f"{path}: {', '.join(named)} not used, because this folder is not trusted; {how_to_trust(folder)}"
    )
    return replace(found, providers={}, models={}, hooks=(), servers={}, problems=(*found.problems, problem))


def from_environment() -> ModelSettings:
    """Return the settings in the variables ``INDUSAGI_MODEL`` and ``INDUSAGI_SUMMARIZER``."""
    return ModelSettings(model=read_env("model") or None, summarizer=read_env("summarizer") or None)


def _read(path: Path, read: Callable[[], DiskText]) -> ModelSettings:
    text = ""
    try:
        text = read().text
        if is_nested_too_deep(text):
            raise ValueError(f"it nests deeper than {MAX_NESTING} levels")
        tables, bad_lines = load_lines(text)
    except FileAccessError as problem:
        is_missing = problem.problem == "notFound"
        reason = None if is_missing else f"{path} is not used: {problem.message}"
        unread = Rules(problem=_UNREAD_RULES.format(path.name)) if reason else Rules()
        return ModelSettings(rules=unread, problems=(reason,) if reason else (), unreadable=reason)
    except ValueError as error:  # of tomllib, too
        reason = f"{path} is not used: {error}"
        has_rules = _PERMISSIONS.search(text) is not None
        return ModelSettings(
            rules=Rules(problem=_UNREAD_RULES.format(path.name) if has_rules else None),
            problems=(reason,),
            unreadable=reason,
            sandbox=_SANDBOX.search(text) is not None,
        )
    reader = _TableReader(path, text)
    for name, reason in bad_lines:
        reader.add_problem(name, reason)
    file = reader.read(SettingsFile, tables, "")
    if not (file.store or "postgresql://").startswith(("postgresql://", "postgres://")):
        reader.add_problem("store", 'it must begin with "postgresql://"; without it sessions are files')
        file = replace(file, store=None)
    providers: dict[str, Provider] = {}
    for name, entry in file.providers.items():
        with reader.leave_out(f"providers.{name}"):
            providers[name] = entry.provider(name)
    allowed, denied = list[Rule](), list[Rule]()
    for key, texts, rules in (
        ("allow", file.permissions.allow, allowed),
        ("deny", file.permissions.deny, denied),
    ):
        for text in texts:
            with reader.leave_out(f"an entry of permissions.{key}"):
                rules.append(parse_rule(text))
    budgets = list[CostBudget]()
    for per in PERIODS:
        if (text := getattr(file.budget, per)) is not None:
            with reader.leave_out(f"budget.{per}"):
                budgets += parse_budgets(text, per)
    same = {name: getattr(file, name) for name in _OwnSettings.__struct_fields__}
    return ModelSettings(
        **same | {"sandbox": file.sandbox or "sandbox" in reader.doubted},
        providers=providers,
        rules=Rules(
            tuple(allowed),
            tuple(denied),
            _UNREAD_RULES.format(path.name) if reader.leaves_out_denials else None,
        ),
        budgets=tuple(budgets),
        servers=file.mcp_servers,
        problems=tuple(reader.problems),
        model_problem=reader.doubted.get("model"),
    )


def load_lines(text: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the TOML *text* without lines of a name that cannot be read, and the names with the reasons.

    Only a line that stands at the top, or in a table that only chooses among harmless things, is left out.

    Raises:
        ValueError: the mistake is elsewhere.

    >>> load_lines("model = gpt-5\\nthinking = 'high'")
    ({'thinking': 'high'}, [('model', 'Invalid value; a text needs quotes')])
    """
    lines, found = text.split("\n"), list[tuple[str, str]]()
    while True:
        try:
            return tomllib.loads("\n".join(lines)), found
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            at = int(place[1]) - 1 if place else len(lines)
            named = _NAMED_LINE.match(lines[at]) if at < len(lines) else None
            headers = [each for each in map(_HEADER.match, lines[:at]) if each is not None]
            table = headers[-1][1] if headers else ""
            if place is None or named is None or (table and table not in _HARMLESS):
                raise
            reason = str(error)[: place.start()].strip()
            quotes = "; a text needs quotes" if named[2][:1].isalpha() else ""
            found.append((f"{table}.{named[1]}".removeprefix("."), reason + quotes))
            lines[at] = ""


class _TableReader:
    """Reads the tables of a settings file part by part, so that a mistake costs its own part alone.

    Attributes:
        problems: a sentence about each part that is left out.
        doubted: the settings of the first level that are left out, or that a wrong name may mean, each with
            its problem.
        leaves_out_denials: whether a part that is left out denies something, or may.
    """

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self.problems: list[str] = []
        self.doubted: dict[str, str] = {}
        self.leaves_out_denials = False

    def read(self, of: type[S], table: Mapping[str, Any], where: str) -> S:
        """Return *table* as an *of*, all fields of which have defaults, without the parts that are wrong."""
        kept: dict[str, Any] = {}
        hints = get_type_hints(of, include_extras=True)
        types = {name: hints[name] for name in of.__struct_fields__}
        for name, value in table.items():
            if name in types:
                with self.leave_out(f"{where}{name}", types[name], value):
                    kept[name] = self.read_part(types[name], value, f"{where}{name}")
            else:
                self.add_problem(f"{where}{name}", "there is no such setting", near_name(name, types))
        return of(**kept)

    def read_part(self, of: Any, value: Any, where: str) -> Any:
        """Return *value* as an *of*; of a list or a table without the entries that are wrong.

        A text where a list of texts belongs is a list of one, such as ``deny = "rm"``.

        Raises msgspec.ValidationError where all of it is wrong.
        """
        if get_origin(of) in (list, tuple) and get_args(of)[0] is str and isinstance(value, str):
            value = [value]
        if of in (_Permissions, _Budgets, CompactionSettings, ModelEntry) and isinstance(value, dict):
            return self.read(of, value, f"{where}.")
        if get_origin(of) in (list, tuple) and isinstance(value, list):
            items = []
            for each in value:
                with self.leave_out(f"an entry of {where}", get_args(of)[0]):
                    items.append(msgspec.convert(each, get_args(of)[0]))
            return get_origin(of)(items)
        if get_origin(of) is dict and isinstance(value, dict):
            entries = {}
            for name, each in value.items():
                with self.leave_out(f"{where}.{name}", get_args(of)[1]):
                    entries[name] = self.read_part(get_args(of)[1], each, f"{where}.{name}")
            return entries
        return msgspec.convert(value, of)

    @contextmanager
    def leave_out(self, where: str, of: Any = None, value: Any = None) -> Iterator[None]:
        """Turn a mistake in the block, which reads *value*, the part *where*, as an *of*, into a problem."""
        try:
            yield
        except (msgspec.ValidationError, ValueError) as error:
            unknown = _UNKNOWN.search(str(error))
            names = getattr(of, "__struct_fields__", ()) if unknown else choices_of(of)
            meant = near_name(unknown[1] if unknown else str(value), names)
            self.add_problem(where, str(error), meant)

    def add_problem(self, where: str, problem: str, near: str | None = None) -> None:
        """Note that the part *where* is not used; *near* is the name that was meant."""
        meant = "" if near is None else f"; did you mean {near}?"
        line = find_line(self._text, where.removeprefix("an entry of "))
        place = f"{self._path}, line {line}" if line else f"{self._path}"
        self.problems.append(f"{place}: {where} is not used: {problem}{meant}")
        if "." not in where:
            self.doubted[near or where] = self.problems[-1]
        table, _, name = where.removeprefix("an entry of ").rpartition(".")
        is_of_rules = "permissions" in (table, near or name)
        self.leaves_out_denials |= is_of_rules and (near or name) != "allow"


def find_line(text: str, where: str) -> int:
    """Return the number of the line in the TOML *text* with the part *where*, 0 where that is not certain.

    >>> find_line('a = 1\\n[models."x"]\\nb = 2', "models.x"), find_line("[c]\\nd = 1", "c.d")
    (2, 2)
    """
    table, _, name = where.rpartition(".")
    begin = find_line(text, table) if table else 0
    header = rf"""\[+[ \t"']*{re.escape(table)}[ \t"'.]*{re.escape(name)}[ \t"']*\]"""
    value = rf"""["']?{re.escape(name)}["']?[ \t]*="""
    lines = [each.strip() for each in text.split("\n")]
    found = [at for at, line in enumerate(lines, 1) if re.match(header, line)]
    found = found or [at for at, line in enumerate(lines, 1) if at >= begin and re.match(value, line)][:1]
    return found[0] if len(found) == 1 else 0


def choices_of(of: Any) -> list[str]:
    """Return the texts that a value of the type *of* may be, none where any text may.

    >>> choices_of(ThinkingLevel | None)[:2]
    ['off', 'low']
    """
    if get_origin(of) is Literal:
        return [each for each in get_args(of) if isinstance(each, str)]
    return [choice for part in get_args(of) for choice in choices_of(part)]


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of *names* that a misspelled *name* may mean, None for none.

    >>> near_name("modle", ["model", "models", "trusted"])
    'model'
    """
    return next(iter(get_close_matches(name, list(names), 1)), None)


def is_nested_too_deep(text: str) -> bool:
    """Whether the TOML *text* nests arrays, tables or dotted keys deeper than :data:`MAX_NESTING`.

    Judged before parsing, in linear time: the parser recurses into brackets, and its time grows with the
    square of the length of a dotted key. Brackets and dots in strings and comments do not count.

    >>> is_nested_too_deep("x = " + "[" * 33), is_nested_too_deep('x = "' + "[" * 33 + '"')
    (True, False)
    """
    structure = OPAQUE.sub("s", text)
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", structure):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > MAX_NESTING:
            return True
    return _LONG_KEY.search(structure) is not None
