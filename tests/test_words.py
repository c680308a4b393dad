"""Plain words: names, docstrings and messages of the package keep to ordinary English.

Each rule counts its breaches in one room. ``MOST`` has the counts that are borne today: a room may get better
and never worse. ``ALLOWED`` has the names that break a rule for a reason, with the reason.
Run this file as a program to print the counts of now.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[1]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

RIDDLE = re.compile(
    r"\b(?:what(?:ever)?|who(?:ever)?|whom|whose|those (?:of|that|who)|which of)\b", re.IGNORECASE
)
CITATION = re.compile(
    r"\bB-[A-Z]\d|\bfacts? [A-Z]\d|\bseed 00\d\b|\([A-Z]\d{1,2}(?:, [A-Z]\d{1,2})*\)", re.IGNORECASE
)
SPEECH = {"tell", "tells", "told", "say", "says", "said", "hear", "hears", "heard", "speak", "utter", "obey"}
PARTICIPLE = re.compile(r"\w{3,}(?:ed|ing)\Z")
IRREGULAR = {
    "begun", "bound", "brought", "built", "done", "drawn", "given", "gone", "grown", "held", "kept", "known",
    "laid", "left", "lent", "lost", "made", "met", "seen", "sent", "shown", "sold", "spent", "stood", "taken",
    "told", "worn", "written",
}  # fmt: skip
NO_PARTICIPLE = {
    "bring", "embed", "exceed", "feed", "need", "nothing", "ping", "proceed", "seed", "string", "succeed",
}  # fmt: skip
PARTICLES = {
    "apart", "at", "away", "back", "by", "down", "for", "from", "in", "into", "of", "off", "on", "only",
    "out", "over", "to", "up", "with",
}  # fmt: skip
FAILURES = re.compile(r"^Invalid|(?:Error|NotFound|Cancelled|Failed|Refused|Lost|Exceeded|Unavailable)\Z")
ODD_ENGLISH = re.compile(
    r"\b(?:nobody|whoever|whomever)\b|(?<!there )\b(?:is|are) no (?!longer|more|such)\w+\b", re.IGNORECASE
)
TEST_CODE = re.compile(r"test_(?:[a-z]\d{1,2}|[a-z]_[a-z]\d{1,2}|row_\d{1,2})_")


@dataclass(frozen=True, slots=True)
class Breach:
    """One place that breaks a rule."""

    rule: str
    room: str
    place: str
    name: str


ALLOWED: dict[tuple[str, str], str] = {
    ("error name", "CancelledByToken"): "a public name of the documents that the system is built from",
    ("participle", "extended"): "returns a longer value and changes nothing, as sorted() does",
    ("participle", "__reversed__"): "a name of the language",
    ("class twice", "Message"): "agentcore's is such a name; the other is the event of that kind on the wire",
    ("class twice", "UserMessage"): "window_budget's is such a name; the other is the event of that kind",
    ("class twice", "ToolCall"): "agentcore's and the runtime's are both such names",
    ("class twice", "Usage"): "agentcore's and the gateway's are both such names",
    ("class twice", "Session"): "the Python client names its objects as the daemon does, sync ones alike",
    ("class twice", "SidecarClient"): "the sync client has the names of the async one",
    ("class twice", "Notification"): "a public name of the Python client, and a term of JSON-RPC",
}
"""Rule and name, with the reason."""

SHARE_USED_ONCE = 0.25
"""The goal is a quarter."""

RULES = (
    "citation",
    "class twice",
    "error name",
    "odd message",
    "participle",
    "riddle",
    "speech",
    "test code",
    "used once",
)

MOST: dict[str, dict[str, int]] = {
    "used once": {
        "clients": 8,
        "sidecar/acp": 4,
        "sidecar/agentcore": 5,
        "sidecar/attach": 6,
        "sidecar/_internal": 1,
        "sidecar/capabilities": 9,
        "sidecar/chronicle": 8,
        "sidecar/commands": 7,
        "sidecar/conductor": 42,
        "sidecar/llmgateway": 15,
        "sidecar/protocol": 5,
        "sidecar/rooms": 7,
        "sidecar/runtime": 29,
        "sidecar/server": 4,
        "sidecar/service": 8,
        "sidecar/transport": 6,
        "sidecar/window_budget": 10,
        "sidecar/workspace": 11,
    },
}
"""The most breaches of a rule in a room; a rule or a room that is not here has none."""


Place: TypeAlias = tuple[int, str]
"""A line, and a text that stands there."""


@dataclass(frozen=True, slots=True)
class Module:
    """What the rules are about in one module of the package; its tree of many nodes is not kept."""

    room: str
    path: str
    text: str
    sentences: Sequence[Place]
    """Those of every docstring, without those too short to be one."""

    strings: Sequence[Place]
    """Those of the program, docstrings left out."""

    functions: Sequence[Place]
    values: Sequence[Place]
    """Functions that are read as a value: properties."""

    classes: Sequence[tuple[int, str, frozenset[str]]]
    """Line, name, and the names of the bases."""

    public_classes: Sequence[str]
    words: Counter[str]


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the package and of the Python client."""
    client = ROOT / "clients" / "python" / "sidecar_client"
    paths = [*(ROOT / "sidecar").rglob("*.py"), *client.rglob("*.py")]
    return tuple(read_module(path) for path in sorted(paths))


