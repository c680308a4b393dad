"""Where the extensions of a session come from, how files spell them, and which ones count.

The user's own are in the state directory: ``commands/NAME.md``, ``skills/NAME/SKILL.md``, and ``[[hooks]]``
and ``[mcp_servers]`` of ``config.toml``. Commands and skills are also found where other agents keep them,
below the home folder. A project has commands in ``.sidecar`` or ``.claude``, skills there or in ``.agents``,
each in the session's folders and in those above them up to the root of the repository; and in the session's
folder itself ``.mcp.json`` and the tables of ``.sidecar.toml``. Of two with one name the user's own counts,
and then the nearer one. ``commands/git/fix.md`` is the command ``git:fix``.

The author of a project is not trusted. Nothing of a project starts a process before the user has listed the
folder under ``trusted``: its hooks and tool servers are not even read further than that they are there. A
command of such a folder is a text, and asks once for each content. A skill is a text as well, as the rule
files are: it is listed, and read when the model asks for it. Each file is regular, lies inside the project
after all links are followed, and is bounded in size; so are their numbers.

Values of servers may name variables of the environment, ``${NAME}`` or ``${NAME:-default}``, so that no
secret has to stand in a file. They are filled in when the servers are found, and the result is written
nowhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from sidecar._internal.env import copy_environment
from sidecar._internal.errors import log_fault
from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar._internal.values import Value
from sidecar.capabilities.mcp.contract import HttpServer, McpServer, StdioServer
from sidecar.extensions.contract import (
    ConfiguredServer,
    CustomCommand,
    Extensions,
    ExtensionSource,
    Hook,
    Skill,
)
from sidecar.llmgateway.config import (
    CONFIG_FILE,
    SETTINGS_LIMIT_BYTES,
    HookEntry,
    ModelSettings,
    ServerEntry,
    UserSettings,
    how_to_trust,
    read_folder_settings,
)
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import DiskText, read_text, real_path
from sidecar.workspace.paths import is_inside, read_project_text

COMMAND_FOLDERS: Final = (".sidecar/commands", ".claude/commands")
SKILL_FOLDERS: Final = (".sidecar/skills", ".agents/skills", ".claude/skills")
SKILL_FILE: Final = "SKILL.md"
MCP_FILE: Final = ".mcp.json"
FILE_LIMIT_BYTES: Final = 200_000
MOST_OF_A_KIND: Final = 200
"""The most commands, and the most skills, of one session; more are left out."""

_MOST_NAMES: Final = 2_000
"""The names in one folder that are looked at."""
_MOST_PARENTS: Final = 30
_MOST_FOLDERS: Final = 100
"""The folders with commands in one place that are looked at."""
_NAME: Final = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_DESCRIPTION_CHARS: Final = 1_000
_TRUSTED_FILE: Final = "trusted.json"
_TRUSTED_BYTES: Final = 1_000_000
_MOST_TRUSTED: Final = 1_000


_Project: TypeAlias = tuple[Path, tuple[Path, ...]]
"""A folder that may have extensions, and the trees of its project."""


class _Place(Value):
    """A folder to look in; *inside* are the trees that it may resolve into, None for anywhere."""

    folder: Path
    source: ExtensionSource
    inside: tuple[Path, ...] | None

    def names(self, below: str = "") -> Sequence[str]:
        """Return the names in its folder *below*, bounded and in order; none where it leads out."""
        real = real_path(self.folder / below)
        if self.inside is not None and not is_inside(real, self.inside):
            return ()
        try:
            with os.scandir(real) as entries:
                return sorted(entry.name for entry in islice(entries, _MOST_NAMES))
        except OSError:
            return ()

    def texts(self) -> Iterator[str]:
        """Yield the Markdown files in it and its sub-folders, folder by folder, as paths in it."""
        folders = [""]
        for below in folders:  # it grows
            names = self.names(below)
            yield from (f"{below}{name}" for name in names if name.endswith(".md"))
            folders += [f"{below}{name}/" for name in names if _NAME.fullmatch(name) and below.count("/") < 3]
            del folders[_MOST_FOLDERS:]

    def read(self, path: Path) -> DiskText:
        """Return the text of *path* in it. Raises FileAccessError."""
        if self.inside is None:
            return read_text(path, FILE_LIMIT_BYTES)
        return read_project_text(path, self.inside, FILE_LIMIT_BYTES)


class ExtensionFinder:
    """Finds the extensions of sessions; an ``ExtensionsPort``.

    Args:
        home: the state directory.
        settings: the user's settings.
        user_home: the home folder of the user, with the skills for other agents.
        reserved: the names of commands that are taken.
        variables: returns the environment.
    """

    def __init__(
        self,
        home: Path,
        settings: ModelSettings,
        user_home: Path | None,
        reserved: frozenset[str],
        variables: Callable[[], Mapping[str, str]] = copy_environment,
    ) -> None:
        self._home = home
        self._settings = settings
        self._user_home = user_home
        self._reserved = reserved
        self._variables = variables
        self._trusted = TrustedContents(home)
        self._live = UserSettings(home)

    def trust(self, command: CustomCommand) -> None:
        """Remember that the user allowed *command*, until its content changes."""
        self._trusted.add(command.digest, command.path)

    def find(self, roots: Sequence[Path]) -> Extensions:
        """Return the extensions of a session in *roots*, the working folder first."""
        problems: list[str] = []
        projects, user = [*self.list_projects(roots)], self._live.read()
        hooks, servers = self.find_settings(roots[0], user, problems)
        return Extensions(
            commands=tuple(self.find_commands(projects, user.trusted_folders(), problems)),
            skills=tuple(self.find_skills(projects, problems)),
            hooks=hooks,
            servers=servers,
            problems=tuple(problems),
        )

    def list_projects(self, roots: Sequence[Path]) -> Iterator[_Project]:
        """Yield the folders that may have extensions, the nearest first, each with the trees of its project.

        A repository that holds the home folder is no project.
        """
        known: set[Path] = set()
        for root in roots:
            chain = [root, *islice(root.parents, _MOST_PARENTS)]
            top = next((each for each in chain if os.path.lexists(each / ".git")), root)
            if self._user_home is not None and self._user_home.is_relative_to(top):
                top = root
            for folder in chain[: chain.index(top) + 1]:
                if folder not in known:
                    known.add(folder)
                    yield folder, (*roots, top)

    def _places(
        self, own: str, of_user: Sequence[str], of_project: Sequence[str], projects: Sequence[_Project]
    ) -> Iterator[_Place]:
        """Yield the folders to look in, the user's first: *own* is in the state directory."""
        yield _Place(self._home / own, "user", None)
        if self._user_home is not None:
            yield from (_Place(self._user_home / each, "user", None) for each in of_user)
        for folder, inside in projects:
            yield from (_Place(folder / each, "folder", inside) for each in of_project)

    def find_commands(
        self, projects: Sequence[_Project], trusted: frozenset[Path], problems: list[str]
    ) -> Iterator[CustomCommand]:
        allowed = self._trusted.read()
        known: set[str] = set()
        for place in self._places("commands", (".claude/commands",), COMMAND_FOLDERS, projects):
            for file_name in islice(place.texts(), _MOST_NAMES):
                name, path = file_name.removesuffix(".md").replace("/", ":"), place.folder / file_name
                if name in known or len(known) >= MOST_OF_A_KIND:
                    continue
                if name in self._reserved or not all(map(_NAME.fullmatch, name.split(":"))):
                    why = "the daemon has such a command" if name in self._reserved else "it has an odd name"
                    problems.append(f"{path} is not used: {why}")
                    continue
                found = _try_reading(place, path, problems)
                if found is None:
                    continue
                known.add(name)
                fields, text = parse_front_matter(found.text)
                owner = place.folder.parent.parent
                yield CustomCommand(
                    name=name,
                    description=_line(fields.get("description") or text),
                    hint=_line(fields.get("argument-hint", "")) or None,
                    model=fields.get("model") or None,
                    text=text,
                    path=path,
                    digest=found.hash,
                    source=place.source,
                    is_trusted=place.source == "user" or owner in trusted or found.hash in allowed,
                )

    def find_skills(self, projects: Sequence[_Project], problems: list[str]) -> Iterator[Skill]:
        known: set[str] = set()
        for place in self._places("skills", SKILL_FOLDERS, SKILL_FOLDERS, projects):
            for folder_name in place.names():
                path = place.folder / folder_name / SKILL_FILE
                found = None if len(known) >= MOST_OF_A_KIND else _try_reading(place, path, problems)
                if found is None:
                    continue
                fields, text = parse_front_matter(found.text)
                name = fields.get("name") or folder_name
                if not _NAME.fullmatch(name):
                    problems.append(f"{path} is not used: its name is not one of letters, digits and dashes")
                elif name not in known:
                    known.add(name)
                    description = _line(fields.get("description") or text)
                    yield Skill(name=name, description=description, path=real_path(path), source=place.source)

    def find_settings(
        self, folder: Path, user: ModelSettings, problems: list[str]
    ) -> tuple[tuple[Hook, ...], tuple[ConfiguredServer, ...]]:
        """Return the hooks and the tool servers of the settings, the user's first.

        The file of *folder* counts where *user*, the settings as they are now, trusts it.
        """
        own = self._settings
        servers = self._fill_in("user", own.servers, self._home / CONFIG_FILE, problems)
        # The problems of this file are shown with those of its models.
        theirs = read_folder_settings(folder, user)
        servers = self._fill_in("folder", theirs.servers, folder, problems) | servers
        path = folder / MCP_FILE
        if os.path.lexists(path):
            if folder in user.trusted_folders():
                listed = read_mcp_file(path, folder, problems)
                servers = self._fill_in("folder", listed, path, problems) | servers
            else:
                problems.append(
                    f"{path} is not used, because this folder is not trusted; {how_to_trust(folder)}"
                )
        hooks = (make_hook(each, "user") for each in own.hooks)
        others = (make_hook(each, "folder") for each in theirs.hooks)
        return (*hooks, *others), tuple(servers.values())

    def _fill_in(
        self,
        source: ExtensionSource,
        entries: Mapping[str, ServerEntry],
        path: Path,
        problems: list[str],
    ) -> dict[str, ConfiguredServer]:
        """Return the servers of *entries* by name, with the variables of the environment filled in."""
        found = {}
        variables = self._variables() if entries else {}
        for name, entry in entries.items():
            try:
                if not entry.disabled:
                    found[name] = ConfiguredServer(make_server(name, entry, variables), source)
            except ValueError as error:
                problems.append(f"the tool server {name!r} of {path} is not used: {error}")
        return found


