"""Fakes of the providers' HTTP interfaces, for tests of whatever calls a model: real SDKs, no network.

A scene says what the model does; each format spells it. ``fake_provider("openai-chat", [scene])`` serves it
on the loopback, with whatever the wire can do wrong: refusals, cuts, silence, drips, junk.
"""

from provider_fakes.http import Asked, Cut, Drip, FakeHttp, Hang, Until, serve_http
from provider_fakes.oddities import ODDITIES, Oddity
from provider_fakes.provider import STRICT, WIRES, FakeProvider, fake_provider
from provider_fakes.scenes import (
    Broken,
    Called,
    Ended,
    Page,
    Raw,
    Refused,
    Said,
    Scene,
    Spent,
    Thought,
    frame,
)
from provider_fakes.strictness import objection

__all__ = [
    "ODDITIES",
    "STRICT",
    "WIRES",
    "Asked",
    "Broken",
    "Called",
    "Cut",
    "Drip",
    "Ended",
    "FakeHttp",
    "FakeProvider",
    "Hang",
    "Oddity",
    "Page",
    "Raw",
    "Refused",
    "Said",
    "Scene",
    "Spent",
    "Thought",
    "Until",
    "fake_provider",
    "frame",
    "objection",
    "serve_http",
]
