"""Cancellation: one token, its listeners and its children."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from sidecar._internal.cancel import Callback, CancelledByToken, CancelToken


def boom() -> None:
    raise ValueError("listener failed")


class Interrupt(BaseException):
    """Something that is not an Exception, and so never swallowed."""


def interrupt() -> None:
    raise Interrupt


def test_a_fresh_token_is_live() -> None:
    token = CancelToken()
    assert (token.cancelled, token.reason) == (False, None)
    token.raise_if_cancelled()


@pytest.mark.parametrize("reason", ["first", None])
def test_the_first_cancel_wins(reason: str | None) -> None:
    token = CancelToken()
    token.cancel(reason)
    token.cancel("second")
    assert (token.cancelled, token.reason) == (True, reason)


def test_listeners_are_called_once_in_order() -> None:
    token, heard = CancelToken(), list[str]()
    token.add_callback(lambda: heard.append("a"))
    token.add_callback(lambda: heard.append("b"))
    token.cancel()
    token.cancel()
    assert heard == ["a", "b"]


def test_an_exception_of_one_listener_does_not_prevent_the_other_calls() -> None:
    token, heard = CancelToken(), list[str]()
    token.add_callback(boom)
    token.add_callback(lambda: heard.append("after"))
    token.child().add_callback(lambda: heard.append("child"))
    token.cancel()
    assert heard == ["after", "child"]


def test_a_base_exception_is_not_swallowed() -> None:
    token = CancelToken()
    token.add_callback(interrupt)
    with pytest.raises(Interrupt):
        token.cancel()
    assert token.cancelled


def test_a_listener_added_during_the_calls_is_called_at_once() -> None:
    token, heard = CancelToken(), list[str]()

    def add_another() -> None:
        token.add_callback(lambda: heard.append("late"))

    token.add_callback(add_another)
    token.cancel()
    assert heard == ["late"]


def test_a_listener_on_a_cancelled_token_is_called_at_once() -> None:
    token, heard = CancelToken(), list[str]()
    token.cancel()
    dispose = token.add_callback(lambda: heard.append("now"))
    dispose()
    assert heard == ["now"]


def test_a_callback_error_is_swallowed_on_a_cancelled_token_too() -> None:
    token = CancelToken()
    token.cancel()
    token.add_callback(boom)


@pytest.mark.parametrize(
    ("n_disposals", "n_heard"),
    [
        pytest.param(0, 2, id="one function registered twice hears twice"),
        pytest.param(1, 1, id="a disposal takes one registration"),
        pytest.param(2, 0, id="a second disposal through the same handle takes the other"),
    ],
)
def test_disposal_is_by_equality(n_disposals: int, n_heard: int) -> None:
    token, heard = CancelToken(), list[str]()

    def listener() -> None:
        heard.append("x")

    dispose = token.add_callback(listener)
    token.add_callback(listener)
    for _ in range(n_disposals):
        dispose()
    token.cancel()
    dispose()
    assert len(heard) == n_heard


def test_cancellation_goes_down_and_never_up() -> None:
    root = CancelToken()
    child = root.child()
    grandchild, sibling = child.child(), root.child()
    child.cancel("only here")
    assert [t.cancelled for t in (root, child, grandchild, sibling)] == [False, True, True, False]
    assert grandchild.reason == "only here"


def test_a_child_of_a_cancelled_token_is_born_cancelled() -> None:
    token = CancelToken()
    token.cancel("over")
    child = token.child()
    assert (child.cancelled, child.reason) == (True, "over")


def test_a_child_that_was_cancelled_keeps_its_own_reason() -> None:
    root = CancelToken()
    child, other = root.child(), root.child()
    child.cancel("mine")
    gc.collect()
    root.cancel("theirs")
    assert (child.reason, other.reason) == ("mine", "theirs")


@pytest.mark.parametrize("end", [lambda child, dispose: dispose(), lambda child, dispose: child.cancel()])
def test_a_parent_keeps_nothing_of_children_that_are_done(
    end: Callable[[CancelToken, Callback], None],
) -> None:
    root = CancelToken()
    before = _weight(root)
    for _ in range(1_000):
        child = root.child()
        end(child, child.add_callback(boom))
        del child
    gc.collect()
    assert _weight(root) == before


def _weight(token: CancelToken) -> int:
    return len(token._children) + len(token._anchored) + len(token._listeners)


def test_a_child_with_listeners_is_held_by_its_parent() -> None:
    root, heard = CancelToken(), list[str]()
    root.child().add_callback(lambda: heard.append("child"))
    root.child().child().add_callback(lambda: heard.append("grandchild"))
    gc.collect()
    root.cancel()
    assert sorted(heard) == ["child", "grandchild"]


@pytest.mark.parametrize(
    ("reason", "text"), [(None, "cancelled"), ("", "cancelled"), ("user pressed esc", "user pressed esc")]
)
def test_raise_if_cancelled(reason: str | None, text: str) -> None:
    token = CancelToken()
    token.cancel(reason)
    with pytest.raises(CancelledByToken) as caught:
        token.raise_if_cancelled()
    assert (str(caught.value), caught.value.reason) == (text, reason)


def test_it_is_a_plain_exception_and_never_asyncio_s() -> None:
    assert CancelledByToken.__mro__[1] is Exception


def test_threads_that_cancel_at_once_tell_each_listener_once() -> None:
    token, heard = CancelToken(), list[int]()
    for number in range(100):
        token.child().add_callback(partial(heard.append, number))
    start = threading.Barrier(4)

    def race() -> None:
        start.wait()
        token.cancel()

    _together([race] * 4)
    assert sorted(heard) == list(range(100))


def test_a_listener_that_comes_while_another_leaves_is_still_held() -> None:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            _listener_comes_while_another_leaves()
    finally:
        sys.setswitchinterval(switch)


def _listener_comes_while_another_leaves() -> None:
    root, heard = CancelToken(), list[str]()
    _race_on(root.child(), lambda: heard.append("held"))
    root.cancel()
    assert heard == ["held"]


def _race_on(token: CancelToken, listener: Callback) -> None:
    leave = token.add_callback(boom)
    _together([leave, lambda: token.add_callback(listener)])


def _together(jobs: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
