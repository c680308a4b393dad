"""``sidecar permissions``: the user's rules, and the decision about one action with the reason for it."""

from __future__ import annotations

import argparse
from pathlib import Path

from sidecar._internal.env import expand_home, indusagi_home
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.config import CONFIG_FILE, read_settings
from sidecar.permissions.access import Access, CommandAccess, EditAccess
from sidecar.permissions.policy import OUTCOME_NAMES, Policy, Verdict
from sidecar.permissions.protected import PROTECTED, SessionFolders
from sidecar.permissions.table import entries
from sidecar.workspace.files import real_path
from sidecar.workspace.paths import is_inside

_NO_RULES = (
    'none; write for example\n[permissions]\nallow = ["npm run *", "edit: docs/**"]\ndeny = ["git push"]'
)


def run(options: argparse.Namespace) -> int:
    """Show the rules, or the decision about one action; return the exit code."""
    screen, home = Screen(), indusagi_home()
    settings = read_settings(home)
    for problem in settings.problems:
        screen.problem(problem)
    if options.action is None:
        show_rules(screen, home / CONFIG_FILE, Policy(SessionFolders((Path.cwd(),)), settings.rules))
        return 2 if settings.problems else 0
    if not options.line:
        screen.problem("sidecar permissions test needs a command, as in: sidecar permissions test 'git push'")
        return 2
    folder = real_path(expand_home(options.cwd))
    policy = Policy(SessionFolders((folder,), real_path(home)), settings.rules, options.mode)
    access = parse_access(options.line, folder)
    show_verdict(screen, options.line, policy.judge(access))
    return 2 if settings.problems else 0


def parse_access(text: str, folder: Path) -> Access:
    """Return the action that *text* describes: a command, or ``edit: PATH``."""
    if not text.startswith("edit:"):
        return CommandAccess(text, folder)
    path = real_path(folder / expand_home(text.removeprefix("edit:").strip()))
    return EditAccess(path, is_inside(path, (folder,)))


def show_rules(screen: Screen, config: Path, policy: Policy) -> None:
    """Print the rules of the user, and a summary of the built-in ones."""
    rules = [("deny", rule.text) for rule in policy.rules.deny] + [
        ("allow", rule.text) for rule in policy.rules.allow
    ]
    screen.line(f"rules in {config}: {'' if rules else _NO_RULES}")
    for kind, text in rules:
        screen.line(f"  {kind:5} {text}")
    known = entries().values()
    free = dict.fromkeys(" ".join(entry.words) for entry in known if entry.kind == "free")
    screen.line(f"free inside the session's folders, with harmless flags: {', '.join(free)}")
    screen.line(
        f"known besides: {sum(entry.kind != 'free' for entry in known)} commands, covered by one answer each"
    )
    screen.line("always asked, before a change:")
    for why, names in PROTECTED.items():
        screen.line(f"  {why}: {names}")


def show_verdict(screen: Screen, line: str, verdict: Verdict) -> None:
    """Print the decision about *line*, the reason, and the scope of an answer "always"."""
    screen.line(f"{line}: {OUTCOME_NAMES[verdict.outcome]}, because {verdict.why}")
    if verdict.outcome == "ask":
        scope = f"would allow {verdict.label}" if verdict.keys else "is not offered"
        screen.line(f'  "always" {scope}')
    if len(verdict.needs) > 1:
        for need in verdict.needs:
            screen.line(f"  - {need.text}: {need.why}")
