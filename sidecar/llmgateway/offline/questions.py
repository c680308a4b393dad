"""The five questions of every newcomer, and the places where a project answers them. Pure.

A newcomer asks for the purpose of a project, for the commands to install, test or build it, for the place of
a name, for its uses, and for the newest changes. The answers stand in files of known names, in definitions,
and in the history: none has to be understood. So a question is read by its form, its places are looked up in
two rounds of calls, a third where the usual pages say nothing, and the answer is a list of lines, each with
its place.

* *about*: the title and the first paragraphs of the README, and the description in the manifest.
* *how*: targets of the Makefile, scripts of the manifest, and the commands below headings of README and
  CONTRIBUTING, which name the wanted work; else the usual command for such a manifest, else other pages.
  Pages in a folder of the question ("start the api") are read first.
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
from sidecar.llmgateway.offline.intent import STOP_WORDS, WORKS, is_code, is_path, strip_punctuation
from sidecar.llmgateway.offline.lookups import (
    CitedLine,
    Lookup,
    OfferedTools,
    PlannedCall,
    as_is,
    list_entries,
)

QuestionKind: TypeAlias = Literal["about", "how", "where", "uses", "changes"]

_GRADLE: Final = {"test": "./gradlew test", "build": "./gradlew build", "run": "./gradlew run"}
_MANIFESTS: Final[Mapping[str, Mapping[str, str]]] = {
    "pyproject.toml": {"install": "pip install .", "test": "python -m pytest", "build": "python -m build"},
    "package.json": {"install": "npm install"},
    "Cargo.toml": {
        "install": "cargo install --path .",
        "test": "cargo test",
        "build": "cargo build",
        "run": "cargo run",
    },
    "go.mod": {"install": "go install ./...", "test": "go test ./...", "build": "go build ./..."},
    "Gemfile": {"install": "bundle install", "test": "bundle exec rake test"},
    "pom.xml": {"install": "mvn install", "test": "mvn test", "build": "mvn package"},
    "build.gradle": _GRADLE,
    "build.gradle.kts": _GRADLE,
    "Package.swift": {"test": "swift test", "build": "swift build", "run": "swift run"},
    "mix.exs": {"install": "mix deps.get", "test": "mix test", "build": "mix compile"},
    "meson.build": {"build": "meson setup build && ninja -C build", "test": "meson test -C build"},
    "CMakeLists.txt": {"build": "cmake -B build && cmake --build build", "test": "ctest --test-dir build"},
    "setup.py": {"install": "pip install .", "test": "python -m pytest"},
    "requirements.txt": {"install": "pip install -r requirements.txt"},
    "composer.json": {"install": "composer install"},
}
"""The usual commands for a project with such a manifest, where the project names none itself."""

_MAKEFILES: Final = re.compile(
    r"(?:gnu)?makefile|justfile|taskfile\.ya?ml|tox\.ini|noxfile\.py", re.IGNORECASE
)
_README: Final = re.compile(r"(?:.*/)?readme(?:\.(?:md|rst|txt|adoc|markdown))?", re.IGNORECASE)
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
_WHAT: Final = re.compile(r"\bwhat (?:does|do|is|are)\b(?P<what>.{1,80})", re.IGNORECASE)
_HOW: Final = re.compile(r"\b(?:how|command|steps?|instructions?|way to|need to)\b", re.IGNORECASE)
_ABOUT_WORK: Final = re.compile(
    rf"\w*(?:{'|'.join((_HOW.pattern, *WORKS.values()))})\w*|\brun\b", re.IGNORECASE
)
_HOW_IT_IS: Final = re.compile(r"\bhow (?:does|is|are|many|much|long|often)\b", re.IGNORECASE)
_TASK: Final = re.compile(rf"\W*(?:please )?(?:{'|'.join(WORKS)})\b", re.IGNORECASE)
_ASIDES: Final = """
a add an and are at be by called can class code configured contain contains create deal deals
declared define defined defines directly do does done file folder for from function handle handled
handles happen happens how i implement implemented implements in is it its kept live lives located
made make method module my named need new of on or our project responsible set sets should step stored that
the there this to used we with work works write you
"""
_ASIDE: Final = frozenset(_ASIDES.split())
"""The words around a name that are none of it."""
_SUFFIX: Final = re.compile(r"(?<=\w{4})(?:ing|ed|es|s)\Z")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KEYWORDS: Final = (
    "def|defp|defmodule|class|fn|fun|func|function|const|let|var|val|type|struct|enum|union|interface|trait|impl|module"
    "|macro_rules!|record|object|protocol|namespace|package|sub"
)
_KEYWORD: Final = re.compile(rf"\b({_KEYWORDS})\s+(?:\([^)]*\)\s*)?(\w+)")
_VISIBILITY: Final = re.compile(r"\bpub\([^)]*\)")
_OF_KIND: Final = re.compile(r"\s*\*|\s+\w+\s*[;=,)\[(]")
"""Behind ``struct name``: a variable of that kind, and no definition of it."""
_MACRO: Final = re.compile(r"#\s*define\s+(\w+)|typedef\b.*?(\w+)(?:\[\w*\])?;\Z")
_VALUE: Final = re.compile(r"(?:[\w.<>\[\],:*&]+\s+)*(\w+)\s*(?::[^=]+)?=(?![=>])")
_FUNCTION: Final = re.compile(r"([^()='\"]*?)~?(\w+)\s*\(")
_STATEMENT: Final = re.compile(
    r"(?:assert|await|case|catch|defer|delete|elif|else|except|export \{|for|from|go|if|import|new|raise"
    r"|return|switch|throw|use|using|while|with|yield)\b|[#/*.@\"'`]|[-*] "
)
"""A line that uses names, a comment or prose."""
_LISTED: Final = re.compile(r"(?:\d+[.)]|[-*+]) ")
_TAG: Final = re.compile(r"</?[A-Za-z!][^>]*>|\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?")
"""A tag of HTML, or a picture."""
_RULE: Final = re.compile(r"([=~^\"'`#*+.:_-])\1{2,}")
_FENCE: Final = re.compile(r"```|~~~")
_ADOC_FENCE: Final = re.compile(r"(?:-{4,}|\.{4,}|={4,})\Z")
_HASHED: Final = re.compile(r"(#{1,6}|={1,6})\s+\S")
_NUMBERED: Final = re.compile(r"\d+(?:\.\d+)*[.)]?\s+\S")
_EDGE: Final = re.compile(r"\.\. |:[\w-]+:(?: |\Z)|\[[\w, =-]+\]\Z|\|")
"""Directives and settings of a page, and the rows of a table."""
_TARGET: Final = re.compile(r"\A([A-Za-z][\w.-]*)\s*(?:[\w-]+=\S*\s*)*:(?!=)")
_SCRIPT: Final = re.compile(r'"([\w:.-]+)"\s*:\s*"(?![\^~<>=\d*])')
"""A script in a manifest; one with a version is a package."""
_DESCRIBES: Final = re.compile(
    r'\A[\s{]*"?(?:name|description|summary)"?\s*[:=]\s*["\']|\Amodule\s|\A\s*<(?:name|description)>'
    r"|\A(?:project|setup)\b *\(|\A\s*rootProject\.name"
)
_NO_CODE: Final = (".md", ".rst", ".txt", ".json", ".toml", ".lock", ".html", "LICENSE")
_SHOWN: Final = 10
_BETWEEN: Final = r"(?:_|\W{0,2})"
"""What may stand between the words of a name."""
_SEARCHED: Final = 300
_MOST_LINES: Final = 200
"""A search shows so many lines and no more."""
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
    >>> read_question("build it") == NewcomerQuestion(kind="how", work="build")
    True
    >>> read_question("where is the RetryPolicy defined?").words
    ('retry', 'policy')
    """
    line = " ".join(text.split())
    if not line or len(line) > 200:
        return None
    if (used := _USES.search(line)) and (words := name_words(used["after"]) or name_words(used["before"])):
        return NewcomerQuestion(kind="uses", words=words)
    forms = {work: re.compile(form, re.IGNORECASE) for work, form in WORKS.items()}
    others = name_words(_ABOUT_WORK.sub(" ", line))
    named = [work for work, form in forms.items() if form.search(line)]
    # "Run the tests" is about tests; the other work is named beside it.
    work = next((each for each in named if each != "run"), next(iter(named), ""))
    if _HOW.search(line) and not _HOW_IT_IS.search(line) and (work or others):
        return NewcomerQuestion(kind="how", work=work, words=others)
    if work and not others and _TASK.match(line):
        return NewcomerQuestion(kind="how", work=work)
    if (asked := _WHERE.search(line)) and (words := name_words(asked["what"])):
        return NewcomerQuestion(kind="where", words=words)
    if _CHANGES.search(line):
        return NewcomerQuestion(kind="changes")
    if _ABOUT.search(line):
        return NewcomerQuestion(kind="about")
    if (asked := _WHAT.search(line)) and (words := name_words(asked["what"])):
        return NewcomerQuestion(kind="where", words=words)
    return None


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
        if question.kind != "changes":
            yield from tools.calls("find", name="README*")
        if question.kind == "how":
            yield from tools.calls("find", name="CONTRIBUTING*")
    elif len(rounds) == 1:
        # A listing has sizes behind the names.
        lines = (line for each in known if each.tool in ("ls", "find") for line in each.lines)
        names = [line.partition(" (")[0] for line in lines]
        for wanted in wanted_files(question, names):
            yield from tools.calls("read", path=wanted)
    elif question.kind == "how" and tools.takes("grep", "pattern", "glob", "ignore_case"):
        work = question.work or " ".join(question.words)
        if not find_commands([*lines_of(known)], work):
            forms = WORKS.get(work, "|".join(work.split()))
            yield from tools.calls("grep", pattern=forms, glob="*.{md,rst,adoc}", ignore_case=True)


