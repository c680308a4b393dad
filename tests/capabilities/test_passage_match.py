"""Passages that a model has copied with mistakes: found in one place, and merged byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drifted_edits import DRIFTS, DriftedEdit, drift_edits
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.passage_match import map_indents
from sidecar.capabilities.text_edit import replace_passage

EDITS = dict(drift_edits())


def land(edit: DriftedEdit) -> bool:
    """Return whether *edit* lands, as it must if it does."""
    try:
        edited = replace_passage(edit.text, edit.old, edit.new, all_of_them=False)
    except InvalidInput:
        return False
    assert edited.text == edit.becomes
    return True


def test_most_drifted_edits_land_and_none_lands_wrong() -> None:
    assert len(EDITS) >= 200
    landed = {name: land(edit) for name, edit in EDITS.items()}
    by_drift = {
        drift: sum(hit for name, hit in landed.items() if name.endswith(f"-{drift}")) for drift in DRIFTS
    }
    assert sum(landed.values()) >= 0.9 * len(landed), by_drift
    assert all(by_drift.values()), by_drift


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        pytest.param(
            "if a:\n    go(one)\n    stop()\nif b:\n\tgo(one)\n\tstop()\n",
            "  go(one)\n  stop()\n",
            "  go(two)\n  stop()\n",
            "2 times, but for indentation, blanks or blank lines, at lines 2, 5",
            id="two places with other indentation",
        ),
        pytest.param(
            "say(“hello”)\nsay(«no»)\nsay(„hello‟)\n",
            'say("hello")',
            'say("bye")',
            "2 times, but for look-alike characters or trailing blanks, at lines 1, 3",
            id="two places with other quotes",
        ),
        pytest.param("a\n  }\nb\n", "    }\n", "", "not in the file", id="too little to tell without blanks"),
        pytest.param(
            "    go(one)\n    stop()\n",
            "go(one)  \n\tstop()",
            "go(two)\n  stop()",
            "new_text is not clear",
            id="indentation that follows no rule",
        ),
        pytest.param(
            "\tgo(one,  two)\n",
            "go(one, two)\n",
            "go(one)\nstop()\n",
            "is not clear",
            id="dedented, or begun within a line",
        ),
        pytest.param(
            "    first(1)\n    second(2)\n)\n",
            "first(1) \nsecond(2)\n)\n",
            "first(1) \nthird(3)\n)\n",
            "is not clear",
            id="dedented lines before one that has no indentation",
        ),
        pytest.param(
            "    one(\n      two,\n    )\n",
            "one(\n      two,\n",
            "one(\nzero,\n      two,\n",
            "is not clear",
            id="a line without indentation among some that have it",
        ),
        pytest.param("x = “a”\n", 'x = "a" \n', 'x = "a"\n', "changes nothing", id="blanks alone"),
        pytest.param(
            "s = 'a'\nt = 1\ns = “a”\n", 's = "a"', 's = "b"', "2 times, but for", id="a twin in other quotes"
        ),
        pytest.param(
            "first()\n\nlast()\n",
            "first()\nlast()\n",
            "first()\nmiddle()\nlast()\n",
            "new_text is not clear",
            id="a line between two that a blank line parts",
        ),
        pytest.param(
            "7\tone1\n8\ttwo2\n", "1\tone1\n3\ttwo2\n", "x", "not in the file", id="numbers with gaps"
        ),
    ],
)
def test_a_passage_that_may_mean_several_things_is_refused(
    text: str, old: str, new: str, expected: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace_passage(text, old, new, all_of_them=False)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("text", "old", "new", "becomes"),
    [
        pytest.param("one  b\n\ntwo\n", "one b\ntwo\n", "one b\nd\n", "one  b\n\nd\n", id="blanks stay"),
        pytest.param(
            "\tif first:\n\t\tgo()\n",
            "    if first:\n        go()\n",
            "    if first:\n        for x in y:\n            go()\n",
            "\tif first:\n\t\tfor x in y:\n\t\t\tgo()\n",
            id="levels are carried over",
        ),
        pytest.param(
            "a:\n  first()\nb:\n  last()\n",
            "    first() \n",
            "    if x:\n        first()\n",
            "a:\n  if x:\n    first()\nb:\n  last()\n",
            id="a step is that of the file",
        ),
        pytest.param(
            "    first()\n    second()\n",
            "first()\nsecond()\n",
            "    first()\n    third()\n",
            "    first()\n    third()\n",
            id="a replacement that has the file's indentation keeps it",
        ),
        pytest.param("one\r\n  two two\r\n", "two  two\n", "three\n", "one\r\n  three\r\n", id="line ends"),
        pytest.param("wait… “x”\n", 'wait... "x"', 'wait... "y"', "wait… “y”\n", id="one for three"),
        pytest.param("one\n\n\ntwo\n", "one\n\ntwo\n", "", "", id="a passage is taken away"),
        pytest.param("bb\n\ncc\ndd\n", "bb\ncc\ndd\n", "bb\ndd\n", "bb\n\ndd\n", id="a gap stays"),
        pytest.param("a\nlast one\nb\n", "a \nlast one ", "A \nlast one ", "A\nlast one\nb\n", id="ends"),
        pytest.param(
            "\tif a:  \n\t\tgo(a)\n",
            "    if a:  \n        go(a)\n",
            "    if a:  \n    stop(a)\n        go(a)\n",
            "\tif a:  \n\tstop(a)\n\t\tgo(a)\n",
            id="blanks stay at their line",
        ),
        pytest.param(
            "    first(“a”)\n    last()\n",
            'first("a")\n',
            "",
            "    last()\n",
            id="a line goes with its indentation",
        ),
        pytest.param(
            " */\nexport  go {\n  stop()\n}\n",
            "*/\nexport go {\n\tstop()\n",
            "export go {\n\tstop()\n",
            "export  go {\n  stop()\n}\n",
            id="a line keeps its indentation when the one before it goes",
        ),
        pytest.param("x\nlast line", "last  line\n", "end\n", "x\nend", id="no last line end, and blanks"),
        pytest.param(
            "x\n\tlast(x)\n\n\ny\n", "    last(x)\n\n\n", "\n\n", "x\n\n\ny\n", id="blank lines behind it"
        ),
        pytest.param(
            "a\n    first(1)\n\nb\n",
            "first(1)  \n\n\n",
            "\n\n",
            "a\n\nb\n",
            id="as many blank lines as the file has",
        ),
        pytest.param("    one()\n  two()\n", "one()\n", "", "  two()\n", id="its indentation goes"),
        pytest.param(
            "    one()\n\n  two()\n",
            "one()\n\n  two()\n",
            "\n  two()\n",
            "\n  two()\n",
            id="no blanks of a line that is gone",
        ),
        pytest.param(
            "    return one\n",
            "return one",
            "if x:\n    go()\n\nreturn one\nend",
            "    if x:\n        go()\n\n    return one\n    end\n",
            id="an exact line that moves down keeps its indentation",
        ),
        pytest.param(
            "    one(\n  )\n",
            "one(\n  )\n",
            "first()\none(\n  )\n  last()\n",
            "    first()\n    one(\n  )\n  last()\n",
            id="so does the first of several",
        ),
        pytest.param(
            "\tone(1)\n\ttwo()\n",
            "one(1)  \n\ttwo()\n",
            "zero()\none(1)  \n\ttwo()\n",
            "\tzero()\n\tone(1)\n\ttwo()\n",
            id="so does one with blanks behind it",
        ),
        pytest.param(
            "first\n\n\ngone\nlast\n",
            "first\n\ngone\nlast\n",
            "first\n\nlast\n",
            "first\n\n\nlast\n",
            id="blank lines before a line that goes",
        ),
        pytest.param(
            "first\ngone\nlast\n", "first\n\ngone\nlast\n", "first\n\nlast\n", "first\nlast\n", id="no more"
        ),
        pytest.param("a\na\na \n", "a\na\na\n", "a\nb\na\na\n", "a\nb\na\na \n", id="twins"),
        pytest.param("a()\nb()\nc()\n", "a() \nb()", "a()", "a()\nc()\n", id="a line end"),
        pytest.param(
            "    });\n", "});", "});\n});", "    });\n});\n", id="one that stays in its place says nothing"
        ),
    ],
)  # fmt: skip
def test_what_the_file_has_and_the_model_left_alone_stays(
    text: str, old: str, new: str, becomes: str
) -> None:
    assert replace_passage(text, old, new, all_of_them=False).text == becomes


@pytest.mark.parametrize("line", ["svc1:", "case 2: go()", "x = {1: 'a', 2: 'b'}", "at 12:30", "9: nine"])
@pytest.mark.parametrize("mark", ["\t", "→", " | ", ": "])
def test_numbers_of_the_replacement_are_its_own_unless_all_lines_have_them(line: str, mark: str) -> None:
    text = "first line\nsecond line\n"
    for new in (f"{line}\n", f"1{mark}one more\n{line} no number\nlast\n"):
        edited = replace_passage(text, f"2{mark}second line\n", new, all_of_them=False)
        is_numbered = new == "9: nine\n"
        assert edited.text == f"first line\n{'nine' if is_numbered else new.rstrip()}\n"
    numbered = replace_passage(text, f"2{mark}second line", f"2{mark}svc1:\n\n3{mark}b", all_of_them=False)
    assert numbered.text == "first line\nsvc1:\n\nb\n"


@st.composite
def changes_of_a_block(draw: st.DrawFn) -> DriftedEdit:
    """A text of indented lines that are all different, and a change of one line in a passage of it.

    The first line of the passage stays, and no line is taken away: then every drift changes both texts in the
    same way.
    """
    step = draw(st.sampled_from(["  ", "    ", "\t"]))
    n_lines = draw(st.integers(3, 9))
    level, lines = 0, list[str]()
    for number in range(n_lines):
        level = draw(st.integers(0, level + 1))
        gap = "\n" * draw(st.sampled_from([0, 0, 0, 1, 2]))
        body = draw(st.sampled_from(["call_{}(“a” – b)", "if name_{}:", "value_{} = “é”", "{}: [one, two]"]))
        lines.append(f"{gap}{step * level}{body.format(number)}\n")
    first = draw(st.integers(0, n_lines - 2))
    last = draw(st.integers(first + 2, n_lines))
    at = draw(st.integers(first + 1, last - 1))
    line = lines[at].lstrip()
    before = lines[at].removesuffix(line)
    indent = before.lstrip("\n")
    changed = draw(
        st.sampled_from(
            [
                before + line.replace("[", "[zero, ").replace("_", "_new_"),
                f"{lines[at]}{indent}added()\n",
                f"{before}other()\n",
            ]
        )
    )
    passage, new = "".join(lines[first:last]), "".join([*lines[first:at], changed, *lines[at + 1 : last]])
    if not passage.startswith("\n") and draw(st.booleans()):
        passage, new = passage.removesuffix("\n"), new.removesuffix("\n")
    return DriftedEdit("".join(lines), passage, new, "".join(lines).replace(passage, new))


@given(changes_of_a_block(), st.sampled_from([*DRIFTS]))
def test_a_drifted_change_of_any_block_lands_as_it_was_meant_or_not_at_all(
    change: DriftedEdit, drift: str
) -> None:
    land(DRIFTS[drift](change))


WORDS = st.sampled_from(["svc1:", "2: two", "call(a)", "“x”", 'y = "z"', "", "  in", "\tdeep", "end"])
LINES = st.lists(WORDS, min_size=1, max_size=6).map("\n".join)


@given(before=LINES, passage=LINES, after=LINES, new=LINES, numbered=st.booleans(), blank=st.booleans())
def test_no_edit_changes_anything_outside_of_its_passage(
    before: str, passage: str, after: str, new: str, *, numbered: bool, blank: bool
) -> None:
    """And the replacement stands there, with the blanks of the file."""
    text = f"{before}\nBEGIN\n{passage}\nEND\n{after}\n"
    lines = ["BEGIN", *passage.split("\n"), "END"]
    if blank:
        lines = [f"{line} " for line in lines]
    if numbered:
        lines = [f"{number}\t{line}" for number, line in enumerate(lines, 7)]
    try:
        edited = replace_passage(text, "\n".join(lines), f"BEGIN\n{new}\nEND", all_of_them=False).text
    except InvalidInput:
        return
    assert edited.startswith(f"{before}\nBEGIN\n")
    assert edited.endswith(f"\nEND\n{after}\n")
    inside = edited[len(before) + 7 : len(edited) - len(after) - 6]
    assert "".join(inside.split()) == "".join(new.split())


TAILS = st.sampled_from(["", "", " ", "  ", "\t"])


@given(
    lines=st.lists(st.tuples(WORDS.filter(str.strip), TAILS, TAILS), min_size=2, max_size=7),
    tail=TAILS,
    data=st.data(),
)
def test_lines_that_are_left_alone_stay_as_the_file_has_them(
    lines: list[tuple[str, str, str]], tail: str, data: st.DataObject
) -> None:
    """Blanks at the end of one line never come to another, whatever blanks the model gives."""
    text = "".join(f"{line}{end}\n" for line, end, _ in lines)
    copied = [f"{line}{end}\n" for line, _, end in lines]
    at = data.draw(st.integers(0, len(lines)))
    new = "".join([*copied[:at], f"added here{tail}\n", *copied[at:]])
    try:
        edited = replace_passage(text, "".join(copied), new, all_of_them=False).text
    except InvalidInput:
        return
    found = edited.splitlines(keepends=True)
    assert found.pop(at).rstrip() == "added here"
    assert "".join(found) == text


def test_a_function_is_added_without_joining_two() -> None:
    text = "func A() {\n}\n\nfunc B() {\n}\n"
    edited = replace_passage(text, "}\nfunc B() {\n", "}\nfunc C() {\n}\nfunc B() {\n", all_of_them=False)
    assert edited.text == "func A() {\n}\nfunc C() {\n}\n\nfunc B() {\n}\n"


def test_every_place_is_replaced_as_it_is() -> None:
    text = "say(“one”)\n  say(‟one”)\n"
    edited = replace_passage(text, 'say("one")', 'say("two")', all_of_them=True)
    assert edited.text == "say(“two”)\n  say(‟two”)\n"


@pytest.mark.parametrize("all_of_them", [True, False])
def test_places_beyond_a_limit_are_refused_and_not_replaced_in_part(all_of_them: bool) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace_passage("say(“one”)\n" * 5000, 'say("one")', "no()", all_of_them=all_of_them)
    assert caught.value.message.startswith("old_text is there 200 times or more, but for look-alike")


@pytest.mark.parametrize(
    ("pairs", "indents", "mapped"),
    [
        pytest.param([("", ""), ("  ", "\t")], ["  ", "    "], ["\t", "\t\t"], id="tabs for levels of two"),
        pytest.param([("\t", "    ")], ["\t", "\t\t"], ["    ", "        "], id="levels of the file's size"),
        pytest.param([("    ", "  ")], ["", "    "], None, id="further left than the file"),
        pytest.param([("", "    "), ("    ", "        ")], ["      "], ["          "], id="shifted right"),
        pytest.param([("        ", "    ")], ["        ", ""], ["    ", ""], id="shifted left"),
        pytest.param([("  ", "\t"), ("  ", "\t\t")], ["  "], None, id="two for one"),
        pytest.param([(" \t", "\t")], [" \t\t", "\t"], None, id="mixed"),
        pytest.param([("", "  "), ("  ", "  ")], ["", "  ", "    "], ["  ", "  ", "    "], id="cut"),
    ],
)  # fmt: skip
def test_indents(pairs: list[tuple[str, str]], indents: list[str], mapped: list[str] | None) -> None:
    assert map_indents(pairs, indents, ["", "    ", "        "]) == mapped
