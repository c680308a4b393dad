#!/usr/bin/env python3
"""A review bot: reviews the commits since a branch, and prints its findings as FILE:LINE: SEVERITY: TEXT.

    python review.py origin/main

It may only read, so that it is safe on code of others. Exit codes: 0 nothing serious, 1 at least one error,
2 the review could not be made. SIDECAR names the command of the daemon, INDUSAGI_MODEL the model.
"""

from __future__ import annotations

import subprocess
import sys

from sidecar_script import Sidecar, SidecarError

SEVERITIES = ("error", "warning", "note")
MAX_DIFF_CHARS = 200_000
TASK = """\
Review this change of the repository in the current folder. Read the code around it where you need to. Report
what is wrong or dangerous, and nothing about style. Answer with a JSON array, empty when all is well, of
objects with the members file, line (a number in the new file), severity ("error", "warning" or "note") and
text (one or two sentences). Answer with that array alone.

"""


def find_changes(base: str) -> str:
    """Return the difference of the present commit to where it left *base*."""
    return subprocess.run(
        ["git", "diff", "--no-color", f"{base}...HEAD"], check=True, capture_output=True, text=True
    ).stdout


def review(diff: str) -> list[dict]:
    """Return the findings about *diff*. Raises SidecarError, and ValueError for an answer in another form."""
    with Sidecar(require_model=True) as sidecar:
        sid = sidecar.new_session(permissions="plan", ephemeral=True)
        answer = sidecar.ask(TASK + diff, sid=sid, max_model_calls=60, timeout_s=900)
        for attempt in (1, 2):
            try:
                return [check_finding(each) for each in answer.json()]
            except (ValueError, TypeError, KeyError) as error:
                if attempt == 2:
                    raise ValueError(f"the answer is not a list of findings: {error!r}") from None
                answer = sidecar.ask(f"That failed: {error!r}. Answer with the array alone.", sid=sid)
    raise AssertionError("not reached")


def check_finding(found: dict) -> dict:
    """Return *found* with the members that a finding has. Raises ValueError, TypeError or KeyError."""
    if found["severity"] not in SEVERITIES:
        raise ValueError(f"severity must be one of {SEVERITIES}, not {found['severity']!r}")
    return {**found, "line": int(found["line"]), "text": " ".join(str(found["text"]).split())}


def main() -> int:
    """Review the commits since the branch that is named, by default origin/main."""
    base = sys.argv[1] if len(sys.argv) > 1 else "origin/main"
    try:
        diff = find_changes(base)
        if not diff:
            print(f"nothing has changed since {base}", file=sys.stderr)
            return 0
        if len(diff) > MAX_DIFF_CHARS:
            print(f"only the first {MAX_DIFF_CHARS:,} of {len(diff):,} characters are shown", file=sys.stderr)
        findings = review(diff[:MAX_DIFF_CHARS])
    except subprocess.CalledProcessError as error:
        print(f"review: {error.stderr.strip()}", file=sys.stderr)
        return 2
    except (SidecarError, ValueError) as error:
        print(f"review: {error}", file=sys.stderr)
        return 2
    for each in sorted(findings, key=lambda found: (found["file"], found["line"])):
        print(f"{each['file']}:{each['line']}: {each['severity']}: {each['text']}")
    return int(any(each["severity"] == "error" for each in findings))


if __name__ == "__main__":
    sys.exit(main())