def read_module(path: Path) -> Module:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    parts = name.split("/")
    tree = ast.parse(text)
    sentences: list[Place] = []
    strings: list[Place] = []
    functions: list[Place] = []
    values: list[Place] = []
    classes: list[tuple[int, str, frozenset[str]]] = []
    docs: set[int] = set()
    for node in ast.walk(tree):  # an expression comes before the constant in it
        if isinstance(node, ast.Expr):
            docs.add(id(node.value))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docs:
                strings.append((node.lineno, node.value))
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            doc = (ast.get_docstring(node) or "").split(">>>")[0]
            line = getattr(node, "lineno", 1)
            sentences += [(line, each) for each in re.split(r"(?<=[.;:])\s+", doc) if len(each) > 12]
            if isinstance(node, ast.ClassDef):
                bases = frozenset(ast.unparse(base).rpartition(".")[2] for base in node.bases)
                classes.append((line, node.name, bases))
            elif not isinstance(node, ast.Module):
                (values if is_value(node) else functions).append((line, node.name))
    return Module(
        room="/".join(parts[:2]) if len(parts) > 2 and parts[0] == "sidecar" else parts[0],
        path=name,
        text=text,
        sentences=sentences,
        strings=strings,
        functions=functions,
        values=values,
        classes=classes,
        public_classes=[
            node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"
        ],
        words=Counter(re.findall(r"\w+", text)),
    )


@cache
def breaches() -> tuple[Breach, ...]:
    """Return every breach of every rule."""
    return tuple(_breaches())


def _breaches() -> Iterator[Breach]:
    for module in modules():
        for rule, line, name in (
            *riddles(module),
            *citations(module),
            *function_names(module),
            *used_once(module),
            *error_names(module),
            *odd_messages(module),
        ):
            yield Breach(rule, module.room, f"{module.path}:{line}", name)
    for name, paths in doubles().items():
        yield from (Breach("class twice", name, path, name) for path in paths)
    yield from codes_in_tests()


def codes_in_tests() -> Iterator[Breach]:
    """Yield the tests that are named by a code, and the codes in their modules."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        room = "/".join(path.relative_to(ROOT).parts[:2])
        if path.name != "test_words.py":
            for number, found in numbered(path.read_text(encoding="utf-8"), TEST_CODE, CITATION):
                yield Breach("test code", room, f"{path.relative_to(ROOT)}:{number}", found)


def numbered(text: str, *patterns: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield the places of *patterns* in a text, each behind the number of its line."""
    for pattern in patterns:
        yield from ((text.count("\n", 0, found.start()) + 1, found[0]) for found in pattern.finditer(text))


