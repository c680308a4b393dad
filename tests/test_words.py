"""Plain words: names, docstrings and messages of the package keep to ordinary English.

Each rule counts its breaches in one room. ``MOST`` has the counts that are borne today: a room may get better
and never worse. ``ALLOWED`` has the names that break a rule for a reason, with the reason.
Run this file as a program to print the counts of now.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed module of the package."""

    room: str
    path: str
    text: str
    tree: ast.Module

    every_node: tuple[ast.AST, ...]
    words: Counter[str]

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in self.every_node if isinstance(node, kinds))


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the package and of the Python client."""
    client = ROOT / "clients" / "python" / "sidecar_client"
    paths = [*(ROOT / "sidecar").rglob("*.py"), *client.rglob("*.py")]
    gc.disable()  # the nodes are many and stay; the collector would look at all of them again and again
    try:
        return tuple(parsed(path) for path in sorted(paths))
    finally:
        gc.enable()


def parsed(path: Path) -> Module:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    parts = name.split("/")
    room = "/".join(parts[:2]) if len(parts) > 2 and parts[0] == "sidecar" else parts[0]
    tree = ast.parse(text)
    return Module(room, name, text, tree, tuple(ast.walk(tree)), Counter(re.findall(r"\w+", text)))


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
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if path.name != "test_words.py" and (found := TEST_CODE.search(line) or CITATION.search(line)):
                yield Breach("test code", room, f"{path.relative_to(ROOT)}:{number}", found[0])


def sentences(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the sentences of every docstring, those too short to be one left out."""
    for node in module.nodes(ast.Module, ast.ClassDef, *FUNCTIONS):
        text = ast.get_docstring(node)  # type: ignore[arg-type]  # nodes yields these kinds
        for sentence in re.split(r"(?<=[.;:])\s+", (text or "").split(">>>")[0]):
            if len(sentence) > 12:
                yield getattr(node, "lineno", 1), sentence


def riddles(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield docstring sentences that hang on a clause instead of naming the thing."""
    for line, sentence in sentences(module):
        if RIDDLE.search(sentence):
            yield "riddle", line, sentence


def citations(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield codes that a reader cannot look up."""
    for number, line in enumerate(module.text.splitlines(), 1):
        if found := CITATION.search(line):
            yield "citation", number, found[0]


def function_names(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield functions named by a verb of speech, or by a participle.

    A participle may describe the noun of a name (``stored_keys``). Properties are values and may be one.
    """
    for node in functions(module):
        words = node.name.strip("_").split("_")
        if set(words) & SPEECH:
            yield "speech", node.lineno, node.name
        is_phrase = len(words) > 1 and words[1] not in PARTICLES
        if is_participle(words[0]) and not is_phrase and not is_value(node):
            yield "participle", node.lineno, node.name


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
    for node in private_functions(module):
        if module.words[node.name] == 2:
            yield "used once", node.lineno, node.name


def functions(module: Module) -> Iterator[Function]:
    for node in module.nodes(*FUNCTIONS):
        assert isinstance(node, FUNCTIONS)
        yield node


def private_functions(module: Module) -> Iterator[Function]:
    for node in functions(module):
        if node.name.startswith("_") and not node.name.startswith("__"):
            yield node


def error_names(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield exception classes whose name does not say that they are one."""
    for node in module.nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        is_error = any(base.endswith(("Error", "Exception")) or base in exceptions() for base in bases)
        if is_error and not FAILURES.search(node.name):
            yield "error name", node.lineno, node.name


@cache
def exceptions() -> frozenset[str]:
    """Return the names of all exception classes of the package."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for module in modules()
        for node in module.nodes(ast.ClassDef)
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    while True:
        more = {
            name
            for name, own in bases.items()
            if name not in found
            and any(base.endswith(("Error", "Exception")) or base in found for base in own)
        }
        if not more:
            return frozenset(found)
        found |= more


def odd_messages(module: Module) -> Iterator[tuple[str, int, str]]:
    """Yield strings of the program, docstrings left out, that are not ordinary English."""
    docs = {
        id(node.value)
        for node in module.nodes(ast.Expr)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in module.nodes(ast.Constant):
        assert isinstance(node, ast.Constant)
        if isinstance(node.value, str) and id(node) not in docs and (found := ODD_ENGLISH.search(node.value)):
            yield "odd message", node.lineno, found[0]


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
    n_sentences = sum(1 for module in modules() for _ in sentences(module))
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
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(counted(), indent=4, sort_keys=True) + "\n")
    sys.stdout.writelines(f"{each.rule}: {each.place} {each.name[:90]}\n" for each in breaches())