def plan_search(
    question: NewcomerQuestion, known: Sequence[Lookup], tools: OfferedTools
) -> Iterator[PlannedCall]:
    """Yield searches for the name, and for definitions with one of its words where none has all of them."""
    forms = [f"(?:{word}|{word.capitalize()}|{word.upper()})" for word in question.words]
    is_use = question.kind == "uses"
    whole = rf"\b{_BETWEEN.join(forms)}\b" if is_use else "[ _.:-]{0,2}".join(forms)
    if not known:
        if question.kind == "where":
            yield from tools.calls("grep", pattern=rf"\b(?:{_KEYWORDS}) \w*?{whole}")
            yield from tools.calls("grep", pattern=rf"[\w>][ *&:]+{whole}\(|#define {whole}")
            yield from tools.calls("find", name=f"*{'*'.join(question.words)}*")
        yield from tools.calls("grep", pattern=whole)
    elif (
        question.kind == "where"
        and len(forms) > 1
        and not any(defines(line, question.words) for line in lines_of(known))
    ):
        yield from tools.calls("grep", pattern=rf"\b(?:{_KEYWORDS}) \w*?(?:{'|'.join(forms)})")


def lines_of(lookups: Sequence[Lookup]) -> Iterator[CitedLine]:
    """Yield the lines that *lookups* found."""
    return (line for lookup in lookups if not lookup.is_error for line in lookup.cited)


