"""Pages of the web: asked for by host, from checked addresses, in bounds, as text."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities import fetch
from sidecar.capabilities.fetch import FETCH, is_public, parse_url
from sidecar.capabilities.page_worker import convert, html_to_text
from sidecar.permissions.access import FetchAccess

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = pytest.mark.processes

HTML = """<!doctype html><html><head><title>The page</title><style>p {}</style></head><body>
<h1>Head</h1><p>Some <b>bold</b> text with a <a href="/x">link</a>.</p><script>alert(1)</script>
<ul><li>one</li><li>two</li></ul><pre><code>x = 1</code></pre></body></html>"""


class Site:
    """A server on this machine; *pages* are status, headers and body by path."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.seen: list[tuple[str, str]] = []
        self.tunnels: list[tuple[str, str | None]] = []
        self.refuses_tunnels = False
        self.hangs, self.is_hanging = threading.Event(), threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                site.tunnels.append((self.path, self.headers["Proxy-Authorization"]))
                self.send_response(403 if site.refuses_tunnels else 200)
                self.end_headers()
                self.close_connection = site.refuses_tunnels  # else the tunnel leads back here

            def do_GET(self) -> None:
                site.seen.append((self.path, self.headers["Host"]))
                if self.path == "/hang":
                    site.is_hanging.set()
                    site.hangs.wait()
                    return
                status, headers, body = site.pages.get(self.path, (404, {}, b"no such page"))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self._server.server_address[1]}{path}"

    def close(self) -> None:
        self.hangs.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site(desk: Desk) -> Iterator[Site]:
    desk.may_fetch_private = True
    site = Site()
    yield site
    site.close()


async def test_html_comes_as_markdown(desk: Desk, site: Site) -> None:
    site.pages["/a?b=1"] = (200, {"Content-Type": "text/html; charset=utf-8"}, HTML.encode())
    url = site.url("/a?b=1")
    output = await desk.output(FETCH, url=f"{url}#part")
    assert output == (
        f"[{url}: status 200, text/html]\n# The page\n\n# Head\n\n"
        "Some **bold** text with a [link](/x).\n\n- one\n- two\n\n```\nx = 1\n```\n"
    )
    host = url.split("/")[2]
    assert [each.access for each in desk.asked] == [FetchAccess(host)]
    assert site.seen == [("/a?b=1", host)]


def test_without_the_extra_it_comes_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdownify", None)
    assert convert(HTML) == "Head\nSome bold text with a link.\none\ntwo\nx = 1\n"


@pytest.mark.parametrize("page", ["<" * 900_000, "<!" * 400_000, "<a " * 300_000, "<p><b>" * 150_000])
async def test_a_page_that_takes_too_long_to_read_is_left(desk: Desk, site: Site, page: str) -> None:
    site.pages["/"] = (200, {"Content-Type": "text/html"}, page.encode())
    async with asyncio.timeout(20):
        await desk.run(FETCH, url=site.url(), timeout_s=1)


async def test_a_cancelled_call_ends_the_conversion(desk: Desk, site: Site) -> None:
    site.pages["/"] = (200, {"Content-Type": "text/html"}, b"<" * 4_900_000)
    running = asyncio.ensure_future(desk.run(FETCH, {"url": site.url(), "timeout_s": 100}))
    while not desk.children:  # noqa: ASYNC110  # a dict of the desk
        await asyncio.sleep(0)
    desk.cancel.cancel()
    assert "cancelled" in (await running).output


