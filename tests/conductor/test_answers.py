"""Answers of slash commands in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.conductor.contract import Compaction, SessionRule
from sidecar.conductor.turns.commands import describe_edited, describe_result, describe_rules

DONE = Compaction(
    compaction_id="k1",
    engine="windowBudget",
    trigger="manual",
    status="completed",
    pre_tokens=4000,
    pre_count=20,
    dropped_count=16,
    cut=16,
    microcompacted=0,
    before_head="n20",
    undoable=True,
    post_tokens=1500,
    summary_source="model",
)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        pytest.param(
            DONE,
            "Compacted 16 messages into a summary by a model: 4,000 to 1,500 tokens. /undo takes it back.",
            id="a model's summary",
        ),
        pytest.param(
            replace(DONE, summary_source=None),
            "Shortened the texts that were too large: 4,000 to 1,500 tokens. /undo takes it back.",
            id="no summary",
        ),
        pytest.param(
            replace(DONE, status="failed", error="no answer"),
            "The compaction failed and the conversation is unchanged: no answer.",
            id="a failure",
        ),
    ],
)
def test_a_result_says_what_changed_and_how_to_take_it_back(done: Compaction, expected: str) -> None:
    assert describe_result(done) == expected


def test_files_are_named_as_in_the_folder_of_the_session(tmp_path: Path) -> None:
    outside = tmp_path.parent / "b.py"
    answer = describe_edited([(tmp_path / "src" / "a.py").as_uri(), outside.as_uri()], tmp_path)
    assert answer.splitlines()[-2:] == ["- src/a.py", f"- {outside}"]


def test_without_rules_the_answer_says_how_to_set_one() -> None:
    assert "/remember sets one" in describe_rules([])


def test_rules_are_listed_with_their_origin() -> None:
    holding = SessionRule(id="r1", text="Never push.", source="user", at=0)
    assert describe_rules([holding]) == "These rules hold:\n- r1 Never push. (set by hand)"
