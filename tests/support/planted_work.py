"""Sessions of a coding agent with facts planted in them, in the manner of three agents.

The names of tools and arguments are those of Claude Code, of Codex, or of no agent at all. Errors have shapes
that no known tool prints; wishes come as sentences in 17 languages, as rows of a table and in the middle of a
dictation; values and failures stand somewhere in the output of a command, a body or a report. Some sentences
only look like wishes: they must never become rules. Equal arguments give equal sessions.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)

T = TypeVar("T")

KINDS: Final = (
    *("request", "rule", "correction", "pasted", "decision", "finding"),
    *("path read", "path edited", "command", "search", "value", "error", "no rule"),
)
"""The kinds of facts: *no rule* only looks like a wish; *pasted* is an error that the user pasted."""

Manner: TypeAlias = Literal["claude", "codex", "other"]
MANNERS: Final[tuple[Manner, ...]] = ("claude", "codex", "other")

_TOOLS: Final[Mapping[Manner, Mapping[str, str]]] = {
    "claude": {"read": "Read", "edit": "Edit", "write": "Write", "run": "Bash", "find": "Grep", "ask": "Task",
               "http": "WebFetch"},
    "codex": {"read": "shell", "edit": "apply_patch", "write": "apply_patch", "run": "shell", "find": "shell",
              "ask": "spawn_agent", "http": "http_request"},
    "other": {"read": "fs_open", "edit": "changeText", "write": "putFile", "run": "terminalExec",
              "find": "findInCode", "ask": "delegate", "http": "callApi"},
}  # fmt: skip
_ARGUMENTS: Final[Mapping[Manner, Mapping[str, str]]] = {
    "claude": {"path": "file_path", "old": "old_string", "new": "new_string"},
    "codex": {},
    "other": {"path": "target", "old": "before", "new": "replacement"},
}
_SYLLABLES: Final = (
    "ba ce di fo gu ha ji ko lu me ni po ra se ti vo wa xe yu zo bri cla dre fla gro kri pla sto tru"
)
_WISHES: Final = (
    *("Bitte immer {} statt {} benutzen.", "Merci de toujours garder {} dans {}."),
    *("Nunca cambies {} sin avisar en {}.", "{} を {} より優先してください。", "请始终使用 {} 而不是 {}。"),
    *("Всегда используй {}, а не {}.", "استخدم دائما {} بدلا من {}.", "हमेशा {} के बजाय {} का उपयोग करें।"),
    *("항상 {} 대신 {} 를 사용하세요.", "Her zaman {} yerine {} kullan.", "Zawsze używaj {} zamiast {}."),
    *("Use alltid {}, aldri {}.", "keep {} as it is, {} included", "We never ship {} without {}."),
    *("from now on {} goes before {}", "Only {} may call {}.", "no {} in tests, {} only"),
)
_NO_RULES: Final = (
    *("don't touch {} yet, just tell me what {} would do", "never mind {}, do {} first"),
    *("the README says: never import {} from {}", "Anna thinks we should always put {} before {}"),
    *("the parser must never return {} for {}", "for example: always pass {} to {}"),
)
_TASKS: Final = (
    *("Add {} to {}", "Why does {} drop {}?", "{} and {} disagree, find out why"),
    *("port {} onto {}", "make {} faster, {} is the slow part"),
)
_ERRORS: Final = (
    *("!! {p} ({n},{m}) {i}: value out of domain", "step {n} ABORTED -> {i} missing in {p}"),
    *("{p}:{n}: {i} redeclared with another shape", "ORA-{n:05d}: {i} is not a valid month"),
    *("x {i} > expected {n}, received {m}", "NG  {p} line {n}: unresolved {i}"),
    *('{{"status":{n},"code":"{i}","detail":"gone {m}"}}', "E: Unable to locate package {i} ({n})"),
    *("{i}.go:{n}:{m}: too many arguments in call", "  --> {p}:{n}:{m} {i} mismatched"),
    *("SEVERE {i} heartbeat lost after {n} ms", "rule {i} violated at {p}#{n}"),
)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A text that must stand in a view; of a correction, *stale* must not stand there alone."""

    kind: str
    text: str
    stale: str = ""


