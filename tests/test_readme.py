"""The pages are true: folders, commands and options exist, and journeys pass the modules that are named."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest

import journeys
import sidecar
from repository import CONTRIBUTING, FILES, PAGES, README, ROOT, headings, imports, modules
from sidecar.commands.arguments import make_parser
from sidecar.conductor.content import ALIASES, COMMANDS
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, METHODS

PROSE = re.sub(r"```.*?```", "", PAGES, flags=re.DOTALL)
CODE = re.findall(r"`([^`\n]+)`", PROSE)
SUBCOMMANDS = {*re.findall(r"^    (\w+)\s", make_parser().format_help(), re.MULTILINE)}
MAP = re.findall(r"^\| (`.*) \|$", PROSE, re.MULTILINE)

METHOD_NAMES = {
    name for method in (*METHODS, *CLIENT_NOTIFICATIONS) for name in (method, method.removeprefix("sidecar/"))
}

NOT_OURS = ("run/", "session/", "sessions/", "window/", "textDocument/", ".agents/", ".claude/", ".sidecar/")
"""Names of the state directory, of the wire, and of the folders of users."""


def is_path(text: str) -> bool:
    """Whether *text* names a file: no method of the wire, and nothing below the state directory."""
    looks_so = re.fullmatch(r"[\w.-]+(/[\w.-]+)+", text) is not None
    return (
        looks_so
        and "NAME" not in text
        and text.removeprefix("_") not in METHOD_NAMES
        and not text.startswith(NOT_OURS)
    )


def commands() -> set[str]:
    """Return every command line of ``sidecar``, in blocks of code and in the text, without its comment."""
    blocks = "\n".join(re.findall(r"```\n(.*?)```", PAGES, re.DOTALL))
    lines = [line.partition("#")[0] for line in blocks.splitlines()] + CODE
    found = (re.fullmatch(r"(?:\S*/)?sidecar( .*)", line.strip()) for line in lines)
    return {match.group(1).strip() for match in found if match is not None}


def test_every_path_is_there() -> None:
    """From the root, or, as the ways through the code write it, below ``sidecar``."""
    paths = set(filter(is_path, CODE))
    assert {
        path for path in paths if not any((top / path).exists() for top in (ROOT, ROOT / "sidecar"))
    } == set()


def test_every_picture_is_there_small_and_fetches_nothing() -> None:
    names = [
        page.parent / name
        for page in (*FILES, *(ROOT / "editors").glob("*/README.md"))
        for name in re.findall(r"^!\[.+\]\((.+)\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(names) >= 7
    for name in names:
        if name.suffix == ".png":
            assert name.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", name
            assert name.stat().st_size < 150_000, name
            continue
        picture = name.read_text(encoding="utf-8")
        assert len(picture) < 60_000
        assert set(re.findall(r"https?://[\w./]+", picture)) <= {"http://www.w3.org/2000/svg"}, name


@pytest.mark.parametrize("page", ["SECURITY.md", "CHANGELOG.md"])
def test_every_path_of_the_other_pages_is_there(page: str) -> None:
    text = (ROOT / ".github" / page).read_text(encoding="utf-8")
    paths = {each for each in re.findall(r"`([\w.-]+(?:/[\w.-]+)+)`", text) if "NAME" not in each}
    assert {path for path in paths if not (ROOT / path).exists() and is_path(path)} == set()


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in sorted(set(re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")))):
        name, _, heading = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        assert not heading or heading in headings(path.read_text(encoding="utf-8")), target


def test_the_page_of_commands_has_each_one_in_its_own_words() -> None:
    text = (ROOT / ".github" / "KEYS.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        usage = f"/{command.name} {command.hint or ''}".strip().replace("|", "\\|")
        others = ", ".join(f"`/{name}`" for name, of in ALIASES.items() if of == command.name)
        assert f"\n| `{usage}` | {command.description} | {others} |\n" in text


def test_the_page_of_commands_names_those_of_shell_and_editors() -> None:
    text = (ROOT / ".github" / "KEYS.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`sidecar (\w+)`", text))
    assert shown == SUBCOMMANDS
    manifest = json.loads((ROOT / "editors/vscode/package.json").read_text(encoding="utf-8"))
    titles = {command["title"].partition(" the Last")[0] for command in manifest["contributes"]["commands"]}
    assert {title for title in titles if title not in text} == set()


def test_a_stranger_has_it_running_after_one_screen() -> None:
    install = next(at for at, line in enumerate(README.splitlines()) if "pip install ." in line)
    assert install < 25
    assert len(README.splitlines()) < 180


def test_every_target_is_in_the_makefile() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"^make ([\w-]+)", PAGES, re.MULTILINE)) <= set(targets)


def test_every_command_is_there() -> None:
    names = {command.split()[0] for command in commands()}
    assert {name for name in names if not name.startswith("--")} <= SUBCOMMANDS


def test_every_option_is_one() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "sidecar" / "commands").glob("*.py"))
    known = {"--help", *re.findall(r'"(--[a-z-]+)"', "".join(texts))}
    assert {word for text in CODE for word in re.findall(r"--[a-z][a-z-]+", text)} <= known


WAYS = dict(re.findall(r"(?ms)^(A [\w ]+), from .*?:\n\n(.*?)(?=^A |^#)", CONTRIBUTING))


@cache
def played() -> dict[str, list[journeys.Call]]:
    """Return the calls of each journey, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(journeys.play(Path(folder).resolve()))


