"""The files that shell commands touch, their searches, and whether that is all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.touches import MAX_FILES, use_of_line
from touched_files import spell_touches

LINES = {
    "cat reads all of a file": ("cat a.py", ["read a.py"]),
    "two files": ("cat a.py b.py", ["read a.py", "read b.py"]),
    "sed reads lines": ("sed -n '10,20p' a.py", ["read a.py 10+11"]),
    "sed reads one line": ("sed -n 7p a.py", ["read a.py 7+1"]),
    "sed reads two ranges": ("sed -n '1,5p;20,$p' a.py", ["read a.py 1+5 20+"]),
    "a script in an option": ("sed -n -e '1,5p' a.py", ["read a.py 1+5"]),
    "head with a number": ("head -n 30 a.py", ["read a.py 1+30"]),
    "head with a short number": ("head -5 a.py", ["read a.py 1+5"]),
    "head reads ten lines": ("head a.py", ["read a.py 1+10"]),
    "tail from a line": ("tail -n +40 a.py", ["read a.py 40+"]),
    "tail by count is not known": ("tail -n 40 a.py", ["read a.py"]),
    "a pipe narrows a read": ("nl -ba a.py | sed -n '5,9p'", ["read a.py 5+5"]),
    "so does head": ("cat a.py | head -50", ["read a.py 1+50"]),
    "other programs do not": ("cat a.py | wc -l", ["read a.py"]),
    "a search in a file": ("rg -n foo src/a.py", ["search src/a.py"]),
    "a search in a folder touches what it finds": ("rg -n foo src", []),
    "a pattern in an option": ("grep -n -e foo a.py", ["search a.py"]),
    "a redirection writes": ("echo hi > a.txt", ["write a.txt"]),
    "an appending one edits": ("echo hi >> a.txt", ["edit a.txt"]),
    "an input is read": ("cat < a.txt", ["read a.txt"]),
    "or only looked through": ("wc -l < a.txt", ["search a.txt"]),
    "/dev/null is no file": ("make 2> /dev/null > out.log", ["write out.log"]),
    "tee writes": ("make 2>&1 | tee out.log", ["write out.log"]),
    "tee -a edits": ("echo x | tee -a out.log", ["edit out.log"]),
    "sed -i edits": ("sed -i 's/a/b/' a.py", ["edit a.py"]),
    "sed -i on macOS": ("sed -i '' 's/a/b/' a.py", ["edit a.py"]),
    "sed -i on macOS, no s": ("sed -i '' '/x,$/d' a.py", ["edit a.py"]),
    "sed -i -e on macOS": ("sed -i '' -e 's/a/b/' a.py", ["edit a.py"]),
    "a computed script": ('sed -i "$x" a.py b.py', ["edit a.py", "edit b.py"]),
    "git mv moves": ("git mv a.py b.py", ["move a.py to b.py"]),
    "rm removes": ("rm -f a.py", ["remove a.py"]),
    "cp": ("cp a.py b.py", ["search a.py", "write b.py"]),
    "cd goes to a folder": ("cd src && cat a.py", ["read src/a.py"]),
    "paths are joined": ("cd /x && cat ../a.py", ["read /a.py"]),
    "a shell in a shell": ("bash -lc 'cat a.py'", ["read a.py"]),
    "a program that runs another": ("sudo cat a.py", ["read a.py"]),
    "a computed word is no path": ('cat "$FILE" a.py', ["read a.py"]),
    "nor is a pattern": ("cat *.py", []),
    "nor is the variable of a loop over one": ("for f in *; do cat $f; done", []),
    "a here-document is no file": ("cat <<'END' > a.txt\nx\nEND", ["write a.txt"]),
    "nor is a computed one": ("cat <<END > a.txt\n$x `y`\nEND", ["write a.txt"]),
    "the text of a document runs nothing": (
        "cat > a.py <<'E'\nrm b\necho > c\nE\nrm d",
        ["write a.py", "remove d"],
    ),
    "without blanks": ("echo hi>a 2>err.log >>b", ["write a", "write err.log", "edit b"]),
    "both outputs": ("make &> out.log", ["write out.log"]),
    "computed targets are not guessed": ("echo x > $OUT; rm *.o", []),
    "sed -i with the ending of a copy": (
        "cd x && sed -i.bak -e s/a/b/ f.c g.c",
        ["edit x/f.c", "edit x/g.c"],
    ),
    "sed to the screen": ("sed s/a/b/ f.c", ["read f.c"]),
    "touch": ("touch a b", ["edit a", "edit b"]),
    "truncate": ("truncate -s 0 a", ["edit a"]),
    "an option that writes": ("sort -o b a", ["write b", "search a"]),
    "a page that is kept": ("curl -sSLo a.json http://x", ["write a.json"]),
    "files that go to a folder": ("mv a.py b.py lib/", ["move a.py to lib/a.py", "move b.py to lib/b.py"]),
    "a copy into this folder": ("cp x/a.py .", ["search x/a.py", "write a.py"]),
    "git checkout of a file": ("git checkout -- a.py", ["edit a.py"]),
    "git checkout of a branch": ("git checkout main", []),
    "git restore": ("git restore a.py", ["edit a.py"]),
    "the index is no file": ("git restore --staged a.py", []),
    "git in another folder": ("git -C sub rm a.py", ["remove sub/a.py"]),
    "a program before the files": ("awk -F: '{print $1}' a.txt", ["search a.txt"]),
    "options with two values": ("jq --arg a b .x a.json", ["search a.json"]),
    "a subshell keeps its folder": ("(cd src; cat a.py); cat b.py", ["read src/a.py", "read b.py"]),
    "so do commands within": ("cat $(cd src; cat a.txt) b.py", ["read src/a.txt", "read b.py"]),
    "behind a computed folder only absolute paths are known": (
        'cd "$DIR" && cat a.py /x/b.py',
        ["read /x/b.py"],
    ),
    "the home folder is another": ("cd && cat a.py", []),
    "a condition": ("if [ -f a ]; then cat a; else rm b; fi", ["read a", "remove b"]),
    "a loop": ("while read -r x; do echo $x; done < a.txt", ["search a.txt"]),
    "what stands behind a loop": ("for f in *.py; do sed -i s/a/b/ $f; done; cat c.py", ["read c.py"]),
    "a choice": ("case $x in a) cat a.py;; *) rm b.py;; esac", ["read a.py", "remove b.py"]),
    "a function": ("f() { cat a.py; }; f", ["read a.py"]),
    "a comparison is no redirection": ("[[ a > b ]] && cat c", ["read c"]),
    "a process as a file": ("diff <(cat a.py) x", ["read a.py"]),
    "a here-string": ("cat <<< text", []),
    "arithmetic": ("echo $((1 > 0)) > a.txt", ["write a.txt"]),
    "a variable with a default": ("cat ${DIR:-src}/a.py b.py", ["read b.py"]),
    "a time limit": ("timeout 5 cat a.py", ["read a.py"]),
    "options of wrappers": ("sudo -u me env A=1 cat a.py", ["read a.py"]),
    "xargs takes what it is fed": ("xargs rm < a.txt", ["search a.txt"]),
    "code in another language": ('python -c \'open("a.py", "w")\'', []),
}


@pytest.mark.parametrize(("command", "expected"), LINES.values(), ids=LINES)
def test_use_of_line(command: str, expected: list[str]) -> None:
    assert spell_touches(use_of_line(command).touches) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [("cat a.py /etc/hosts", ["read src/a.py", "read /etc/hosts"]), ("cat C:/x/a.py", ["read C:/x/a.py"])],
)
def test_a_command_runs_in_its_folder(command: str, expected: list[str]) -> None:
    assert spell_touches(use_of_line(command, "src").touches) == expected


def test_a_long_line_costs_little() -> None:
    """Many files of one line are no sign of use, and a very long line is not read."""
    many = use_of_line("cat " + " ".join(f"{n}.py" for n in range(500)))
    assert (len(many.touches), many.is_sure) == (MAX_FILES, False)
    assert use_of_line("cat " + "a.py " * 9_000).touches == ()


@pytest.mark.parametrize(
    ("command", "is_sure", "only_looks"),
    [
        pytest.param("cd src && cat a.py | head -5; ls", True, True, id="it reads"),
        pytest.param("echo x > a.py", True, True, id="it prints, and the shell writes"),
        pytest.param("sed -i s/a/b/ a.py", True, False, id="it changes what it names"),
        pytest.param("mkdir -p x", True, False, id="it touches no text, and does not only print"),
        pytest.param("make test", False, False, id="it may do anything"),
        pytest.param("cat a.py && make", False, False, id="each part counts"),
        pytest.param("cat $x", False, True, id="a word is computed"),
        pytest.param("echo x > $x", False, True, id="so is a target"),
        pytest.param("cat *.py", False, True, id="names of files are found by a pattern"),
        pytest.param('cd "$x"; cat a.py', False, True, id="a folder is computed"),
        pytest.param("if a; then b; fi", False, False, id="it is not read whole"),
        pytest.param("find . -name x", True, True, id="find looks"),
        pytest.param("find . -name x -delete", False, False, id="or removes"),
        pytest.param("git checkout main", False, False, id="a branch brings files"),
        pytest.param("bash -c 'cat a'", True, True, id="a shell in a shell"),
        pytest.param("bash -c 'make'", False, False, id="that runs something"),
        pytest.param("git checkout -- .", False, False, id="a folder is no file"),
        pytest.param("", False, False, id="nothing"),
    ],
)
def test_whether_the_touches_are_all_that_a_line_does(command: str, is_sure: bool, only_looks: bool) -> None:
    use = use_of_line(command)
    assert (use.is_sure, use.only_looks) == (is_sure, only_looks)


@pytest.mark.parametrize(
    ("command", "searches"),
    [
        pytest.param("rg -n 'x|y' lib", [("x|y", "lib")], id="a pattern and a place"),
        pytest.param("grep -A 3 -rn foo src a.c", [("foo", "src", "a.c")], id="a value is no pattern"),
        pytest.param("grep -e foo src; git grep bar", [("foo", "src"), ("bar",)], id="two searches"),
        pytest.param("cat a | grep x", [("x",)], id="what it is fed"),
        pytest.param("find . -name x", [], id="names are not searched"),
    ],
)
def test_searches(command: str, searches: list[tuple[str, ...]]) -> None:
    assert list(use_of_line(command).searches) == searches


def test_a_document_is_the_text_of_the_file() -> None:
    (touch,) = use_of_line("cat > a.py <<'END'\nx = 1\nEND").touches
    assert touch.text == "x = 1\n"


PIECES = st.sampled_from(
    [
        *("cat ", "sed -i ", "sed -n 1,5p ", "cd ", "rm ", "mv ", "cp -r ", "tee ", "git ", "checkout -- "),
        *("bash -c ", "env A=1 ", "timeout ", "xargs ", "eval ", "-C ", "--", "-n ", "a.py ", "src/ ", "*"),
        *("'", '"', "$x ", "$(", ")", "`", "> ", "< ", "<<E\n", "\nE\n", "|", "&&", ";", "\n", "(", "\\"),
        *(
            "if ",
            "then ",
            "fi",
            "done",
            "for x in ",
            "case a in ",
            "esac",
            "{ ",
            "} ",
            "[[ ",
            "~/",
            "é",
            "\0",
        ),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_text_is_read_without_complaint(command: str) -> None:
    use = use_of_line(command)
    assert all(touch.path for touch in use.touches)
    assert not use.only_looks or all(
        touch.kind in ("read", "search", "write", "edit") for touch in use.touches
    )