@dataclass
class Work:
    """A session: its rounds, each with its turns and the facts in them."""

    rounds: list[list[Turn]] = field(default_factory=list)
    facts: list[list[Fact]] = field(default_factory=list)


def plant_work(seed: int, manner: Manner, n_tokens: int, output_lines: int = 70) -> Work:
    """Return a session of about *n_tokens*, at four characters each.

    Args:
        seed: decides everything that is random.
        manner: whose tools the agent has.
        n_tokens: the size of the session.
        output_lines: the lines of a long output.
    """
    worker, work, chars = _Worker(random.Random(f"{seed} {manner}"), manner, output_lines), Work(), 0
    while chars < 4 * n_tokens:
        worker.turns, worker.facts = [], []
        worker.play_round()
        work.rounds.append(worker.turns)
        work.facts.append(worker.facts)
        chars += worker.chars
        worker.chars = 0
    return work


class _Worker:
    def __init__(self, rng: random.Random, manner: Manner, output_lines: int) -> None:
        self.rng, self.manner, self.output_lines = rng, manner, output_lines
        self.turns: list[Turn] = []
        self.facts: list[Fact] = []
        self.chars = 0
        self.n_calls = 0
        self.files: dict[str, list[str]] = {}
        self.lines_run: list[str] = []
        self.failing: list[tuple[str, str]] = []
        self.given: list[tuple[str, str]] = []

    # Words

    def word(self, n_syllables: int | None = None) -> str:
        syllables = _SYLLABLES.split()
        return "".join(self.rng.choice(syllables) for _ in range(n_syllables or self.rng.randint(2, 3)))

    def name(self) -> str:
        one, other = self.word(), self.word()
        number = self.rng.randint(2, 99)
        return self.rng.choice(
            (
                f"{one}_{other}",
                one + other.capitalize(),
                one.capitalize() + other.capitalize(),
                f"{one}-{number}",
            )
        )

    def path(self) -> str:
        """Return a file: mostly one of the last that were touched, seldom any earlier one, or a new one."""
        rng, known = self.rng, list(self.files)
        if known and rng.random() < 0.75:
            path = rng.choice(
                known[-6:] if rng.random() < 0.6 else known[-40:] if rng.random() < 0.8 else known
            )
            self.files[path] = self.files.pop(path)
            return path
        folder = rng.choice(("app", "pkg", "lib", "internal", "web/src"))
        ending = rng.choice((".py", ".go", ".tsx", ".rb", ".sql", ".yaml", ".kt"))
        path = f"{folder}/{self.word()}/{self.name()}{ending}"
        self.files[path] = self.code(rng.randint(20, self.output_lines + 20)).split("\n")
        return path

    def again(self, earlier: list[T], share: float) -> T | None:
        """Return one of the newest items of *earlier* for a *share* of the calls, else None."""
        return self.rng.choice(earlier[-12:]) if earlier and self.rng.random() < share else None

    def prose(self, n_words: int) -> str:
        return " ".join(self.word(self.rng.randint(1, 4)) for _ in range(n_words)).capitalize() + "."

    def code(self, n_lines: int) -> str:
        lines = []
        for _ in range(n_lines):
            one, other, third = self.word(), self.word(), self.word()
            lines.append(
                self.rng.choice(
                    (
                        f"def {one}_{other}({third}):",
                        f"    {one} = {other}.{third}({self.rng.randint(0, 99)})",
                        f"    if {one} is None:",
                        f"        return {one}.{other}({third})",
                    )
                )
            )
        return "\n".join(lines)

    def log(self, n_lines: int) -> list[str]:
        rng, kind = self.rng, self.rng.randrange(4)
        return [
            (
                f"{self.word()}/{self.word()} ok {rng.randint(1, 900) / 100}s",
                f"2026-03-{rng.randint(1, 28):02d}T0{rng.randint(0, 9)}:00:11Z INFO {self.word()} processed",
                f"   compiling {self.word()} v{rng.randint(0, 9)}.{rng.randint(0, 9)}",
                self.prose(rng.randint(5, 12)),
            )[kind]
            for _ in range(n_lines)
        ]

    def error(self) -> str:
        n, m = self.rng.randint(2, 999), self.rng.randint(2, 99)
        return self.rng.choice(_ERRORS).format(p=self.path(), i=self.name(), n=n, m=m)

    def fact(self, kind: str, text: str, stale: str = "") -> str:
        self.facts.append(Fact(kind=kind, text=text, stale=stale))
        return text

    # Turns

    def play_round(self) -> None:
        """Play a prompt, the steps of the agent and its answer."""
        self.add(UserTurn((TextBlock(self.prompt()),)))
        for _ in range(self.rng.randint(2, 9)):
            self.step()
        self.add(AssistantTurn((TextBlock(self.prose(self.rng.randint(8, 40))),)))

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        for block in turn.blocks:
            shown = {name: getattr(block, name, "") for name in ("text", "input", "output")}
            self.chars += len(json.dumps(shown, ensure_ascii=False)) - 36

    def prompt(self) -> str:
        rng = self.rng
        parts = [self.fact("request", rng.choice(_TASKS).format(self.name(), self.name()))]
        match rng.randrange(20):
            case 0 | 1 | 2 | 3 | 4 | 5:
                wish = rng.choice(_WISHES).format(self.name(), self.name())
                parts.insert(rng.randint(0, 1), self.fact("rule", wish))
            case 6 | 7 | 8:
                rows = [f"| {self.name()} | {self.name()} |" for _ in range(rng.randint(3, 7))]
                parts += ["| one | the other |", "|---|---|", *rows]
                self.fact("rule", rng.choice(rows))
            case 9 | 10:
                log = self.log(rng.randint(10, 60))
                log.insert(rng.randint(5, len(log)), self.fact("pasted", self.error()))
                parts += ["I get this:", "", "```", *log, "```"]
            case 11 | 12:
                words = [self.prose(rng.randint(6, 14)) for _ in range(rng.randint(6, 20))]
                wish = self.fact("rule", f"leave {self.name()} alone and go through {self.name()}")
                words.insert(rng.randint(0, len(words)), f"Please {wish}.")
                parts.append(" ".join(words))
            case 13 | 14 | 15:
                parts.append(self.fact("no rule", rng.choice(_NO_RULES).format(self.name(), self.name())))
            case 16 | 17 if self.given:
                name, old = self.given.pop(rng.randrange(len(self.given)))
                new = str(rng.randint(2_000, 60_000))
                forms = ("{}: {} instead", "sorry, {} is {} now", "{} -> {}")
                parts.append(self.fact("correction", rng.choice(forms).format(name, new), stale=old))
            case _:
                name = self.name()
                parts.append(self.fact("rule", f"{name} is {rng.randint(2_000, 60_000)}"))
                self.given.append((name, parts[-1]))
        return "\n".join(parts)

    def step(self) -> None:
        """Play a reply with one call, and its result."""
        rng = self.rng
        said = self.prose(rng.randint(3, 18)) if rng.random() < 0.7 else ""
        if rng.random() < 0.12:
            decision = self.fact("decision", f"I went with {self.name()} rather than {self.name()}")
            said = f"{said} {decision}, since {self.prose(5)}"
        tool, given, output, is_error = self.call()
        self.n_calls += 1
        call = ToolCallBlock(f"call-{self.n_calls}", _TOOLS[self.manner][tool], given)
        self.add(AssistantTurn((TextBlock(said), call) if said else (call,)))
        self.add(ToolTurn((ToolResultBlock(call.id, output, is_error),)))

    def call(self) -> tuple[str, dict[str, Any], str, bool]:
        rng, n_lines = self.rng, self.rng.randint(3, self.output_lines)
        match rng.choice(("read", "read", "edit", "run", "run", "fail", "find", "write", "http", "ask")):
            case "read":
                path = self.fact("path read", self.path())
                line = f"sed -n '1,{rng.randint(80, 300)}p' {path}"
                return (
                    "read",
                    self.arguments(path=path) | self.words(line),
                    "\n".join(self.files[path]),
                    False,
                )
            case "edit":
                path, new = self.fact("path edited", self.path()), self.code(5)
                lines = self.files[path]
                at = rng.randrange(len(lines))
                old, lines[at : at + 3] = "\n".join(lines[at : at + 3]), new.split("\n")
                hunk = "".join(f"-{line}\n" for line in old.split("\n")) + f"+{new}\n"
                patch = {"input": f"*** Begin Patch\n*** Update File: {path}\n@@\n{hunk}*** End Patch"}
                given = patch if self.manner == "codex" else self.arguments(path=path, old=old, new=new)
                return "edit", given, f"{path} updated", False
            case "write":
                path, new = self.fact("path edited", self.path()), self.code(n_lines)
                self.files[path] = new.split("\n")
                patch = {"input": f"*** Begin Patch\n*** Add File: {path}\n+{new}\n*** End Patch"}
                given = patch if self.manner == "codex" else self.arguments(path=path, content=new)
                return "write", given, f"{path} written", False
            case "find":
                name = self.fact("search", self.name())
                hits = [
                    f"{self.path()}:{rng.randint(1, 900)}:{self.word()} {name}()"
                    for _ in range(rng.randint(2, 20))
                ]
                given = self.arguments(pattern=name, folder=self.word()) | self.words(f"rg -n {name}")
                return "find", given, "\n".join(hits), False
            case "http":
                items = [
                    {self.word(): self.word(), "n": rng.randint(1, 9)} for _ in range(rng.randint(4, 40))
                ]
                items[-1]["id"] = self.fact("value", self.name())
                return (
                    "http",
                    {"url": f"https://{self.word()}.example/{rng.randint(10, 9999)}"},
                    json.dumps(items),
                    False,
                )
            case "ask":
                fault = rng.choice(("leaks a handle", "is called twice", "ignores the lock", "has no caller"))
                found = self.fact("finding", f"{self.path()}:{rng.randint(1, 900)} {self.name()} {fault}")
                report = [self.prose(rng.randint(8, 20)) for _ in range(rng.randint(4, 16))]
                report.insert(rng.randint(0, len(report)), f"- {found}")
                return "ask", {"prompt": self.prose(20)}, "\n".join(report), False
            case "fail":
                output = self.log(n_lines)
                line, error = self.again(self.failing, 0.4) or (
                    f"{self.word()}ctl {self.word()} --{self.word()} {self.name()}",
                    self.error(),
                )
                self.failing.append((line, error))
                output.insert(rng.randint(len(output) // 2, len(output)), self.fact("error", error))
                return "run", {"command": line} | self.words(line), "\n".join(output), rng.random() < 0.5
            case _:
                program = rng.choice(("make", "go test ./... -run", "bundle exec rake", "npm run"))
                line = self.again(self.lines_run, 0.4) or f"{program} {self.name()}"
                self.lines_run.append(self.fact("command", line))
                output = self.log(n_lines)
                if rng.random() < 0.4:
                    values = (
                        f"coverage {self.word()} {rng.randint(10, 99)}.{rng.randint(1, 99)}%",
                        f"listening on 0.0.0.0:{rng.randint(2_000, 60_000)}",
                        f"checksum {rng.getrandbits(48):012x}",
                        f"{rng.randint(100, 9_999)} rows in {self.name()}",
                    )
                    output.insert(rng.randint(0, len(output)), self.fact("value", rng.choice(values)))
                return "run", {"command": line} | self.words(line), "\n".join(output), False

    def arguments(self, **given: str) -> dict[str, Any]:
        names = _ARGUMENTS[self.manner]
        return (
            {names.get(name, name): value for name, value in given.items()} if self.manner != "codex" else {}
        )

    def words(self, line: str) -> dict[str, Any]:
        """Return *line* as Codex writes it, nothing for the other agents."""
        return {"command": ["bash", "-lc", line]} if self.manner == "codex" else {}


def share_kept(facts: Sequence[Fact], view: str) -> dict[str, tuple[int, int]]:
    """Return for each kind how many of *facts* stand in *view*, and how many there are.

    ``stale alone`` counts the corrections of which only the old value stands there.
    """
    found: dict[str, tuple[int, int]] = {}
    for fact in facts:
        is_there = fact.text in view
        for kind, counts in (
            (fact.kind, is_there),
            ("stale alone", bool(fact.stale) and fact.stale in view and not is_there),
        ):
            if kind == fact.kind or fact.stale:
                there, total = found.get(kind, (0, 0))
                found[kind] = there + counts, total + 1
    return found