def defines(line: CitedLine, words: Sequence[str]) -> bool:
    """Whether *line* defines something with all of *words* in its name."""
    name = find_defined_name(line)
    return all(word in name for word in words)


def find_defined_name(line: CitedLine) -> str:
    """Return the name that *line* of code defines, in small letters; empty for none.

    >>> lines = ("static int grow(struct str *s)", "MAX = f(y)", "return grow(s)")
    >>> [find_defined_name(CitedLine("a.c", 1, text, "grep")) for text in lines]
    ['grow', 'max', '']
    """
    text = _VISIBILITY.sub("", line.text[:_SEARCHED].strip())
    if line.path.endswith(_NO_CODE):
        return ""
    if named := _MACRO.match(text):
        return (named[1] or named[2]).lower()
    if _STATEMENT.match(text):
        return ""
    head = re.split(r"[(=\"']", text, maxsplit=1)[0]
    if (found := _KEYWORD.search(text)) and found.start() < len(head):
        is_variable = found[1] in ("struct", "class", "enum", "union") and _OF_KIND.match(text, found.end())
        return "" if is_variable else found[2].lower()
    if (value := _VALUE.match(text)) and not text.endswith(","):
        return value[1].lower()
    called = _FUNCTION.match(text)
    has_body = "{" in text[text.find(")") :]
    is_function = called and (has_body or (called[1].strip() and text.endswith((")", ",", "("))))
    return called[2].lower() if called and is_function and "." not in called[1] else ""