def riddles(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield docstring sentences that hang on a clause instead of naming the thing."""
    for line, sentence in module.sentences:
        if RIDDLE.search(sentence):
            yield "riddle", line, sentence


def citations(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield codes that a reader cannot look up."""
    for number, found in numbered(module.text, CITATION):
        yield "citation", number, found


def function_names(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield functions named by a verb of speech, or by a participle.

    A participle may describe the noun of a name (``stored_keys``). Properties are values and may be one.
    """
    for line, name in (*module.functions, *module.values):
        if set(name.strip("_").split("_")) & SPEECH:
            yield "speech", line, name
    for line, name in module.functions:
        words = name.strip("_").split("_")
        is_phrase = len(words) > 1 and words[1] not in PARTICLES
        if is_participle(words[0]) and not is_phrase:
            yield "participle", line, name


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (PARTICIPLE.match(word) is not None and word not in NO_PARTICIPLE)


def is_value(node: Function) -> bool:
    names = {
        each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
        for each in node.decorator_list
    }
    return bool(names & {"property", "cached_property", "setter"})


def used_once(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield private functions that only one place uses."""
    for line, name in private_functions(module):
        if module.words[name] == 2:
            yield "used once", line, name


def private_functions(module: Module) -> Iterator[Place]:
    for line, name in (*module.functions, *module.values):
        if name.startswith("_") and not name.startswith("__"):
            yield line, name


def error_names(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield exception classes whose name does not say that they are one."""
    for line, name, _ in module.classes:
        if name in exceptions() and not FAILURES.search(name):
            yield "error name", line, name


@cache
def exceptions() -> frozenset[str]:
    """Return the names of all exception classes of the package."""
    bases = {name: bases for module in modules() for _, name, bases in module.classes}
    found: set[str] = set()
    while more := {
        name
        for name, own in bases.items()
        if name not in found and any(base.endswith(("Error", "Exception")) or base in found for base in own)
    }:
        found |= more
    return frozenset(found)


def odd_messages(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield strings of the program that are not ordinary English."""
    for line, text in module.strings:
        if found := ODD_ENGLISH.search(text):
            yield "odd message", line, found[0]


def counted() -> dict[str, dict[str, int]]:
    """Return the breaches by rule and room, those that are allowed left out."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for breach in breaches():
        if (breach.rule, breach.name) not in ALLOWED:
            found[breach.rule][breach.room] += 1
    return {rule: dict(sorted(rooms.items())) for rule, rooms in found.items()}


@pytest.mark.parametrize("rule", RULES)
def test_no_room_gets_worse(rule: str) -> None:
    now, most = counted().get(rule, {}), MOST.get(rule, {})
    worse = {room: count for room, count in now.items() if count > most.get(room, 0)}
    places = [each for each in breaches() if each.rule == rule and each.room in worse]
    assert worse == {}, "\n".join(f"{each.place} {each.name}" for each in places)


def test_few_docstrings_hang_on_a_clause() -> None:
    """In admired code bases it is one to three sentences in a hundred."""
    n_sentences = sum(len(module.sentences) for module in modules())
    n_riddles = sum(1 for each in breaches() if each.rule == "riddle")
    assert n_riddles < 0.03 * n_sentences


def test_most_private_functions_are_used_more_than_once() -> None:
    """One that is used once states a rule, or keeps another level of abstraction out of its caller."""
    n_private = sum(1 for module in modules() for _ in private_functions(module))
    n_once = sum(1 for each in breaches() if each.rule == "used once")
    assert n_once <= SHARE_USED_ONCE * n_private


def test_the_pages_are_plain() -> None:
    """Every page in Markdown, its blocks of code left out."""
    folders = ("clients", "editors", ".github", "sidecar")
    pages = [ROOT / "README.md", *(path for folder in folders for path in (ROOT / folder).rglob("*.md"))]
    texts = {path: path.read_text(encoding="utf-8") for path in pages if "node_modules" not in path.parts}
    prose = " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL) for text in texts.values())
    found = [each for each in re.split(r"(?<=[.;:])\s+", prose) if len(each) > 12]
    assert len([each for each in found if RIDDLE.search(each)]) < 0.03 * len(found)
    assert [path.name for path, text in texts.items() if CITATION.search(text)] == []


def test_every_rule_is_checked() -> None:
    assert {each.rule for each in breaches()} | set(MOST) <= set(RULES)


def test_every_exemption_is_needed() -> None:
    used = {(each.rule, each.name) for each in breaches()}
    assert {key for key in ALLOWED if key not in used} == set()
    assert all(ALLOWED.values())


def doubles() -> dict[str, list[str]]:
    """Return the public class names that stand in more than one module, with the modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for name in module.public_classes:
            places[name].append(module.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(counted(), indent=4, sort_keys=True) + "\n")
    sys.stdout.writelines(f"{each.rule}: {each.place} {each.name[:90]}\n" for each in breaches())
