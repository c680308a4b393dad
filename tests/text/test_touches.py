"""The files that shell commands touch, their searches, and whether that is all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.touches import MAX_FILES, use_of_line
from touched_files import spell_touches


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("cat a.py", ["read a.py"], id="cat reads all of a file"),
        pytest.param("cat a.py b.py", ["read a.py", "read b.py"], id="two files"),
        pytest.param("sed -n '10,20p' a.py", ["read a.py 10+11"], id="sed reads lines"),
        pytest.param("sed -n 7p a.py", ["read a.py 7+1"], id="sed reads one line"),
        pytest.param("sed -n '1,5p;20,$p' a.py", ["read a.py 1+5 20+"], id="sed reads two ranges"),
        pytest.param("sed -n -e '1,5p' a.py", ["read a.py 1+5"], id="a script in an option"),
        pytest.param("head -n 30 a.py", ["read a.py 1+30"], id="head with a number"),
        pytest.param("head -5 a.py", ["read a.py 1+5"], id="head with a short number"),
        pytest.param("head a.py", ["read a.py 1+10"], id="head reads ten lines"),
        pytest.param("tail -n +40 a.py", ["read a.py 40+"], id="tail from a line"),
        pytest.param("tail -n 40 a.py", ["read a.py"], id="tail by count is not known"),
        pytest.param("nl -ba a.py | sed -n '5,9p'", ["read a.py 5+5"], id="a pipe narrows a read"),
        pytest.param("cat a.py | head -50", ["read a.py 1+50"], id="so does head"),
        pytest.param("cat a.py | wc -l", ["read a.py"], id="other programs do not"),
        pytest.param("rg -n foo src/a.py", ["search src/a.py"], id="a search in a file"),
        pytest.param("rg -n foo src", [], id="a search in a folder touches what it finds"),
        pytest.param("grep -n -e foo a.py", ["search a.py"], id="a pattern in an option"),
        pytest.param("echo hi > a.txt", ["write a.txt"], id="a redirection writes"),
        pytest.param("echo hi >> a.txt", ["edit a.txt"], id="an appending one edits"),
        pytest.param("cat < a.txt", ["read a.txt"], id="an input is read"),
        pytest.param("wc -l < a.txt", ["search a.txt"], id="or only looked through"),
        pytest.param("make 2> /dev/null > out.log", ["write out.log"], id="/dev/null is no file"),
        pytest.param("make 2>&1 | tee out.log", ["write out.log"], id="tee writes"),
        pytest.param("echo x | tee -a out.log", ["edit out.log"], id="tee -a edits"),
        pytest.param("sed -i 's/a/b/' a.py", ["edit a.py"], id="sed -i edits"),
        pytest.param("sed -i '' 's/a/b/' a.py", ["edit a.py"], id="sed -i on macOS"),
        pytest.param("sed -i '' '/x,$/d' a.py", ["edit a.py"], id="sed -i on macOS, no s"),
        pytest.param("sed -i '' -e 's/a/b/' a.py", ["edit a.py"], id="sed -i -e on macOS"),
        pytest.param('sed -i "$x" a.py b.py', ["edit a.py", "edit b.py"], id="a computed script"),
        pytest.param("git mv a.py b.py", ["move a.py to b.py"], id="git mv moves"),
        pytest.param("rm -f a.py", ["remove a.py"], id="rm removes"),
        pytest.param("cp a.py b.py", ["search a.py", "write b.py"], id="cp"),
        pytest.param("cd src && cat a.py", ["read src/a.py"], id="cd goes to a folder"),
        pytest.param("cd /x && cat ../a.py", ["read /a.py"], id="paths are joined"),
        pytest.param("bash -lc 'cat a.py'", ["read a.py"], id="a shell in a shell"),
        pytest.param("sudo cat a.py", ["read a.py"], id="a program that runs another"),
        pytest.param('cat "$FILE" a.py', ["read a.py"], id="a computed word is no path"),
        pytest.param("cat *.py", [], id="nor is a pattern"),
        pytest.param("for f in *; do cat $f; done", [], id="nor is the variable of a loop over one"),
        pytest.param("cat <<'END' > a.txt\nx\nEND", ["write a.txt"], id="a here-document is no file"),
        pytest.param("cat <<END > a.txt\n$x `y`\nEND", ["write a.txt"], id="nor is a computed one"),
        pytest.param(
            "cat > a.py <<'E'\nrm b\necho > c\nE\nrm d",
            ["write a.py", "remove d"],
            id="the text of a document runs nothing",
        ),
        pytest.param("echo hi>a 2>err.log >>b", ["write a", "write err.log", "edit b"], id="without blanks"),
        pytest.param("make &> out.log", ["write out.log"], id="both outputs"),
        pytest.param("echo x > $OUT; rm *.o", [], id="computed targets are not guessed"),
        pytest.param(
            "cd x && sed -i.bak -e s/a/b/ f.c g.c",
            ["edit x/f.c", "edit x/g.c"],
            id="sed -i with the ending of a copy",
        ),
        pytest.param("sed s/a/b/ f.c", ["read f.c"], id="sed to the screen"),
        pytest.param("touch a b", ["edit a", "edit b"], id="touch"),
        pytest.param("truncate -s 0 a", ["edit a"], id="truncate"),
        pytest.param("sort -o b a", ["write b", "search a"], id="an option that writes"),
        pytest.param("curl -sSLo a.json http://x", ["write a.json"], id="a page that is kept"),
        pytest.param(
            "mv a.py b.py lib/",
            ["move a.py to lib/a.py", "move b.py to lib/b.py"],
            id="files that go to a folder",
        ),
        pytest.param("cp x/a.py .", ["search x/a.py", "write a.py"], id="a copy into this folder"),
        pytest.param("git checkout -- a.py", ["edit a.py"], id="git checkout of a file"),
        pytest.param("git checkout main", [], id="git checkout of a branch"),
        pytest.param("git restore a.py", ["edit a.py"], id="git restore"),
        pytest.param("git restore --staged a.py", [], id="the index is no file"),
        pytest.param("git -C sub rm a.py", ["remove sub/a.py"], id="git in another folder"),
        pytest.param("awk -F: '{print $1}' a.txt", ["search a.txt"], id="a program before the files"),
        pytest.param("jq --arg a b .x a.json", ["search a.json"], id="options with two values"),
        pytest.param(
            "(cd src; cat a.py); cat b.py", ["read src/a.py", "read b.py"], id="a subshell keeps its folder"
        ),
        pytest.param(
            "cat $(cd src; cat a.txt) b.py", ["read src/a.txt", "read b.py"], id="so do commands within"
        ),
        pytest.param(
            'cd "$DIR" && cat a.py /x/b.py',
            ["read /x/b.py"],
            id="behind a computed folder only absolute paths are known",
        ),
        pytest.param("cd && cat a.py", [], id="the home folder is another"),
        pytest.param("if [ -f a ]; then cat a; else rm b; fi", ["read a", "remove b"], id="a condition"),
        pytest.param("while read -r x; do echo $x; done < a.txt", ["search a.txt"], id="a loop"),
        pytest.param(
            "for f in *.py; do sed -i s/a/b/ $f; done; cat c.py",
            ["read c.py"],
            id="what stands behind a loop",
        ),
        pytest.param(
            "case $x in a) cat a.py;; *) rm b.py;; esac", ["read a.py", "remove b.py"], id="a choice"
        ),
        pytest.param("f() { cat a.py; }; f", ["read a.py"], id="a function"),
        pytest.param("[[ a > b ]] && cat c", ["read c"], id="a comparison is no redirection"),
        pytest.param("diff <(cat a.py) x", ["read a.py"], id="a process as a file"),
        pytest.param("cat <<< text", [], id="a here-string"),
        pytest.param("echo $((1 > 0)) > a.txt", ["write a.txt"], id="arithmetic"),
        pytest.param("cat ${DIR:-src}/a.py b.py", ["read b.py"], id="a variable with a default"),
        pytest.param("timeout 5 cat a.py", ["read a.py"], id="a time limit"),
        pytest.param("sudo -u me env A=1 cat a.py", ["read a.py"], id="options of wrappers"),
        pytest.param("xargs rm < a.txt", ["search a.txt"], id="xargs takes what it is fed"),
        pytest.param('python -c \'open("a.py", "w")\'', [], id="code in another language"),
    ],
)
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