def read_mcp_file(path: Path, folder: Path, problems: list[str]) -> Mapping[str, ServerEntry]:
    """Return the servers of the ``.mcp.json`` at *path* in *folder*; a mistake is a problem."""
    try:
        return parse_mcp_json(read_project_text(path, (folder,), SETTINGS_LIMIT_BYTES).text)
    except FileAccessError as error:
        problems.append(f"{path} is not used: {error.message}")
    except (ValueError, msgspec.ValidationError) as error:
        problems.append(f"{path} is not used: {error}")
    return {}


def _try_reading(place: _Place, path: Path, problems: list[str]) -> DiskText | None:
    """Return the text of *path*, None where it is missing, or may not or cannot be read."""
    try:
        return place.read(path)
    except FileAccessError as error:
        if error.problem != "notFound":
            problems.append(f"{path} is not used: {error.message}")
        return None


def _line(text: str) -> str:
    """Return the first line of *text* as one line of printable characters."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    printable = "".join(char if char.isprintable() else " " for char in first[:_DESCRIPTION_CHARS])
    return " ".join(printable.split())


class TrustedContents:
    """The files of strangers that the user of the state directory *home* has allowed. Works on the disk.

    They are kept by the hash of their content, so that a changed file asks again.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / _TRUSTED_FILE

    def read(self) -> Mapping[str, str]:
        """Return the allowed hashes, each with the path that it was allowed at; a broken file has none."""
        try:
            found = json.loads(read_state_file(self._path, _TRUSTED_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return {str(key): str(path) for key, path in found.items()} if isinstance(found, dict) else {}

    def add(self, digest: str, path: Path) -> None:
        """Remember *digest*; the oldest ones go. If it cannot be written, it is asked about again."""
        kept = {**self.read(), digest: str(path)}
        newest = dict(list(kept.items())[-_MOST_TRUSTED:])
        try:
            replace_state_file(self._path, json.dumps(newest, indent=1).encode("utf-8", "replace"))
        except OSError as error:
            log_fault("the list of trusted files", error)


_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_MOST_SERVERS: Final = 50


def make_hook(entry: HookEntry, source: ExtensionSource) -> Hook:
    """Return the hook of *entry*, which *source* has set."""
    return Hook(
        event=entry.on,
        command=entry.command,
        tools=tuple(entry.tools),
        timeout_s=entry.timeout_s,
        source=source,
    )


def make_server(name: str, entry: ServerEntry, variables: Mapping[str, str]) -> McpServer:
    """Return the server *name* of *entry*, with *variables* filled in.

    Raises ValueError for a variable that is not set, or a URL that is not one of the web.
    """

    def fill(text: str) -> str:
        return fill_in_variables(text, variables)

    if entry.command is not None:
        env = tuple((key, fill(value)) for key, value in entry.env.items())
        return StdioServer(name, fill(entry.command), tuple(map(fill, entry.args)), env)
    url = fill(entry.url or "")
    if not url.startswith(("http://", "https://")):
        raise ValueError("its url must begin with http:// or https://")
    headers = tuple((key, fill(value)) for key, value in entry.headers.items())
    return HttpServer(name, url, headers, is_sse=entry.type == "sse")


def fill_in_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return *text* with its variables filled in, once. Raises ValueError for one that is not set.

    >>> fill_in_variables("Bearer ${KEY}, ${MODE:-safe}", {"KEY": "x"})
    'Bearer x, safe'
    """

    def value(found: re.Match[str]) -> str:
        set_value = variables.get(found[1]) or found[2]
        if set_value is None:
            raise ValueError(f"the variable {found[1]} is not set")
        return set_value

    return _VARIABLE.sub(value, text)


def parse_mcp_json(text: str) -> dict[str, ServerEntry]:
    """Return the servers of a ``.mcp.json``. Raises ValueError with the mistake."""
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    if not isinstance(found, dict) or not isinstance(found.get("mcpServers"), dict):
        raise ValueError("it has no object mcpServers")
    if len(found["mcpServers"]) > _MOST_SERVERS:
        raise ValueError(f"it has more than {_MOST_SERVERS} servers")
    return msgspec.convert(found["mcpServers"], dict[str, ServerEntry])


_HEAD: Final = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"([A-Za-z][\w-]{0,60})[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_FOLDED: Final = ("", ">", ">-", ">+", "|", "|-", "|+")


def parse_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the fields of the head of *text*, by their names in small letters, and the rest of the text.

    The head stands between two lines of dashes. It is the part of YAML that commands and skills of agents
    use: plain and quoted values, values folded over indented lines (``>``, ``|``, or nothing behind the
    colon), and comments. Anything else, such as a list, is left as it is written. No parser of YAML is
    needed, and none of its surprises come along.

    >>> parse_front_matter('---\\nname: review\\ndescription: >\\n  Look at\\n  a change.\\n---\\nDo it.\\n')
    ({'name': 'review', 'description': 'Look at a change.'}, 'Do it.')
    """
    text = text.replace("\r\n", "\n")
    head = _HEAD.match(text)
    if head is None:
        return {}, text.strip()
    parts: dict[str, list[str]] = {}
    name = ""
    for line in head[1].split("\n"):
        found = _FIELD.fullmatch(line)
        if found is not None:
            name = found[1].lower()
            parts[name] = [(found[2] or "").strip()]
        elif name and (line[:1].isspace() or not line):
            parts[name].append(line.strip())
    return {name: read_value(lines) for name, lines in parts.items()}, text[head.end() :].strip()


def read_value(lines: list[str]) -> str:
    """Return the value that stands on *lines*, the first of them behind the colon."""
    first, *more = lines
    if first in _FOLDED:
        separator = "\n" if first.startswith("|") else " "
        return separator.join(filter(None, more))
    value = " ".join(filter(None, lines))
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return _COMMENT.sub("", value).strip()
