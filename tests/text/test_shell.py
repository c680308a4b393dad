"""Command lines are read as bash reads them, or refused."""

from __future__ import annotations

import contextlib
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measures import count_steps
from sidecar.text.shell import MAX_CHARS, ShellSyntaxError, Word, parse_command_line, read_command_line


def texts(line: str) -> list[list[str | None]]:
    """Return the texts of the words of each command."""
    return [[word.text for word in command.words] for command in parse_command_line(line)]


LINES_READ = {
    "blanks": ("git  status\t-s", [["git", "status", "-s"]]),
    "quotes within a word": ("g'i't \"st\"atus", [["git", "status"]]),
    "backslashes": (r"g\it a\ b \\", [["git", "a b", "\\"]]),
    "backslashes in double quotes": ('"a\\"b\\$\\`\\\\\\n"', [['a"b$`\\\\n']]),
    "joined lines": ('a \\\n b "c\\\nd"', [["a", "b", "cd"]]),
    "ANSI quotes": ("$'a\\n\\t\\\\b'", [["a\n\t\\b"]]),
    "an empty word": ("''", [[""]]),
    "operators": ("a;b&c&&d||e|f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
    "a comment": ("a # b; c\nd", [["a"], ["d"]]),
    "no comment within a word": ("a b#c", [["a", "b#c"]]),
    "groups": ("(a; b) && { c; }", [["a"], ["b"], ["c"]]),
    "a negated pipeline": ("! a | b", [["a"], ["b"]]),
    "a line end after a pipe": ("a |\n b", [["a"], ["b"]]),
    "variables": ("a $x ${y} $1 $@", [["a", None, None, None, None]]),
    "a status is digits": ('a "b$x" $? $!', [["a", None, "0", None]]),
    "commands within": ("a $(b c) `d`", [["b", "c"], ["d"], ["a", None, None]]),
    "a text of many lines": ("a \"$(cat <<'E'\nx $y\nz\nE\n)\"", [["a", "x $y\nz"]]),
    "unquoted text is split": ("a $(cat <<'E'\nx\nE\n)", [["a", None]]),
    "two here-documents": ("a <<'A' <<B\nB\nA\nx; y\nB\nc", [["a"], ["c"]]),
    "a here-document with tabs": ("a <<-E\n\tx\n\tE\nb", [["a"], ["b"]]),
    "redirections between words": ("a 2>&1 >x 3</dev/null b", [["a", "b"]]),
    "braces without a list": ("a {b} {} x{0}", [["a", "{b}", "{}", "x{0}"]]),
    "lists in braces": ('a {b,c} {1..3} {"b",c}', [["a", None, None, None]]),
    "a tilde behind =": ("a x=~/y HEAD~1", [["a", None, "HEAD~1"]]),
    "other tildes": ("a ~+/x ~user ~-", [["a", None, None, None]]),
    "a loop over plain words": (
        'for x in b c/d; do a $x "-$x"; done; e $x',
        [["a", "b", "-b"], ["a", "c/d", "-c/d"], ["e", None]],
    ),
    "a loop of lines": ("for x in b\ndo\n c | (d ${x}.e)\ndone | f", [["c"], ["d", "b.e"], ["f"]]),
    "variables that are set first": ("x=b y=c-d && a $x$y", [[], ["a", "bc-d"]]),
    "a variable that is set twice": ("x=b; x=c; a $x", [[], [], ["a", "c"]]),
    "one that is set later": ("x=b; a; y=c; d $x $y", [[], ["a"], [], ["d", "b", None]]),
    "variables that may not be set": ("x=b || y=c; a $x $y", [[], [], ["a", None, None]]),
    "a value that is split": ("x='b c'; a $x", [[], ["a", None]]),
    "a carriage return": ("a\r", None),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("line", "expected"), LINES_READ.values(), ids=LINES_READ)
def test_words(line: str, expected: list[list[str | None]] | None) -> None:
    if expected is None:
        with pytest.raises(ShellSyntaxError):
            parse_command_line(line)
    else:
        assert texts(line) == expected


def test_patterns_and_tildes_are_marked() -> None:
    (command,) = parse_command_line("ls *.py ~/x '*' \"~\" a?b")
    assert command.words == (
        Word("ls"),
        Word("*.py", is_pattern=True),
        Word("~/x", has_tilde=True),
        Word("*"),
        Word("~"),
        Word("a?b", is_pattern=True),
    )


@pytest.mark.parametrize(
    ("line", "operators", "touches"),
    [
        ("a > x", [">"], True),
        ("a 2>> x", ["2>>"], True),
        ("a &> x", ["&>"], True),
        ("a < x", ["<"], True),
        ("a <> x", ["<>"], True),
        ("a >& x", [">&"], True),
        ("a > $x", [">"], True),
        ("a 2>&1", ["2>&"], False),
        ("a 2>/dev/null", ["2>"], False),
        ("a <<'E'\nx\nE", ["<<"], False),
    ],
)
def test_redirections(line: str, operators: list[str], touches: bool) -> None:
    (command,) = parse_command_line(line)
    assert [each.operator for each in command.redirections] == operators
    assert [each.touches_file for each in command.redirections] == [touches]


def test_commands_that_a_pipe_feeds_are_marked() -> None:
    fed = [command.is_fed for command in parse_command_line("a | b && c; d | (e; f); g | { h; } |& i")]
    assert fed == [False, True, False, False, True, True, False, True, True]


@pytest.mark.parametrize(
    "line",
    [
        "a '", 'a "', "a `b", "a $(b", "(a", "{ a;", "a )", "a |", "a &&", "a ;; b", "&& a", "; a", "()",
        "for x in *; do z; done", "while a; do b; done", "if a; then b; fi", "case a in b) c;; esac",
        "f() { a; }", "function f { a; }", "[[ a ]]", "((a))", "a $((1))", "a $[1]", "a <(b)", "a >(b)",
        "a <<< b", "a ${x:-y}", "a ${x//y/z}", 'a $"x"', "a $'\\x41'", "a <<E\n$(b)\nE", "a <<E\n`b`\nE",
        "a $'\\''",
        "a <<E\nx", "a <<$x\nE", "a <<''\nb\n", "a `b \\` c`", "x=(a b)", "a {fd}>x", "a\0b", "a\u00a0b",
        "a\u202eb", "a >", "a\\\nb", "a $\\\nx", 'a "$\\\nx"', "a 2\\\n>b", "a {b\\\n,c}", "(a) b",
        "a\x1bb", "coproc a",
    ],
)  # fmt: skip
def test_the_rest_is_refused(line: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse_command_line(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("if a; then b; else c; fi; d", [["a"], ["b"], ["c"], ["d"]], id="a condition"),
        pytest.param("while read x; do y $x; done <z", [["read", "x"], ["y", None], []], id="a loop"),
        pytest.param("for X in *; do a $X; done; b", [["a", None], ["b"]], id="a loop over files"),
        pytest.param("for x in a b; do for y in c; do d $x $y; done; done",
            [["d", "a", None], ["d", "b", None]], id="a loop in a loop"),
        pytest.param("case $x in a|b) c;; *) d;; esac; e", [["c"], ["d"], ["e"]], id="a choice"),
        pytest.param("f() { a; }; function g { b; }", [["f"], ["a"], ["b"]], id="functions"),
        pytest.param("[[ a > b ]] && c; (( x > 1 )) && d", [["c"], ["d"]], id="comparisons"),
        pytest.param("a $((1+2)) ${x:-y} $[3] $\"b\"", [["a", None, None, None, "b"]], id="computed words"),
        pytest.param("a <(b c) >(d)", [["b", "c"], ["d"], ["a", None, None]], id="processes as files"),
        pytest.param("a <<< b", [["a"]], id="a here-string"),
        pytest.param("a <<E\n$(b) `c`\nE\nd", [["a"], ["d"]], id="a computed document"),
        pytest.param("a <<E\nb", [["a"]], id="a document without an end"),
        pytest.param("a 'b; c", [["a", "b; c"]], id="an open quote"),
        pytest.param("a ; ; b ) c", [["a"], ["b"], ["c"]], id="operators without commands"),
        pytest.param("a {fd}>x b", [["a", "b"]], id="a redirection by name"),
        pytest.param("a\\\nb c", [["ab", "c"]], id="a word over two lines"),
        pytest.param("(a; b", [["a"], ["b"]], id="a group without an end"),
        pytest.param("a `b \\$x` c", [["b", "$x"], ["a", None, "c"]], id="a backslash in backticks"),
    ],
)  # fmt: skip
def test_what_is_refused_can_still_be_read_in_part(line: str, expected: list[list[str | None]]) -> None:
    with pytest.raises(ShellSyntaxError):
        parse_command_line(line)
    read = read_command_line(line)
    assert [[word.text for word in command.words] for command in read.commands] == expected
    assert read.doubts


def test_the_subshells_around_a_command_are_told_apart() -> None:
    read = parse_command_line("a; (b; (c); d); e $(f) `g`; { h; }")
    assert [command.shells for command in read] == [(), (1,), (1, 2), (1,), (3,), (4,), (), ()]


def test_a_long_line_and_a_deep_one_are_refused() -> None:
    for line in ("a" * (MAX_CHARS + 1), "(" * 1000 + "a" + ")" * 1000, "$(" * 1000 + "a" + ")" * 1000):
        with pytest.raises(ShellSyntaxError):
            parse_command_line(line)


PIECES = st.sampled_from(
    ["a", "b c", "'", '"', "\\", "$", "`", " ", "\n", ";", "&", "|", "(", ")", "{", "}", "<", ">", "#",
        "~", "*",
     "=", ",", "..", "$'", "\\\n", "''", '""', "x=1 ", "$x", "$?", "!", "<<E\nt\nE\n", "2>&1", "/"]
)  # fmt: skip


WORDS = st.sampled_from(
    ["if ", "then ", "fi", "for x in ", "do ", "done", "case a in ", ";;", "esac", "[[", "]]", "$((", "))"]
)


@given(st.lists(PIECES | WORDS, max_size=14).map("".join))
def test_a_line_that_is_understood_is_read_in_the_same_way(line: str) -> None:
    """What is not understood fails in one way, or is read in part; each command stands in the line."""
    read = read_command_line(line)
    assert all(0 <= command.start <= command.end <= len(line) for command in read.commands)
    try:
        commands = parse_command_line(line)
    except ShellSyntaxError:
        assert read.doubts
    else:
        assert (read.commands, read.doubts) == (commands, ())


@given(st.lists(PIECES | WORDS, min_size=1, max_size=8).map("".join))
def test_reading_a_line_takes_steps_in_proportion_to_its_length(piece: str) -> None:
    short, long = (count_steps(lambda line=piece * n: read_command_line(line)) for n in (40, 80))  # type: ignore[misc]  # bound at once
    assert long <= 2.5 * short + 500


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_gives_a_program_the_words_that_were_read() -> None:
    """Literal words of random lines are compared with the arguments that bash passes on."""
    lines: list[str] = []

    @given(st.lists(PIECES.filter(lambda piece: piece not in ("|", "&", ">", "<", "*", "~")), max_size=10))
    def collect(pieces: list[str]) -> None:
        line = "show " + "".join(pieces)
        try:
            (command,) = parse_command_line(line)
        except (ShellSyntaxError, ValueError):
            return
        has_digits = any(name in line for name in ("$$", "$?", "$#"))
        if all(word.is_literal for word in command.words) and not has_digits:
            lines.append(line)

    collect()
    bash = shutil.which("bash") or "bash"
    show = """show() { for word; do printf '%s\\1' "$word"; done; }"""
    script = f"{show}; for line; do eval \"$line\" 2>/dev/null; printf '\\2'; done"
    done = subprocess.run([bash, "-c", script, "bash", *lines], capture_output=True, text=True, check=False)
    printed = [part.split("\1")[:-1] for part in done.stdout.split("\2")[:-1]]
    expected = [[word.text for word in parse_command_line(line)[0].words[1:]] for line in lines]
    # A redirection that fails keeps bash from running the command at all.
    differences = [
        (line, *pair) for line, *pair in zip(lines, printed, expected, strict=True) if pair[0] != pair[1]
    ]
    assert len(lines) > 10
    assert [each for each in differences if each[1]] == []


STATEMENTS = st.sampled_from(
    ["x=b", "y=$x", 'x="$x d"', "x=$(y=e)", "x=f y=g", "x+=h", "! x=i", "false", "show $x"]
)
SEPARATORS = st.sampled_from(["; ", " && ", " || ", " | ", " & ", "\n"])
LINES = st.recursive(
    STATEMENTS,
    lambda inner: st.one_of(
        st.tuples(inner, SEPARATORS, inner).map("".join),
        inner.map("({})".format),
        inner.map("{{ {}; }}".format),
        inner.map("for x in l m; do {}; done".format),
        inner.map("for y in n; do {}; done".format),
    ),
    max_leaves=4,
)


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_runs_no_other_commands_than_those_that_were_read() -> None:
    """With variables, loops and conditions: what bash runs is among what was read, computed words aside."""
    lines: list[str] = []

    @settings(max_examples=800)
    @given(st.tuples(LINES, SEPARATORS, st.just("show $x k $y")).map("".join))
    def collect(line: str) -> None:
        with contextlib.suppress(ShellSyntaxError):
            parse_command_line(line)
            lines.append(line)

    collect()
    show = """show() { local all= word; for word; do all+="$word"$'\\1'; done; printf '%s\\3' "$all"; }"""
    loop = """while [ $# -gt 0 ]; do (unset x y; eval "$1"; wait) 2>&-; printf '\\2'; shift; done"""
    script = f"{show}; {loop}"
    done = subprocess.run(["bash", "-c", script, "bash", *lines], capture_output=True, text=True, check=False)
    printed = [part.split("\3")[:-1] for part in done.stdout.split("\2")[:-1]]
    assert len(lines) > 30
    for line, runs in zip(lines, printed, strict=True):
        read = [command.words[1:] for command in parse_command_line(line) if command.words]
        for run in runs:
            words = run.split("\1")[:-1]
            assert any(
                any(word.text is None for word in each) or [word.text for word in each] == words
                for each in read
            ), (line, words, read)