def wanted_files(question: NewcomerQuestion, names: Sequence[str]) -> list[str]:
    """Return the files among *names* that answer *question*: in a folder that it names, else the outermost.

    >>> about = NewcomerQuestion(kind="about")
    >>> wanted_files(about, ["Makefile", "docs/README.md", "README.md", "src/", "Cargo.toml"])
    ['README.md', 'Cargo.toml']
    """
    manifests = [name for name in _MANIFESTS if name in names][:1]
    by_form = {
        "about": (_README,),
        "how": (_MAKEFILES, _README, _CONTRIBUTING),
        "changes": (_CHANGELOG,),
    }[question.kind]

    def far(name: str) -> tuple[bool, int]:
        folders = name.lower().split("/")[:-1]
        return not any(word in folders for word in question.words), len(folders)

    files = [
        next((name for name in sorted(names, key=far) if form.fullmatch(name)), None) for form in by_form
    ]
    return [*filter(None, files), *([] if question.kind == "changes" else manifests)]


def answer_question(question: NewcomerQuestion, lookups: Sequence[Lookup]) -> str:
    """Return the lines that answer *question*, with their places; empty where another search may do."""
    lines = [*lines_of(lookups)]
    match question.kind:
        case "about":
            text = cite("The project says of itself:", describe(lines))
            return text or "\n\n".join(("No README and no manifest says it.", list_entries(lookups)))
        case "how":
            work = question.work or " ".join(question.words)
            read = ", ".join(dict.fromkeys(f"`{line.path}`" for line in lines))
            looked = f"I looked in {read}" if read else "no README and no manifest is here"
            text = cite(f"Lines about `{work}`:", find_commands(lines, work))
            return text or f"Nothing says how to `{work}`: {looked}."
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
                "\n".join(("The newest commits:", "", *(f"- {as_is(line)}" for line in commits)))
                if commits
                else ""
            )
            parts = [(part, line) for part, line in read_pages(lines) if part != "edge"]
            newest = [line for part, line in parts if part == "heading" or _LISTED.match(line.text.strip())]
            text = "\n\n".join(filter(None, (shown, cite("The changelog begins:", newest[:_SHOWN]))))
            return text or "No history of git and no changelog is here."


PagePart: TypeAlias = Literal["heading", "prose", "code", "edge"]


def read_pages(lines: Iterable[CitedLine]) -> Iterator[tuple[PagePart, CitedLine]]:
    """Yield the lines of pages that are not blank with their parts; *edge* is not for readers.

    Markdown, reStructuredText, AsciiDoc and plain text are told apart by their forms, and not by their names:
    a heading is marked in front, or underlined, or numbered between blank lines; code is fenced or indented.
    """
    for _, group in groupby(lines, lambda line: line.path):
        yield from read_page(list(group))


