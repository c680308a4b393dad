"""The precision of the rules that are found in the recorded sessions of other agents, by a labelled sample.

A sentence is a rule when it limits or shapes more than the change that is asked for: something that must not
happen, the form of every answer or file, a habit, a preference. Each label has its reason. The texts are not
ours to keep, so a sentence is named by the beginning of the SHA-256 of its text. Where the recordings are
absent, the test is skipped and says so.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from recorded_sessions import recordings
from sidecar.importing.contract import ImportFailedError
from sidecar.importing.reading import read_session
from sidecar.llmgateway.contract import TextBlock
from sidecar.window_budget.rules import find_statements

LEAST_PRECISION = 0.9
MOST_UNKNOWN = 0.1
"""How much of what is found may be without a label: the sample is drawn from all of it."""

RULES: dict[str, str] = {
    "6f6f5de430d5": "limits what a rewind may touch",
    "89ce9a5ae633": "a fact that the user wants kept in mind",
    "0997450bc803": "rules batching out",
    "d376382652db": "an invariant of a function, for any session",
    "a2ba0472a4dc": "forbids a source of names",
    "ef075aac26c3": "an invariant of a view",
    "7a68421e1026": "work that the user wants avoided",
    "6591098dd951": "forbids a dependency between two modules",
    "5b6d0fa45f41": "an invariant of a view, without fallback",
    "fcc67f65e86e": "the form of every answer",
    "53744885a5ec": "the content of every answer",
    "78a8731ef974": "a limit of the work",
    "4b7b10e4113d": "something to avoid throughout",
    "589f3a1d835f": "a condition that all work must meet",
    "e5e54d7a0df8": "a condition that all work must meet",
    "49a5801bc19e": "an order for a case that may come",
    "06f172227ea3": "a limit of the work",
    "a4ee0624aca9": "the format of all icons",
    "f0bc9054b975": "an invariant of rendering",
    "3191b42d9544": "forbids to change a file",
    "d96563bb15e4": "an invariant of loading",
    "8dcb8e3d2cd7": "forbids a kind of output",
    "4cd299fbac13": "one helper is to be used and not the other",
    "c2a3ce55d656": "forbids a flag in a group of tests",
    "1c1e79a069bf": "forbids a default",
    "6f9680e79a55": "forbids a way of testing",
    "b1333cf86632": "forbids to change a function",
    "3b3e56d79140": "forbids to replace an object",
    "9063a7efb5da": "forbids paging for one caller",
    "dc1a115cec80": "one function is to be used and not the other",
    "60d2bbacd1ce": "one function is to be used and not the other",
    "ba4a383caff3": "limits a command to one conversion",
    "f345056f5c3e": "a habit for every step",
    "e0f78b3ef8e7": "a habit for every task",
    "b3287c60d8e2": "an order for a case that may come",
    "b8682951e0d3": "a habit for every step",
    "42c4e963705a": "a habit for every edit",
    "cb70cbb7ac96": "forbids to change other files",
    "fc5a2fc8179a": "the form of every answer",
    "8f236998d314": "the form of every answer",
    "73ba3ae5e0c5": "the form of every answer",
    "ac358f4e4071": "the form of one command",
    "b3067214221c": "a condition that all work must meet",
    "a82bfe62534c": "a preference about paying",
    "55f6d6b5c17b": "a preference among flights",
    "7e45ae2ab0b8": "something that must not change",
    "74edb28ecf8f": "a preference for a case that may come",
    "0d34bc41d168": "a limit on the time of day",
    "daa3a6ab0cee": "a preference among flights",
    "d1d196ef8748": "a limit on the time of day",
    "471aa53f3c49": "a preference among flights",
    "1bd531068ad7": "a condition on the seats",
    "06726f14ecad": "refuses a transfer",
    "4d7dbcade94d": "refuses a transfer",
    "25b9e9d48fae": "refuses a transfer",
    "3e5c297a66a3": "something that must not change",
    "75258099d3f9": "a preference about paying",
    "ec52c8fe4587": "a preference about refunds",
    "7e1ef420bbb1": "a condition on refunds",
    "622928dc7be9": "a limit on the price",
    "9495c3b995e5": "a limit on the time of day",
    "74798c365972": "a limit on the time of day",
    "338aea2621f1": "a preference about paying",
    "91719e49f2e9": "a condition on the seats",
    "38732bea8fb2": "rules an extra out",
    "db71c6b2d237": "refuses a transfer",
    "e57768a90ba3": "refuses a transfer",
}

NO_RULES: dict[str, str] = {
    "78f097992e17": "one change, done when it is done",
    "1ff92236c2ee": "one change of the present test",
    "84f3751d9247": "one change, done when it is done",
    "97e7f008b227": "an answer to an offer",
    "54fb2455067d": "one more thing to do for the present change",
    "083fa8dd7dc2": "a report of a defect",
    "8c6d817b6f42": "a part of the present change",
}


def rules_in(path: Path) -> set[str]:
    """Return the hashes of the sentences of *path* that are taken for rules."""
    try:
        session = read_session(path, cwd="/project")
    except ImportFailedError:
        return set()
    found: set[str] = set()
    for entry in session.entries.values():
        if entry.kind == "user" and not entry.origin:
            text = "\n".join(block.text for block in entry.turn.blocks if isinstance(block, TextBlock))
            rules = (each.text for each in find_statements(text) if each.kind == "rule")
            found.update(hashlib.sha256(rule.encode()).hexdigest()[:12] for rule in rules)
    return found


def test_nine_in_ten_sentences_taken_for_rules_are_rules() -> None:
    cases = recordings()
    if cases[0].id == "absent":
        pytest.skip("the recorded sessions are not beside this checkout")
    found = set().union(*(rules_in(case.values[0]) for case in cases))
    assert len(found - RULES.keys() - NO_RULES.keys()) <= MOST_UNKNOWN * len(found), "label the new ones"
    right, wrong = len(found & RULES.keys()), len(found & NO_RULES.keys())
    assert right >= LEAST_PRECISION * (right + wrong)
    assert right >= 60, "the rules of the recordings are still found"
