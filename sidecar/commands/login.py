"""``sidecar login``: stores the key of a provider, installs its extra where it is missing, asks a model.

The key is read without being shown, or given in the browser where the provider has a sign-in for programs.
It goes into the system's keyring, or into a file for its user alone.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import subprocess
import sys
from getpass import getpass
from pathlib import Path

from sidecar._internal.env import indusagi_home, read_raw
from sidecar._internal.loading import install_arguments, install_command
from sidecar.commands.sign_in import OFFERED, sign_in
from sidecar.commands.terminal import Screen
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.config import near_name, read_settings
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import Credentials, Key, checked_key, system_keyring
from sidecar.llmgateway.diagnostics import Diagnostic, ask_model
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, extra_of
from sidecar.llmgateway.providers import is_installed
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.llmgateway.survey import PROPOSED


def run(options: argparse.Namespace) -> int:
    """Log in at a provider, or out, and return the exit code."""
    screen = Screen(sys.stderr)
    try:
        return log_in(screen, indusagi_home(), options.provider, removes=options.remove)
    except EOFError:  # Ctrl-D at a question
        screen.note("nothing is stored")
        return 1
    except GatewayError as error:
        screen.problem(f"sidecar login: {error.message}")
        return 2


def log_in(screen: Screen, home: Path, name: str | None, *, removes: bool = False) -> int:
    """Store the key of the provider *name*, which the user chooses for None, and ask one of its models.

    Args:
        screen: the output.
        home: the state directory.
        name: the provider.
        removes: remove its key instead.

    Raises:
        GatewayError: the key, or the file of keys, cannot be used.
        EOFError: the user has left at a question.
    """
    providers = {**PROVIDERS_BY_NAME, **read_settings(home).providers}
    name = name or choose_provider(screen)
    if name is None:
        screen.problem("sidecar login: name a provider, as in: sidecar login anthropic")
        return 2
    provider = providers.get(name)
    if provider is None:
        near = near_name(name, providers)
        meant = f"did you mean {near}?" if near else f"known ones: {', '.join(PROPOSED)}"
        screen.problem(f"sidecar login: there is no provider {name!r}; {meant}")
        return 2
    if not provider.needs_key:
        screen.note(f"{name} needs no key from here; use it with --model {name}:MODEL")
        return 0
    keys = Credentials(home, system_keyring())
    where = keys.store(name, None if removes else take_key(screen, provider))
    if removes:
        screen.note(f"the key of {name} is removed")
        return 0
    screen.note(f"the key of {name} is in {where}")
    if (variable := next(filter(read_raw, provider.key_env), None)) is not None:
        screen.note(f"{variable} is set, and counts before it")
    if not install_missing(screen, provider):
        return 1
    screen.note("asking a model one question ...")
    answered = asyncio.run(ask_provider(home, Path.cwd(), name))
    if not answered.is_well:
        screen.problem(f"{answered.subject} {answered.text}")
        return 1
    screen.note(f"{answered.subject} {answered.text}")
    screen.note("begin with: sidecar")
    return 0


def choose_provider(screen: Screen) -> str | None:
    """Let the user of a terminal choose a provider; None without one."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    names = [*PROPOSED]
    for number, name in enumerate(names, 1):
        screen.note(f"{number:3}  {name}")
    answer = input("provider (number or name, 1): ").strip() or "1"
    return names[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(names) else answer


def take_key(screen: Screen, provider: Provider) -> str:
    """Return a key from the browser where *provider* and the user of a terminal like that, else one typed.

    Raises GatewayError.
    """
    if provider.id in OFFERED and confirm(
        f"sign in at {provider.id} with the browser? [Y]es, or [n]o to paste a key: "
    ):
        try:
            return sign_in(screen, provider)
        except KeyboardInterrupt:
            screen.note("no sign-in; paste a key in its place")
    return read_key(provider)


def read_key(provider: Provider) -> str:
    """Return the key that the user pastes, or the first line of a pipe. Raises GatewayError."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    text = getpass(f"key of {provider.id} (it is not shown): ") if is_terminal else sys.stdin.readline()
    key = checked_key(Key(text.strip(), "the input"), provider.id)
    if not key.value:
        raise GatewayError("auth", "no key was given; nothing is stored")
    return key.value


def install_missing(screen: Screen, provider: Provider) -> bool:
    """Install the extra of *provider* if the user of a terminal agrees; return whether it is there."""
    extra, _ = extra_of(provider)
    if is_installed(provider):
        return True
    screen.note(f"{provider.id} needs the extra [{extra}]; the command is: {install_command(extra)}")
    if not confirm("run it now? [Y]es, [n]o: "):
        return False
    done = subprocess.run(install_arguments(extra), check=False).returncode == 0
    importlib.invalidate_caches()
    return done and is_installed(provider)


def confirm(question: str) -> bool:
    """Return whether the user of the terminal agrees to *question*, as an empty line does."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    return input(question).strip().lower() in ("", "y", "yes")


async def ask_provider(home: Path, folder: Path, name: str) -> Diagnostic:
    """Ask the model that is proposed of the provider *name* one question, and return its answer."""
    models = await ModelRegistry(setup=ModelSetup.of_user(home)).at(folder, is_chosen=True)
    try:
        await models.list_servers()
        offered = next((each for each in models.names() if each.startswith(f"{name}:")), None)
        if offered is None:
            return Diagnostic(name, f"lists no model here; choose one with --model {name}:MODEL")
        return await ask_model(models, offered)
    finally:
        await models.aclose()


def offer_missing(screen: Screen, home: Path) -> None:
    """Offer the user of a terminal to install the extras of keys that are there, or to log in without any."""

    async def survey() -> ModelRegistry:
        return await ModelRegistry(setup=ModelSetup.of_user(home)).at(Path.cwd())

    models = asyncio.run(survey())
    providers = {**PROVIDERS_BY_NAME, **models.settings.providers}
    for name in models.survey.missing:
        install_missing(screen, providers[name])
    is_alone = models.default == OFFLINE_CARD.id and not models.survey.missing
    if is_alone and confirm("no model of a provider is set up; log in at one? [Y]es, [n]o: "):
        run(argparse.Namespace(provider=None, remove=False))