async def test_html_is_converted_up_to_a_limit(
    desk: Desk, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_MOST_HTML", 20)
    site.pages["/"] = (200, {"Content-Type": "text/html"}, b"<p>one</p><p>two</p><p>three</p>")
    output = await desk.output(FETCH, url=site.url())
    assert output.endswith(", only the first 20 bytes]\none\n\ntwo\n")


@pytest.mark.parametrize(
    ("headers", "body", "shown"),
    [
        pytest.param({"Content-Type": "application/json"}, b'{"a": 1}', '{"a": 1}', id="json"),
        pytest.param({"Content-Type": "text/plain; charset=latin-1"}, b"\xe4", "ä", id="a charset"),
        pytest.param({"Content-Encoding": "gzip"}, gzip.compress(b"hello"), "hello", id="packed"),
        pytest.param({"Content-Type": "image/png"}, b"\x89PNG", ", 4 bytes, not text]", id="an image"),
        pytest.param({"Content-Type": "text/plain"}, b"a\0b", ", 3 bytes, not text]", id="not what it says"),
        pytest.param({"Content-Encoding": "gzip"}, b"nonsense", None, id="not packed as it says"),
    ],
)
async def test_forms_of_text(
    desk: Desk, site: Site, headers: dict[str, str], body: bytes, shown: str | None
) -> None:
    site.pages["/"] = (200, headers, body)
    reply = await desk.run(FETCH, url=site.url())
    if shown is None:
        assert "the answer is not valid (error)" in reply.output
    else:
        assert reply.output.endswith(shown)
    assert reply.is_error == (shown is None)


async def test_an_error_of_the_server_is_one_with_its_page(desk: Desk, site: Site) -> None:
    failure = await desk.failure(FETCH, url=site.url("/none"))
    assert "status 404" in failure
    assert failure.endswith("no such page")


async def test_size_is_bounded_and_a_long_page_kept(
    desk: Desk, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_MOST_BYTES", 50_000)
    desk.max_output_chars = 2000
    desk.output_folder = desk.root.parent / "output"
    packed = gzip.compress(b"line\n" * 2_000_000)
    site.pages["/"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, packed)
    output = await desk.output(FETCH, url=site.url())
    assert ", only the first 50000 bytes]\nline\n" in output
    assert len(output) <= 2000
    assert (desk.output_folder / "c1.txt").read_text() == "line\n" * 10_000


async def test_a_redirect_is_asked_for_and_checked_like_the_first(desk: Desk, site: Site) -> None:
    site.pages["/"] = (302, {"Location": site.url("/there", host="localhost")}, b"")
    site.pages["/there"] = (301, {"Location": "/end"}, b"")
    site.pages["/end"] = (200, {"Content-Type": "text/plain"}, b"arrived")
    assert (await desk.output(FETCH, url=site.url())).endswith("arrived")
    hosts = [site.url(host=host).split("/")[2] for host in ("127.0.0.1", "localhost")]
    assert [each.access for each in desk.asked] == [FetchAccess(host) for host in hosts]
    site.pages["/"] = (302, {"Location": "file:///etc/passwd"}, b"")
    assert "is not an address of the web" in await desk.failure(FETCH, url=site.url())
    site.pages["/"] = (302, {"Location": "/"}, b"")
    assert "leads on more than 5 times" in await desk.failure(FETCH, url=site.url())


async def test_a_redirect_into_this_machine_is_refused(
    desk: Desk, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/"] = (302, {"Location": site.url("/secret", host="localhost")}, b"")
    monkeypatch.setattr("sidecar.capabilities.fetch.is_public", lambda address: address == "1.1.1.1")
    desk.may_fetch_private = False
    assert "localhost is at " in await desk.failure(FETCH, url=site.url(host="localhost"))
    assert site.seen == []


async def test_a_name_is_resolved_once_and_the_checked_address_used(
    desk: Desk, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    monkeypatch.setattr(fetch, "resolve_host", lambda host, port: next(answers))
    site.pages["/"] = (200, {"Content-Type": "text/plain"}, b"hello")
    assert (await desk.output(FETCH, url=site.url(host="docs.example"))).endswith("hello")
    assert site.seen[0][1].startswith("docs.example:")
    desk.may_fetch_private = False
    assert "docs.example is at 10.0.0.1, which is not" in await desk.failure(
        FETCH, url=site.url(host="docs.example")
    )


async def test_one_private_address_among_public_ones_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "resolve_host", lambda host, port: ["93.184.215.14", "127.0.0.1"])
    failure = await desk.failure(FETCH, url="http://docs.example/")
    assert "fetch_private = true in config.toml" in failure


class TestProxies:
    """The proxy of the environment is asked for a tunnel to an address that was checked."""

    @pytest.fixture
    def proxy(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
        address = site.url("").removeprefix("http://")
        monkeypatch.setenv("http_proxy", f"http://me:pass%20word@{address}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setattr(fetch, "resolve_host", lambda host, port: ["2606:4700::1", "93.184.215.14"])
        site.pages["/a"] = (200, {"Content-Type": "text/plain"}, b"hello")
        return site

    async def test_it_gets_the_checked_address_and_not_the_name(self, desk: Desk, proxy: Site) -> None:
        desk.may_fetch_private = False
        assert (await desk.output(FETCH, url="http://docs.example/a")).endswith("hello")
        assert proxy.tunnels == [("93.184.215.14:80", "Basic bWU6cGFzcyB3b3Jk")]
        assert proxy.seen == [("/a", "docs.example")]

    async def test_an_address_that_is_not_public_is_refused_all_the_same(
        self, desk: Desk, proxy: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.may_fetch_private = False
        monkeypatch.setattr(fetch, "resolve_host", lambda host, port: ["10.0.0.1"])
        failure = await desk.failure(FETCH, url="http://docs.example/a")
        assert "docs.example is at 10.0.0.1, which is not" in failure
        assert proxy.tunnels == []

    async def test_hosts_of_no_proxy_and_of_this_machine_are_reached_directly(
        self, desk: Desk, proxy: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch, "resolve_host", lambda host, port: ["127.0.0.1"])
        assert (await desk.output(FETCH, url=proxy.url("/a"))).endswith("hello")
        monkeypatch.setenv("no_proxy", ".example")
        assert (await desk.output(FETCH, url=proxy.url("/a", host="docs.example"))).endswith("hello")
        assert proxy.tunnels == []

    async def test_only_with_leave_it_resolves_names_that_are_unknown_here(
        self, desk: Desk, proxy: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def resolve(host: str, port: int) -> list[str]:
            raise OSError

        monkeypatch.setattr(fetch, "resolve_host", resolve)
        assert (await desk.output(FETCH, url="http://wiki.corp/a")).endswith("hello")
        assert proxy.tunnels[0][0] == "wiki.corp:80"
        desk.may_fetch_private = False
        assert "there is no host 'wiki.corp'" in await desk.failure(FETCH, url="http://wiki.corp/a")

    async def test_its_failures_are_named_without_its_password(
        self, desk: Desk, proxy: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxy.refuses_tunnels = True
        refused = await desk.failure(FETCH, url="http://docs.example/a")
        assert "403 Forbidden" in refused
        monkeypatch.setenv("http_proxy", "socks5://me:password@127.0.0.1:9")
        odd = await desk.failure(FETCH, url="http://docs.example/a")
        assert "a proxy of the kind 'socks5' is not known here" in odd
        assert "pass" not in refused + odd


async def test_a_no_sends_nothing(desk: Desk, site: Site) -> None:
    desk.answer = False
    assert "not allowed by the user: Fetch http" in await desk.failure(FETCH, url=site.url())
    assert site.seen == []


async def test_a_server_that_hangs_is_left(desk: Desk, site: Site) -> None:
    assert "it took too long" in await desk.failure(FETCH, url=site.url("/hang"), timeout_s=0.3)
    site.is_hanging.clear()
    running = asyncio.ensure_future(desk.run(FETCH, {"url": site.url("/hang")}))
    await asyncio.to_thread(site.is_hanging.wait)
    desk.cancel.cancel()
    assert (await running).is_error


async def test_a_port_where_nothing_listens(desk: Desk, site: Site) -> None:
    assert "Connection refused" in await desk.failure(FETCH, url="http://127.0.0.1:1/")
    assert "there is no host 'none.invalid'" in await desk.failure(FETCH, url="http://none.invalid/")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///etc/passwd", "is not an address of the web"),
        ("ftp://a/b", "is not an address of the web"),
        ("http://", "is not an address of the web"),
        ("http://a:99999/", "is not an address of the web"),
        ("http://a/b\r\nX: y", "is not an address of the web"),
        ("http://me:secret@a/", "holds a name or a password"),
    ],
)
async def test_other_addresses_are_refused(desk: Desk, url: str, expected: str) -> None:
    assert expected in await desk.failure(FETCH, url=url)
    assert desk.asked == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1"),
        *(
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fec0::1",
            "192.0.0.8",
            "192.0.0.100",
            "192.88.99.1",
            "3fff::1",
        ),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_addresses_that_are_public() -> None:
    assert all(map(is_public, ("1.1.1.1", "93.184.215.14", "2606:4700::1111")))


def test_text_of_a_page_without_structure() -> None:
    assert html_to_text("plain") == "plain\n"
    assert parse_url("HTTP://A.example/x#y").geturl() == "http://A.example/x"