def read_page(lines: Sequence[CitedLine]) -> Iterator[tuple[PagePart, CitedLine]]:
    """Yield the lines of one page as :func:`read_pages` does."""
    texts = ["", *(line.text.rstrip() for line in lines), ""]
    is_adoc, is_markdown = (
        lines[0].path.endswith(".adoc"),
        lines[0].path.lower().endswith((".md", ".markdown")),
    )
    fence, block, is_listed = "", "", False
    for at, line in enumerate(lines, 1):
        raw, text = texts[at], texts[at].strip()
        before, after = texts[at - 1], texts[at + 1]
        is_indented = raw.startswith(("\t", "    " if is_markdown else "  "))
        opening = (_ADOC_FENCE if is_adoc else _FENCE).match(text)
        if fence or opening:
            if opening and (not fence or text.startswith(fence)):
                fence = "" if fence else opening[0]
                yield "edge", line
            elif text:
                yield "code", line
        elif not text:
            continue
        elif is_indented and block == "edge":
            yield "edge", line
        elif is_indented and not is_listed and (block or not before):
            block = "code"
            yield "code", line
        elif _RULE.fullmatch(text):
            yield "edge", line
        elif raw.startswith(".. "):
            block = "code" if re.match(r"\.\. (?:code|sourcecode|parsed-literal)", raw) else "edge"
            yield "edge", line
        elif _EDGE.match(text):
            yield "edge", line
        elif (
            (_HASHED.match(raw) and (is_adoc or raw.startswith("#")))
            or (after and not is_indented and _RULE.fullmatch(after) and len(after) > 2)
            or (_NUMBERED.match(raw) and not before and not after and not is_markdown)
        ):
            block, is_listed = "", False
            yield "heading", line
        else:
            if not is_indented:
                block, is_listed = "", _LISTED.match(text) is not None
            plain = _TAG.sub("", text).strip()
            yield "prose" if plain else "edge", replace(line, text=plain or text) if plain != text else line


def describe(lines: Sequence[CitedLine]) -> list[CitedLine]:
    """Return the title and the first paragraphs among *lines* of a README, and the facts of a manifest."""
    found: list[CitedLine] = []
    for path, group in groupby(lines, lambda line: line.path):
        each = list(group)
        if not _README.fullmatch(path):
            found += [line for line in each if _DESCRIBES.match(line.text)][:3]
            continue
        shown: list[CitedLine] = []
        has_prose = False
        for part, line in read_page(each):
            if part == "heading" and has_prose:
                break
            has_prose = has_prose or (part == "prose" and bool(shown))
            if part == "prose" or (part == "heading" and not shown):
                shown.append(line)
        found += shown[:7]
    return found


def find_commands(lines: Sequence[CitedLine], work: str) -> list[CitedLine]:
    """Return the lines that say how to do *work*, the best ones in their order."""
    forms = re.compile(rf"\b(?:{WORKS.get(work, '|'.join(work.split()))})", re.IGNORECASE)
    scored: list[tuple[float, int, CitedLine]] = []
    for path, group in groupby(lines, lambda line: line.path):
        each = list(group)
        name = path.rpartition("/")[2]
        is_page = name.endswith((".md", ".rst", ".txt", ".adoc")) or _README.fullmatch(name)
        scores = score_prose(each, forms) if is_page else score_recipe(each, forms, is_build=work == "build")
        scored += [(score, len(scored), line) for score, line in scores if score]
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
    section = 0
    for part, line in read_page(lines):
        has_form = forms.search(line.text) is not None
        commands = [each for each in re.findall(r"`+([^`]+)`", line.text) if "/" not in each.split(" ")[0]]
        match part:
            case "heading":
                marks = _HASHED.match(line.text)
                level = len(marks[1]) if marks else 2
                section = level if has_form else section if level > section else 0
                yield (2.5 if has_form else 0), line
            case "code":
                is_command = forms.search(line.text.partition(" #")[0]) is not None
                yield (3.0 if is_command else _GOOD if section or has_form else 0), line
            case "prose" if any(map(forms.search, commands)):
                yield 2.5, line
            case "prose" if section and (commands or _LISTED.match(line.text.strip())):
                yield _GOOD, line
            case "prose":
                yield (
                    (
                        _GOOD
                        if has_form and commands
                        else 1.0
                        if has_form and section
                        else 0.5
                        if has_form
                        else 0
                    ),
                    line,
                )
            case "edge":
                pass


