"""The five questions of every newcomer, and the places where a project answers them. Pure.

A newcomer asks for the purpose of a project, for the commands to install, test or build it, for the place of
a name, for its uses, and for the newest changes. The answers stand in files of known names, in definitions,
and in the history: none has to be understood. So a question is read by its form, its places are looked up in
two rounds of calls, and the answer is a list of lines, each with its place.

* *about*: the title and the first paragraphs of the README, and the description in the manifest.
* *how*: targets of the Makefile, scripts of the manifest, and the commands below headings of README and
  CONTRIBUTING, which name the wanted work; else the usual command for such a manifest.
* *where*: definitions with all wanted words in their names, in any spelling (*retry policy*: ``RetryPolicy``,
  ``retry_policy`` too), then files with such names, then definitions with some of the words.
* *uses*: lines with the name that do not define it, tests last, and in how many files they stand.
* *changes*: the newest commits, and the head of the changelog.

Example: "how can I run the tests?" asks for *test*, finds ``test:`` in ``Makefile:22``, and cites it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, Literal, TypeAlias

from sidecar._internal.values import Value, replace
from sidecar.llmgateway.offline.intent import STOP_WORDS, is_code, is_path, strip_punctuation
from sidecar.llmgateway.offline.lookups import CitedLine, Lookup, OfferedTools, PlannedCall

QuestionKind: TypeAlias = Literal["about", "how", "where", "uses", "changes"]

_VERBS: Final[Mapping[str, str]] = {
    "install": r"install|set.?up|set .{1,12} up|getting started|quick.?start|requirements|dependenc",
    "test": r"tests?\b|testing|pytest|unittest|check\b",
    "build": r"build|compil|\bdist\b|bundle|wheel",
    "run": r"\brun\b|running|start|serve|launch|usage|quick.?start|\bdev\b",
    "lint": r"lint|format|\bfmt\b|style|type.?check",
    "release": r"releas|publish|deploy",
    "contribute": r"contribut|pull request|patch|change looks|develop",
}
"""The work that a newcomer asks for, and the words by which headings, targets and scripts name it."""

_MANIFESTS: Final[Mapping[str, Mapping[str, str]]] = {
    "pyproject.toml": {"install": "pip install .", "test": "python -m pytest", "build": "python -m build"},
    "package.json": {
        "install": "npm install",
        "test": "npm test",
        "build": "npm run build",
        "run": "npm start",
    },
    "Cargo.toml": {
        "install": "cargo install --path .",
        "test": "cargo test",
        "build": "cargo build",
        "run": "cargo run",
    },
    "go.mod": {"install": "go install ./...", "test": "go test ./...", "build": "go build ./..."},
    "Gemfile": {"install": "bundle install", "test": "bundle exec rake test"},
    "pom.xml": {"install": "mvn install", "test": "mvn test", "build": "mvn package"},
    "build.gradle": {"test": "./gradlew test", "build": "./gradlew build", "run": "./gradlew run"},
    "CMakeLists.txt": {"build": "cmake -B build && cmake --build build", "test": "ctest --test-dir build"},
    "setup.py": {"install": "pip install .", "test": "python -m pytest"},
    "requirements.txt": {"install": "pip install -r requirements.txt"},
    "composer.json": {"install": "composer install", "test": "composer test"},
}
"""The usual commands for a project with such a manifest, where the project names none itself."""

_MAKEFILES: Final = re.compile(
    r"(?:gnu)?makefile|justfile|taskfile\.ya?ml|tox\.ini|noxfile\.py", re.IGNORECASE
)
_README: Final = re.compile(r"readme(?:\.(?:md|rst|txt|adoc))?", re.IGNORECASE)
_CONTRIBUTING: Final = re.compile(
    r"(?:.*/)?(?:contributing|install|hacking|development)(?:\.(?:md|rst|txt))?", re.IGNORECASE
)
_CHANGELOG: Final = re.compile(
    r"(?:changelog|changes|history|news|releases)(?:\.(?:md|rst|txt))?", re.IGNORECASE
)
_LOG: Final = "git log -n 12 --date=short --format='%h %ad %s'"

_ABOUT: Final = re.compile(
    r"\b(?:what|describe|explain|overview|summari[sz]e|purpose|tell me about)\b.{0,40}"
    r"\b(?:projects?|repo(?:sitory)?|package|code ?base|program|library|app|about)\b"
    r"|\A\W*what is (?:this|it)\W*\Z",
    re.IGNORECASE,
)
_CHANGES: Final = re.compile(
    r"\b(?:what|anything|which|show|list|recent|latest|last)\b.{0,40}"
    r"\b(?:changed?|changes|new|news|commits?|happened|history|release notes)\b.{0,30}\Z|\bchangelog\b",
    re.IGNORECASE,
)
_USES: Final = re.compile(
    r"\b(?:what|who|which \w+|where(?: is| are)?)\b(?P<before>.{0,60}?)\b(?:us(?:es?|ed|ing)|calls?|called"
    r"|imports?|imported|depends? on|references?|referenced)\b(?P<after>.{0,60})",
    re.IGNORECASE,
)
_WHERE: Final = re.compile(
    r"\b(?:where(?:'s| is| are| do| does| can| would| should)?|in which \w+"
    r"|which (?:file|module|class|function|folder)s?|find|locate|how (?:does|do|is|are))\b(?P<what>.{1,80})",
    re.IGNORECASE,
)
_HOW: Final = re.compile(r"\b(?:how|command|steps?|instructions?|way to|need to)\b", re.IGNORECASE)
_ASIDES: Final = """
a add an and are at be by called can class code configured contain contains create deal deals
declared define defined defines directly do does done file folder for from function handle handled
handles happen happens how i implement implemented implements in is it its kept live lives located
made make method module my named need new of on or our project responsible should step stored that
the there this to used we with work works write you
"""
_ASIDE: Final = frozenset(_ASIDES.split())
"""The words around a name that are none of it."""
_SUFFIX: Final = re.compile(r"(?<=\w{4})(?:ing|ed|es|s)\Z")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KEYWORDS: Final = (
    "def|class|fn|func|function|const|let|var|type|struct|enum|interface|trait|impl|module|macro_rules!"
)
_DEFINED: Final = re.compile(rf"\b(?:{_KEYWORDS})\s+(?:\([^)]*\)\s*)?(\w+)")
_LISTED: Final = re.compile(r"(?:\d+\.|[-*]) ")
_BADGE: Final = re.compile(r"\A\s*(?:\Z|\[?!\[|<|\[!\[|---|===|\|)")
_TARGET: Final = re.compile(r"\A([A-Za-z][\w.-]*)\s*(?:[\w-]+=\S*\s*)*:(?!=)")
_SCRIPT: Final = re.compile(r'\A\s*"([\w:.-]+)"\s*:\s*"(?![\^~<>=\d*])')
"""A line of scripts in a manifest; one with a version is about a package."""
_DESCRIBES: Final = re.compile(
    r'\A\s*"?(?:name|description)"?\s*[:=]\s*"|\Amodule\s|\A\s*<(?:name|description)>'
)
_NO_CODE: Final = (".md", ".rst", ".txt", ".json", ".toml", ".lock", ".html", "LICENSE")
_SHOWN: Final = 10
_OF_FILE: Final = 2
"""How many lines of one file are shown where other files have some, too."""
_GOOD: Final = 2.0
"""The worth of a line that names the command, and not only the work."""


class NewcomerQuestion(Value, kw_only=True):
    """A question: *work* is that of a *how*, a key of the verbs; *words* make up the wanted name."""

    kind: QuestionKind
    work: str = ""
    words: tuple[str, ...] = ()


def read_question(text: str) -> NewcomerQuestion | None:
    """Return the question that *text* is, None for any other text.

    >>> read_question("How do I run the tests?")
    NewcomerQuestion(kind='how', work='test', words=())
    >>> read_question("where is the RetryPolicy defined?").words
    ('retry', 'policy')
    """
    line = " ".join(text.split())
    if not line or len(line) > 200:
        return None
    if (used := _USES.search(line)) and (words := name_words(used["after"]) or name_words(used["before"])):
        return NewcomerQuestion(kind="uses", words=words)
    if _HOW.search(line):
        named = [work for work, forms in _VERBS.items() if re.search(forms, line, re.IGNORECASE)]
        # "Run the tests" is about tests; the other work is named beside it.
        work = next((each for each in named if each != "run"), next(iter(named), ""))
        if not re.search(r"\bhow (?:does|is|are|many|much|long|often)\b", line, re.IGNORECASE):
            rest = () if work else name_words(line)
            return NewcomerQuestion(kind="how", work=work, words=rest) if work or rest else None
    if (asked := _WHERE.search(line)) and (words := name_words(asked["what"])):
        return NewcomerQuestion(kind="where", words=words)
    if _CHANGES.search(line):
        return NewcomerQuestion(kind="changes")
    return NewcomerQuestion(kind="about") if _ABOUT.search(line) else None


def name_words(text: str) -> tuple[str, ...]:
    """Return the words of the name in *text*, small and without endings; of a name in code those alone.

    >>> name_words("the parse_args() called"), name_words("are the permissions checked?")
    (('parse', 'args'), ('permission', 'check'))
    """
    tokens = [strip_punctuation(token) for token in text.split()]
    coded = [token for token in tokens if is_code(token)]
    if coded:
        return split_name(coded[0])
    kept = [each for each in tokens if each.lower() not in _ASIDE and each.lower() not in STOP_WORDS]
    return tuple(_SUFFIX.sub("", word) for each in kept for word in split_name(each))[:4]


def split_name(name: str) -> tuple[str, ...]:
    """Return the words of an identifier.

    >>> split_name("HTTPServer.max_retries"), split_name("tool-calls")
    (('http', 'server', 'max', 'retries'), ('tool', 'calls'))
    """
    return tuple(piece.lower() for piece in _PIECE.findall(name))


def plan_question(
    question: NewcomerQuestion, rounds: Sequence[Sequence[Lookup]], tools: OfferedTools
) -> Iterator[PlannedCall]:
    """Yield the calls of the next round for *question*, none when its places are known."""
    known = [lookup for lookups in rounds for lookup in lookups]
    if question.kind in ("where", "uses"):
        yield from plan_search(question, known, tools)
    elif not rounds:
        if question.kind == "changes":
            yield from tools.calls("bash", command=_LOG)
        yield from tools.calls("ls", path=".")
        if question.kind == "how":
            yield from tools.calls("find", name="CONTRIBUTING*")
    elif len(rounds) == 1:
        # A listing has sizes behind the names.
        lines = (line for each in known if each.tool in ("ls", "find") for line in each.lines)
        names = [line.partition(" (")[0] for line in lines]
        for wanted in wanted_files(question.kind, names):
            yield from tools.calls("read", path=wanted)


def plan_search(
    question: NewcomerQuestion, known: Sequence[Lookup], tools: OfferedTools
) -> Iterator[PlannedCall]:
    """Yield searches for the name, and for definitions with one of its words where none has all of them."""
    forms = [f"(?:{word}|{word.capitalize()}|{word.upper()})" for word in question.words]
    is_use = question.kind == "uses"
    whole = rf"\b{'[_-]?'.join(forms)}\b" if is_use else "[ _.-]?".join(forms)
    if not known:
        if question.kind == "where":
            yield from tools.calls("grep", pattern=f"(?:{_KEYWORDS}) \\w*?{whole}")
            yield from tools.calls("find", name=f"*{'*'.join(question.words)}*")
        yield from tools.calls("grep", pattern=whole)
    elif (
        question.kind == "where"
        and len(forms) > 1
        and not any(defines(line, question.words) for line in lines_of(known))
    ):
        yield from tools.calls("grep", pattern=f"(?:{_KEYWORDS}) \\w*?(?:{'|'.join(forms)})")


def lines_of(lookups: Sequence[Lookup]) -> Iterator[CitedLine]:
    """Yield the lines that *lookups* found."""
    return (line for lookup in lookups if not lookup.is_error for line in lookup.cited)


def defines(line: CitedLine, words: Sequence[str]) -> bool:
    """Whether *line* defines something with all of *words* in its name."""
    found = _DEFINED.search(line.text)
    return found is not None and all(word in found[1].lower() for word in words)


def wanted_files(kind: QuestionKind, names: Sequence[str]) -> list[str]:
    """Return the files among *names* that answer a question of *kind*.

    >>> wanted_files("about", ["Makefile", "README.md", "src/", "Cargo.toml"])
    ['README.md', 'Cargo.toml']
    """
    manifests = [name for name in _MANIFESTS if name in names][:1]
    by_form = {
        "about": (_README,),
        "how": (_MAKEFILES, _README, _CONTRIBUTING),
        "changes": (_CHANGELOG,),
    }[kind]
    files = [next((name for name in names if form.fullmatch(name)), None) for form in by_form]
    return [*filter(None, files), *([] if kind == "changes" else manifests)]


def answer_question(question: NewcomerQuestion, lookups: Sequence[Lookup]) -> str:
    """Return the lines that answer *question*, each with its place; empty where none were found."""
    lines = [*lines_of(lookups)]
    match question.kind:
        case "about":
            return cite("The project says of itself:", describe(lines))
        case "how":
            work = question.work or " ".join(question.words)
            return cite(f"Lines about `{work}`:", find_commands(lines, work))
        case "where":
            files = [
                path for each in lookups if each.tool == "find" and not each.is_error for path in each.lines
            ]
            return locate(question.words, lines, files)
        case "uses":
            return list_uses(question.words, lines)
        case "changes":
            log = [
                line for each in lookups if each.tool == "bash" and not each.is_error for line in each.lines
            ]
            commits = [line for line in log if re.match(r"[0-9a-f]{7,} \d{4}-", line)]
            shown = (
                "\n".join(("The newest commits:", "", *(f"- {line}" for line in commits))) if commits else ""
            )
            head = [line for line in lines if line.text.strip() and not _BADGE.match(line.text)]
            newest = [line for line in head if re.match(r"\s*(?:#|[-*] |\d)", line.text)]
            return "\n\n".join(filter(None, (shown, cite("The changelog begins:", newest[:_SHOWN]))))


def describe(lines: Sequence[CitedLine]) -> list[CitedLine]:
    """Return the title and the first paragraphs among *lines* of a README, and the facts of a manifest."""
    found: list[CitedLine] = []
    for path, group in groupby(lines, lambda line: line.path):
        each = list(group)
        if not _README.fullmatch(path.rpartition("/")[2]):
            found += [line for line in each if _DESCRIBES.match(line.text)][:3]
            continue
        title, *behind = [line for line in each if not _BADGE.match(line.text)] or [each[0]]
        n_prose = next(
            (
                at
                for at, line in enumerate(behind)
                if line.text.startswith("#") and any(map(is_prose, behind[:at]))
            ),
            len(behind),
        )
        found += [title, *filter(is_prose, behind[:n_prose])][:7]
    return found


def is_prose(line: CitedLine) -> bool:
    """Whether *line* of a page is neither blank, nor a heading, nor the edge of code."""
    return bool(line.text.strip()) and not line.text.startswith(("#", "```"))


def find_commands(lines: Sequence[CitedLine], work: str) -> list[CitedLine]:
    """Return the lines that say how to do *work*, the best ones in their order."""
    forms = re.compile(rf"\b(?:{_VERBS.get(work, '|'.join(work.split()))})", re.IGNORECASE)
    scored: list[tuple[float, int, CitedLine]] = []
    for path, group in groupby(lines, lambda line: line.path):
        name = path.rpartition("/")[2]
        scores = (
            score_prose if name.endswith((".md", ".rst", ".txt")) or _README.fullmatch(name) else score_recipe
        )
        scored += [(score, len(scored), line) for score, line in scores(list(group), forms) if score]
    best = sorted(scored, key=lambda each: -each[0])[:_SHOWN]
    if best and best[0][0] >= _GOOD:
        best = [each for each in best if each[0] > 1]
    else:
        names = ((line, _MANIFESTS.get(line.path.rpartition("/")[2], {}).get(work)) for line in lines)
        usual = (replace(line, text=f"{named} (usual with this file)") for line, named in names if named)
        best = [*((_GOOD, 0, line) for line in islice(usual, 1)), *best]
    worth = {line.path: score for score, _, line in reversed(best)}
    return [
        line
        for _, _, line in sorted(best, key=lambda each: (-worth[each[2].path], each[2].path, each[2].line))
    ]


def score_prose(lines: Sequence[CitedLine], forms: re.Pattern[str]) -> Iterator[tuple[float, CitedLine]]:
    """Yield *lines* of a page with their worth: commands below a heading of *forms* are worth most."""
    is_code, is_section = False, False
    for line in lines:
        text = line.text.strip()
        if text.startswith(("```", "~~~")):
            is_code = not is_code
            continue
        if not is_code and text.startswith("#"):
            is_section = forms.search(text) is not None
            yield (2.5 if is_section else 0), line
            continue
        is_command = is_code or text.startswith("$ ")
        has_form = forms.search(text) is not None
        if is_command and text:
            yield (3.0 if has_form else 1.5 if is_section else 0), line
        elif is_section and _LISTED.match(text):
            yield _GOOD, line
        else:
            yield (1.0 if has_form and is_section else 0.5 if has_form else 0), line


def score_recipe(lines: Sequence[CitedLine], forms: re.Pattern[str]) -> Iterator[tuple[float, CitedLine]]:
    """Yield *lines* of a Makefile or a manifest with their worth: targets and scripts of *forms*."""
    for line in lines:
        target = _TARGET.match(line.text) or _SCRIPT.match(line.text)
        is_table = line.text.startswith("[") and forms.search(line.text) is not None
        yield (3.0 if target and forms.search(target[1]) else 1.0 if is_table else 0), line


def locate(words: Sequence[str], lines: Iterable[CitedLine], files: Sequence[str]) -> str:
    """Return the lines with most of *words* in name and path, definitions first, and the *files* so named."""
    ranked: dict[tuple[str, int], tuple[float, CitedLine]] = {}
    for line in lines:
        found = _DEFINED.search(line.text)
        name = found[1].lower() if found is not None else ""
        score = 3.0 * sum(word in name for word in words) + 2 * all(word in name for word in words)
        score += sum(word in line.text.lower() for word in words)
        score += 1.5 * sum(
            re.search(rf"(?:^|[/_-]){re.escape(word)}", line.path.lower()) is not None for word in words
        )
        score -= 2 * is_test(line.path) + 1.5 * line.path.endswith(_NO_CODE)
        ranked[line.path, line.line] = score, line
    n_of_file: Counter[str] = Counter()
    best: list[CitedLine] = []
    for _, line in sorted(ranked.values(), key=lambda each: (-each[0], each[1].path, each[1].line)):
        n_of_file[line.path] += 1
        if n_of_file[line.path] <= _OF_FILE:
            best.append(line)
    named = sorted(filter(is_path, files), key=lambda path: (is_test(path), path.count("/"), path))
    parts = (
        cite(f"Found for `{' '.join(words)}`:", best[:_SHOWN]),
        "\n".join((f"Files with such names, of {len(named)}:", "", *(f"- `{path}:1`" for path in named[:5])))
        if named
        else "",
    )
    return "\n\n".join(filter(None, parts))


def list_uses(words: Sequence[str], lines: Sequence[CitedLine]) -> str:
    """Return the lines with *words* that do not define them, one of each file first, tests last."""
    whole = " ".join(words)
    uses = [line for line in lines if not defines(line, words)]
    by_file: dict[str, list[CitedLine]] = {}
    for line in uses:
        by_file.setdefault(line.path, []).append(line)
    if not by_file:
        return ""
    paths = sorted(by_file, key=lambda path: (is_test(path), path.endswith(_NO_CODE)))
    n_tests = sum(map(is_test, paths))
    head = f"`{whole}` stands in {len(uses)} lines of {len(paths)} files, {n_tests} of them tests:"
    return cite(head, [by_file[path][0] for path in paths[: _SHOWN + 2]])


def is_test(path: str) -> bool:
    """Whether *path* is that of a test.

    >>> is_test("tests/a.py"), is_test("src/a_test.go"), is_test("src/latest.py")
    (True, True, False)
    """
    return re.search(r"(?:^|[/_.-])(?:tests?|specs?)(?:[/_.-]|$)", path) is not None


def cite(head: str, lines: Sequence[CitedLine]) -> str:
    """Return *lines* with their places below *head*; empty for none."""
    from sidecar.llmgateway.offline.lookups import as_is

    cited = (f"- `{line.path}:{line.line}` {as_is(line.text.strip())}" for line in lines)
    return "\n".join((head, "", *cited)) if lines else ""
