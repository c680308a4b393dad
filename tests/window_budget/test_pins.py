"""Rules and evidence that a model's digest must not lose."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import AssistantMessage, FactIndex, Message, ToolResultMessage, UserMessage
from sidecar.window_budget.local_digest import add_missing_facts, add_missing_rules, required_rules
from sidecar.window_budget.selection import PreviousDigest, parse_digest

RULE = "Never touch the generated files."


@pytest.mark.parametrize(
    ("digest", "expected"),
    [
        pytest.param(f"# Guardrails\n- {RULE}", f"# Guardrails\n- {RULE}", id="already there"),
        pytest.param(
            "# Guardrails\n* never TOUCH the\n  generated files",
            "# Guardrails\n* never TOUCH the\n  generated files",
            id="the words decide, not case, bullets or line ends",
        ),
        pytest.param(
            "# Guardrails\nnone\n\n# Plan\nship", f"# Guardrails\n- {RULE}\n# Plan\nship", id="none goes"
        ),
        pytest.param(
            "# Guardrails\n- be brief\n# Plan",
            f"# Guardrails\n- be brief\n- {RULE}\n# Plan",
            id="others stay",
        ),
        pytest.param("# Guardrails", f"# Guardrails\n- {RULE}", id="an empty last section"),
        pytest.param("# Plan\nship", f"# Guardrails\n- {RULE}\n\n# Plan\nship", id="no such section"),
    ],
)
def test_a_rule_the_model_dropped_is_put_back(digest: str, expected: str) -> None:
    """Under its heading, once, and nothing else is changed."""
    assert add_missing_rules(digest, (RULE,)) == expected
    assert add_missing_rules(expected, (RULE,)) == expected


def test_rules_come_from_prompts_and_from_earlier_digests() -> None:
    """Of a model's guardrails, of our own section, and as the user set them since."""
    ledger = FactIndex().extend(
        [UserMessage("Use tabs? Always use tabs.\nhello"), UserMessage("Never push.")]
    )
    carried = parse_digest("# Guardrails\n- be brief\n- none\n# Plan\n- push\n## Rules\n- stay in src")
    assert required_rules(ledger, 2, carried) == (
        "be brief",
        "stay in src",
        "Always use tabs.",
        "Never push.",
    )
    assert required_rules(ledger, 1, PreviousDigest()) == ("Always use tabs.",)


def test_pinned_rules_are_bounded() -> None:
    """A thousand rules do not fill the window; the newest are among those kept."""
    ledger = FactIndex().extend(
        [UserMessage(f"Never touch {name}.") for name in map("file{}".format, "abcdefgh" * 99)]
    )
    rules = required_rules(ledger, len(ledger), PreviousDigest())
    assert sum(map(len, rules)) < 600 * 3.6
    assert "Never touch fileh." in rules


def test_evidence_a_model_leaves_out_is_listed() -> None:
    """In the sections that the next pass reads again; what is mentioned is not repeated."""
    messages: list[Message] = [
        AssistantMessage(
            (
                ToolCallBlock(
                    "1", "edit", {"path": "src/a.py", "old_string": "x = 1", "new_string": "x = 2"}
                ),
                ToolCallBlock("2", "bash", {"command": "make test"}),
            )
        ),
        ToolResultMessage("1", "edit", (TextBlock("ok"),)),
        ToolResultMessage("2", "bash", (TextBlock("exit code: 2\nValueError: no port"),)),
    ]
    ledger = FactIndex().extend(messages)
    digest = add_missing_facts("# Plan\nrun make test again", ledger, 3, PreviousDigest())
    assert digest == (
        "# Plan\nrun make test again\n# Carryover\n## Files modified\n- src/a.py: x = 1 -> x = 2\n"
        "## Errors\n- make test: ValueError: no port"
    )
    assert add_missing_facts(digest, ledger, 3, parse_digest(digest)) == digest
