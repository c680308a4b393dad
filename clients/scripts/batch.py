#!/usr/bin/env python3
"""One task for each of many files, within a budget; a line of JSON for each file.

    python batch.py --dollars 2 --allow 'edit: **' "add type annotations to {file}" src/*.py >done.jsonl

Each file has a session of its own, and its turn gets what is left of the budget: it ends before a call that
would break it. A second run with --skip done.jsonl goes on there. Exit codes: 0 all done, 1 some files
failed, 2 no model is set up, 3 the budget is spent. SIDECAR names the command of the daemon, INDUSAGI_MODEL
the model.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from sidecar_script import Sidecar, SidecarError


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", help="the task; {file} stands for the file")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--dollars", type=float, default=float("inf"), help="the budget in dollars")
    parser.add_argument("--tokens", type=int, default=10_000_000, help="the budget in tokens (10000000)")
    parser.add_argument("--allow", action="append", default=[], metavar="RULE", help="an action that may run")
    parser.add_argument("--skip", metavar="FILE", help="leave out what is done in this output of a run")
    parser.add_argument("--max-calls", type=int, default=30, help="of the model, for one file (30)")
    return parser.parse_args(arguments)


def read_done(path: str | None) -> set[str]:
    """Return the files that an earlier run has done."""
    if path is None or not Path(path).exists():
        return set()
    lines = Path(path).read_text("utf-8").splitlines()
    return {entry["file"] for entry in map(json.loads, lines) if "error" not in entry}


def main() -> int:
    """Do the task for each file."""
    options = parse()
    done, dollars, tokens, n_failed = read_done(options.skip), 0.0, 0, 0
    is_unpriced = False
    waiting = [file for file in options.files if file not in done]
    with Sidecar(allow=options.allow, require_model=True) as sidecar:
        for at, file in enumerate(waiting):
            left: dict[str, float] = {"usd": options.dollars - dollars, "tokens": options.tokens - tokens}
            task = options.task.replace("{file}", file)
            entry, is_spent = {"file": file}, min(left.values()) <= 0
            if is_spent:
                print(f"the budget is spent: {len(waiting) - at} files are left", file=sys.stderr)
                return 3
            if left["usd"] == float("inf"):
                del left["usd"]
            try:
                answer = sidecar.ask(task, max_model_calls=options.max_calls, budget=left, timeout_s=600)
                dollars, tokens = dollars + (answer.cost or 0), tokens + answer.tokens
                if answer.cost is None and answer.tokens and not is_unpriced:
                    is_unpriced = True
                    print(
                        "the price of this model is not known: only --tokens bounds the run", file=sys.stderr
                    )
                entry.update(text=answer.text, sid=answer.sid, tokens=answer.tokens, dollars=answer.cost)
                if answer.stop_reason != "end_turn":
                    entry["error"] = answer.stop_reason
                is_spent = answer.stop_reason == "budget"
            except SidecarError as error:
                if error.kind == "connectionLost":
                    raise
                if error.kind == "noModel":
                    print(f"batch: {error}", file=sys.stderr)
                    return 2
                entry["error"] = str(error)
            n_failed += "error" in entry
            print(json.dumps(entry), flush=True)
            cost = f"${dollars:.2f}" + (" and unknown prices" if is_unpriced else "")
            print(f"{at + 1} of {len(waiting)}: {file}, {cost}, {tokens:,} tokens", file=sys.stderr)
            if is_spent:
                print(f"the budget is spent: {len(waiting) - at} files are left", file=sys.stderr)
                return 3
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
