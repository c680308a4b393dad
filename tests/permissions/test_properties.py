"""Properties of coverage, over random compounds of benign, hostile and random lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_lines import BENIGN, OWN, PUBLISHED
from sidecar.permissions.access import CommandAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells and paths")

ROOT = Path("/nowhere/project")
LINES = st.sampled_from(
    [line for line in (*BENIGN, *OWN, *PUBLISHED) if "\n" not in line and "#" not in line]
)
ANSWERED = st.lists(st.sampled_from(BENIGN), max_size=12)
OPERATORS = st.sampled_from([" && ", " || ", "; ", " | ", " & ", "\n"])
FLAGS = st.sampled_from(
    ["--unknown-flag", "--output=x", "-Z", "--exec=x", "--pre=x", "-o x", "-c x", "--config x"]
)
FILES = st.sampled_from([" > x", " >> src/x", " 2> x", " > ../x", " &> .git/config", " >| x", " <> x"])


def covers(policy: Policy, line: str) -> bool:
    return policy.judge(CommandAccess(line, ROOT)).outcome == "allow"


def policy_after(answered: Sequence[str]) -> Policy:
    policy = Policy(SessionFolders((ROOT,)))
    for line in answered:
        policy.granted.update(policy.judge(CommandAccess(line, ROOT)).keys)
    return policy


@given(ANSWERED, st.lists(LINES, min_size=1, max_size=4), OPERATORS)
def test_a_covered_compound_has_only_covered_parts(answered: list[str], parts: list[str], by: str) -> None:
    policy = policy_after(answered)
    if covers(policy, by.join(parts)):
        assert [part for part in parts if not covers(policy, part)] == []


@given(ANSWERED, LINES, FILES)
def test_a_redirection_never_covers_a_line(answered: list[str], line: str, file: str) -> None:
    policy = policy_after(answered)
    assert covers(policy, line) or not covers(policy, line + file)


@given(ANSWERED, LINES, FLAGS)
def test_a_flag_that_is_not_known_never_covers_a_line(answered: list[str], line: str, flag: str) -> None:
    policy = policy_after(answered)
    plain = line.split(" ")[0] in ("echo", "true", "false", ":")
    assert covers(policy, line) or plain or not covers(policy, f"{line} {flag}")


@given(ANSWERED, ANSWERED, LINES)
def test_more_answers_never_cover_less(answered: list[str], more: list[str], line: str) -> None:
    assert not covers(policy_after(answered), line) or covers(policy_after([*answered, *more]), line)


@given(ANSWERED, LINES, st.sampled_from(["sh -c", "env", "sudo", "xargs", "setsid", "nohup", "exec", "eval"]))
def test_a_wrapper_never_covers_its_command(answered: list[str], line: str, wrapper: str) -> None:
    wrapped = f"{wrapper} {line}"
    assert wrapped in answered or not covers(
        policy_after([each for each in answered if each != wrapped]), wrapped
    )


@given(st.text(max_size=60))
def test_any_text_is_judged(line: str) -> None:
    assert Policy(SessionFolders((ROOT,))).judge(CommandAccess(line, ROOT)).outcome in ("allow", "ask")