@pytest.mark.parametrize(
    ("title", "journey", "least"),
    [
        ("A prompt", "prompt", 20),
        ("A compaction", "compaction", 10),
        ("A change in an open file", "change", 6),
    ],
)
def test_a_journey_passes_the_functions_that_are_named_in_their_order(
    title: str, journey: str, least: int
) -> None:
    """A class stands for any function of it."""
    passed = iter(played()[journey])
    named = re.findall(r"`([\w/]+\.py)` `([\w.]+)`", WAYS[title])
    assert len(named) >= least
    for module, name in named:
        assert any(
            (module, name) == (where, what) or (module == where and what.startswith(f"{name}."))
            for where, what in passed
        ), f"{module} {name}"


def test_every_module_that_a_journey_passes_is_named() -> None:
    passed = {module for calls in played().values() for module, _ in calls}
    assert passed - {*re.findall(r"`([\w/]+\.py)`", "".join(WAYS.values()))} == set()


def test_the_drawing_and_the_words_stand_in_the_text() -> None:
    words = CONTRIBUTING.partition("| word | meaning |")[2].partition("\n\n")[0]
    assert len(re.findall(r"^\| [a-z]+ \|", words, re.MULTILINE)) == 14


@cache
def map_row(name: str) -> int | None:
    """Return the row of the map that a module below ``sidecar`` belongs to; the most exact entry counts."""
    best: tuple[int, int] | None = None
    for index, row in enumerate(MAP):
        for path in re.findall(r"`sidecar/([\w/]+?)(?:\.py)?`", row.partition("|")[0]):
            room = path.replace("/", ".")
            if name == room or name.startswith(f"{room}."):
                best = max(best or (0, 0), (len(room), index))
    return best[1] if best else None


def test_imports_point_down_the_map() -> None:
    upwards: set[str] = set()
    for name, path in modules():
        own = map_row(name)
        for imported in imports(path):
            other = map_row(imported.removeprefix("sidecar.")) if imported.startswith("sidecar.") else None
            if own is not None and other is not None and other < own:
                upwards.add(f"{name} imports {imported}")
    assert upwards == set()


def test_the_map_has_a_row_for_every_room() -> None:
    rooms = {path.parent.name for path in Path(*sidecar.__path__).glob("*/__init__.py")}
    shown = {room for row in MAP for room in re.findall(r"`sidecar/(\w+)", row)}
    assert rooms <= shown
    clients = {path.name for path in (ROOT / "clients").iterdir() if path.is_dir()}
    assert clients <= set(re.findall(r"`clients/(\w+)`", PROSE))