def score_recipe(
    lines: Sequence[CitedLine], forms: re.Pattern[str], *, is_build: bool
) -> Iterator[tuple[float, CitedLine]]:
    """Yield *lines* of a Makefile or a manifest with their worth: targets and scripts of *forms*.

    A plain ``make`` makes the first target, which mostly builds.
    """
    has_first = False
    for line in lines:
        target = _TARGET.match(line.text)
        names = [target[1]] if target else _SCRIPT.findall(line.text)
        is_first = target is not None and not has_first and _MAKEFILES.fullmatch(line.path) is not None
        has_first = has_first or is_first
        is_table = line.text.startswith("[") and forms.search(line.text) is not None
        if any(map(forms.search, names)):
            yield 3.0, line
        elif is_build and is_first:
            yield 1.5, line
        elif is_table:
            yield 1.0, line


def locate(words: Sequence[str], lines: Iterable[CitedLine], files: Sequence[str]) -> str:
    """Return the lines with most of *words* in name and path, definitions first, and the *files* so named."""
    ranked: dict[tuple[str, int], tuple[float, CitedLine]] = {}
    for line in lines:
        name = find_defined_name(line)
        score = 3.0 * sum(word in name for word in words) + 2 * all(word in name for word in words)
        score += 2 * (re.sub(r"[\W_]", "", name) == "".join(words))
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
    whole = "".join(words)

    def is_named_so(path: str) -> bool:
        stem = path.rstrip("/").rpartition("/")[2].partition(".")[0]
        return re.sub(r"[\W_]", "", stem).lower() in (whole, f"{whole}s")

    named = sorted(
        filter(is_path, files),
        key=lambda path: (not is_named_so(path), is_test(path), path.rstrip("/").count("/"), path),
    )
    places = (f"- `{path}`" if path.endswith("/") else f"- `{path}:1`" for path in named[:5])
    parts = [
        cite(f"Found for `{' '.join(words)}`:", best[:_SHOWN]),
        "\n".join((f"Files with such names, of {len(named)}:", "", *places)) if named else "",
    ]
    if named and is_named_so(named[0]):
        parts.reverse()
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
    least = "at least " if len(lines) >= _MOST_LINES else ""
    lines_of_files = f"{plural(len(uses), 'line')} of {plural(len(paths), 'file')}"
    head = f"`{whole}` stands in {least}{lines_of_files}, {n_tests} of them tests:"
    return cite(head, [first_use(by_file[path]) for path in paths[: _SHOWN + 2]])


def first_use(lines: Sequence[CitedLine]) -> CitedLine:
    """Return the first of *lines* that does more than import, else the first one."""
    return next((line for line in lines if not _STATEMENT.match(line.text.strip())), lines[0])


def plural(number: int, noun: str) -> str:
    """Return *number* of *noun* in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def is_test(path: str) -> bool:
    """Whether *path* is that of a test.

    >>> is_test("tests/a.py"), is_test("src/a_test.go"), is_test("src/latest.py")
    (True, True, False)
    """
    return re.search(r"(?:^|[/_.-])(?:tests?|specs?)(?:[/_.-]|$)", path) is not None


def cite(head: str, lines: Sequence[CitedLine]) -> str:
    """Return *lines* with their places below *head*; empty for none."""
    cited = (f"- `{line.path}:{line.line}` {as_is(line.text.strip())}" for line in lines)
    return "\n".join((head, "", *cited)) if lines else ""
