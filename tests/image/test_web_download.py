"""Fetching from the web: whole, bounded, and never from inside the cloud."""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.common.values import transfers
from provisioning.images.data import web_download
from provisioning.images.data.web_address import is_allowed, read_uri
from provisioning.images.data.web_download import web_file
from provisioning.images.errors import DownloadError, ImportUriError
from tests.support.tables import each_row
from tests.support.web import Handler, Web, answers_of, web_server

BITS = bytes(range(256)) * 5000


@pytest.fixture
def web(settings: Settings) -> Iterator[Web]:
    """A server that may be asked."""
    with web_server() as web:
        settings.IMPORT_ALLOWED_PORTS = [80, 443, web.port]
        settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
        settings.IMPORT_ALLOWED_HOSTS = settings.IMPORT_DENIED_HOSTS = []
        yield web


def fetch(uri: str) -> bytes:
    with web_file(uri) as file:
        return b"".join(file)


def resolving(monkeypatch: pytest.MonkeyPatch, **names: list[tuple[str, ...]]) -> list[str]:
    """Let names have addresses, for each lookup the next ones; returns what was looked up."""
    real, requested = socket.getaddrinfo, []

    def getaddrinfo(host: str, port: int, *arguments: Any, **more: Any) -> Any:
        if more.get("flags", 0) & socket.AI_NUMERICHOST or host.replace(".", "_") not in names:
            return real(host, port, *arguments, **more)
        requested.append(host)
        answers = names[host.replace(".", "_")]
        return answers_of(*(answers.pop(0) if len(answers) > 1 else answers[0]))

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return requested


# ----- what is fetched ------------------------------------------------------------------------------------------------


def test_a_file_comes_whole_with_its_size(web: Web) -> None:
    uri = web.serve("/disk.img", BITS)
    with web_file(uri + "?key=value#part") as file:
        assert file.total == len(BITS)
        assert b"".join(file) == BITS
    path, headers = web.asked[0]
    assert path == "/disk.img?key=value"
    assert headers["host"] == f"127.0.0.1:{web.port}"
    assert headers["accept-encoding"] == "identity"


def test_a_file_in_chunks_has_no_size_before_its_end(web: Web) -> None:
    def chunked(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for at in range(0, len(BITS), 99_999):
            piece = BITS[at : at + 99_999]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    web.answers["/chunked"] = chunked
    with web_file(web.url("/chunked")) as file:
        assert file.total is None
        assert b"".join(file) == BITS


@each_row("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(web: Web, status: int) -> None:
    web.serve("/mirror/disk.img", BITS)
    web.redirect("/b", "mirror/disk.img", status)
    assert fetch(web.redirect("/a", web.url("/b"), status)) == BITS


def test_five_redirects_are_enough(web: Web) -> None:
    web.serve("/0", BITS)
    for number in range(1, 7):
        web.redirect(f"/{number}", f"/{number - 1}")
    assert fetch(web.url("/5")) == BITS
    with pytest.raises(DownloadError, match="more than 5 times"):
        fetch(web.url("/6"))


@each_row("status", [204, 206, 404, 500])
def test_only_a_whole_file_is_taken(web: Web, status: int) -> None:
    web.answers["/x"] = lambda handler: handler.say(status)
    with pytest.raises(DownloadError, match=f"HTTP {status}"):
        fetch(web.url("/x"))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_file_that_breaks_off_is_an_error(web: Web, chunked: bool) -> None:
    def broken(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", "100")))
        handler.end_headers()
        handler.wfile.write(b"40\r\nonly a beginning" if chunked else b"only a beginning")

    web.answers["/broken"] = broken
    with pytest.raises(DownloadError, match="broke"):
        fetch(web.url("/broken"))


def in_parts(web: Web, sizes: list[int], *, version: str = 'ETag: "one"', changes: bool = False) -> str:
    """Serve a file that breaks off after some bytes of each answer, and is whole in the last; returns its URL."""

    def answer(handler: Handler) -> None:
        headers = handler.headers
        name, value = version.split(": ")
        resumes = headers.get("If-Range") == value and not changes
        begin = int(headers["Range"].removeprefix("bytes=").removesuffix("-")) if resumes else 0
        handler.send_response(206 if resumes else 200)
        handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(BITS) - begin))
        if resumes:
            handler.send_header("Content-Range", f"bytes {begin}-{len(BITS) - 1}/{len(BITS)}")
        handler.end_headers()
        handler.wfile.write(BITS[begin:][: sizes.pop(0)] if sizes else BITS[begin:])

    web.answers["/parts"] = answer
    return web.url("/parts")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a download wanted to make."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


@pytest.mark.parametrize("version", ['ETag: "one"', "Last-Modified: Sat, 28 Nov 2026 10:00:00 GMT"])
def test_a_download_that_breaks_off_goes_on_where_it_was(web: Web, pauses: list[float], version: str) -> None:
    assert fetch(in_parts(web, [1000, 1 << 20, 0, 7], version=version)) == BITS
    begins = [headers.get("range") for _, headers in web.asked]
    at = 1000 + (1 << 20)
    assert begins == [None, "bytes=1000-", f"bytes={at}-", f"bytes={at}-", f"bytes={at + 7}-"]
    assert pauses == [1.0, 1.0, 2.0, 4.0], "they begin again after a connection that brought much"


def test_a_download_is_not_resumed_for_ever(web: Web, pauses: list[float]) -> None:
    with pytest.raises(DownloadError, match="broke off after 7 of"):
        fetch(in_parts(web, [7, *[0] * 50]))
    assert tuple(pauses) == web_download.PAUSES


@pytest.mark.parametrize("version", ['ETag: W/"one"', "Server: x"])
def test_a_file_without_an_exact_version_is_not_resumed(web: Web, pauses: list[float], version: str) -> None:
    with pytest.raises(DownloadError, match="broke off"):
        fetch(in_parts(web, [7], version=version))
    assert pauses == []


def test_another_file_in_its_place_is_not_joined_to_the_first(web: Web, pauses: list[float]) -> None:
    with pytest.raises(DownloadError, match="could not be resumed"):
        fetch(in_parts(web, [7], changes=True))
    assert pauses == [1.0]


def test_each_new_connection_of_a_download_is_checked(
    web: Web, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, images_example=[("127.0.0.1",), ("127.0.0.2",)])
    uri = in_parts(web, [7]).replace("127.0.0.1", "images.example")
    with pytest.raises(ImportUriError, match="inside this cloud"):
        fetch(uri)
    assert len(web.asked) == 1


def test_no_http_is_an_error(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.IMPORT_ALLOWED_PORTS = [server.getsockname()[1]]
        settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-secret banner\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(DownloadError) as caught:
            fetch(f"http://127.0.0.1:{settings.IMPORT_ALLOWED_PORTS[0]}/")
        assert "banner" not in caught.value.message


@pytest.mark.parametrize("where", ["headers", "data"])
def test_a_server_that_drips_is_cut_off(web: Web, settings: Settings, where: str) -> None:
    settings.IMPORT_TIMEOUT = 0.3
    stop = threading.Event()

    def dripping(handler: Handler) -> None:
        handler.send_response(200)
        if where == "data":
            handler.end_headers()
        for _ in range(500):
            handler.wfile.write(b"a" if where == "data" else b"X-A: a\r\n")
            handler.wfile.flush()
            if where == "headers":
                handler.flush_headers()
            if stop.wait(0.02):
                return

    web.answers["/slow"] = dripping
    with pytest.raises(DownloadError, match=r"took longer|failed"):
        fetch(web.url("/slow"))
    stop.set()


def test_a_download_that_goes_on_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(web_download.time, "monotonic", lambda: now[0])
    watch = web_download.Watch(10)
    for size in range(0, 100 << 20, transfers.STEADY):
        watch.check("it")
        now[0] += 1.05
        watch.came(size + transfers.STEADY)
    now[0] += 10
    with pytest.raises(DownloadError, match="slow"):
        watch.check("it")


def test_a_silent_server_is_left(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_download, "READ_TIMEOUT", 0.1)
    stop = threading.Event()

    def silent(handler: Handler) -> None:
        handler.say(200, b"5\r\na", Transfer_Encoding="chunked")
        stop.wait(5)

    web.answers["/silent"] = silent
    with pytest.raises(DownloadError, match="sent nothing"):
        fetch(web.url("/silent"))
    stop.set()


def test_nobody_is_there(web: Web, settings: Settings) -> None:
    settings.IMPORT_ALLOWED_PORTS = [1]
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch("http://127.0.0.1:1/")


def test_a_name_that_does_not_exist(web: Web) -> None:
    with pytest.raises(DownloadError, match="cannot be found"):
        fetch("http://nowhere.invalid/")


# ----- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tls(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server with a certificate for good.test that this machine trusts."""
    words = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=good.test", "-addext", "subjectAltName=DNS:good.test", "-days", "2")
    files = ("-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate"))
    subprocess.run([*words, *names, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    trust = ssl.create_default_context(cafile=str(tmp_path / "certificate"))
    monkeypatch.setattr(web_download, "_trust", lambda: trust)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(4096)
                    secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"https://{{}}:{listener.getsockname()[1]}/"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(120)


def test_the_certificate_must_be_the_hosts(
    web: Web, tls: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IMPORT_ALLOWED_PORTS = [int(tls.rpartition(":")[2].strip("/"))]
    resolving(monkeypatch, good_test=[("127.0.0.1",)], bad_test=[("127.0.0.1",)])
    assert fetch(tls.format("good.test")) == b"secret"
    with pytest.raises(DownloadError, match="certificate"):
        fetch(tls.format("bad.test"))


# ----- what is not ----------------------------------------------------------------------------------------------------

INSIDE = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",  # noqa: S104
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "fe80::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
]


@each_row("address", INSIDE)
def test_no_address_inside_is_allowed(address: str) -> None:
    assert not is_allowed(ipaddress.ip_address(address))


@each_row("address", ["1.1.1.1", "151.101.2.132", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_addresses_outside_are(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address))


def test_an_operator_allows_networks(settings: Settings) -> None:
    settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    allowed = [is_allowed(ipaddress.ip_address(text)) for text in ("10.1.1.1", "::ffff:10.1.1.1", "fd00::1")]
    assert all(allowed)
    assert not is_allowed(ipaddress.ip_address("192.168.1.1"))


@pytest.mark.parametrize(
    "uri",
    [
        *(f"http://{f'[{address}]' if ':' in address else address}/" for address in INSIDE),
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://127.0.0.1./",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:169.254.169.254]/",
        "http://example.org@127.0.0.1/",
        "http://user:password@example.org/",
        "http://example.org:22/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://example.org:port/",
        "http://[fe80::1%25eth0]/",
        "http://exa%6dple.org/",
        "http://127.0.0.1%2f.example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org/a b",
        "http://example.org/\r\nX-Evil: 1",
        "http://ex\u0430mple.org/",
        "http:///path",
        "http://",
        "//example.org/",
        "example.org",
        "",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "http://[::1",
        "http://" + "a" * 3000,
        None,
        5,
        ["http://example.org/"],
    ],
)
def test_a_url_that_is_not_allowed_is_refused_before_anything_is_done(
    uri: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object) -> None:
        pytest.fail("it connects")

    monkeypatch.setattr(socket, "create_connection", never)
    with pytest.raises(ImportUriError, match="does not pass filtering"):
        read_uri(uri)


def test_hosts_can_be_allowed_and_denied(settings: Settings) -> None:
    settings.IMPORT_ALLOWED_HOSTS, settings.IMPORT_DENIED_HOSTS = ["good.test", ".below.test"], ["bad.below.test"]
    for allowed in ("http://good.test/", "https://GOOD.test./", "http://a.b.below.test/"):
        assert read_uri(allowed).shown.startswith("http")
    for refused in ("http://other.test/", "http://below.test/", "http://bad.below.test/", "http://notgood.test/"):
        with pytest.raises(ImportUriError, match="host is not"):
            read_uri(refused)


@pytest.mark.parametrize("target", ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/", "file:///x"])
def test_a_redirect_inside_is_refused(web: Web, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportUriError):
        fetch(web.redirect("/a", target))
    assert len(web.asked) == 1


def test_a_redirect_to_our_own_loopback_is_refused(
    web: Web, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror's name is the only thing that leads here; its redirect names the address."""
    settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.5/32")]
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: connect((web_host, address[1]), timeout))
    web_host = "127.0.0.1"
    resolving(monkeypatch, mirror_test=[("127.0.0.5",)])
    web.redirect("/a", web.url("/secret"))
    web.serve("/secret", b"inside")
    with pytest.raises(ImportUriError, match="inside"):
        fetch(web.url("/a", "mirror.test"))
    assert [path for path, _ in web.asked] == ["/a"]


def test_a_name_with_an_address_inside_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, evil_test=[("10.0.0.1",)])
    with pytest.raises(ImportUriError, match="inside"):
        fetch("http://evil.test/")


def test_a_name_is_looked_up_once_and_that_address_connected_to(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    requested = resolving(monkeypatch, rebind_test=[("127.0.0.1",), ("10.0.0.1",)])
    connected: list[object] = []
    connect = socket.create_connection

    def watched(address: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(address)
        return connect(address, timeout)

    monkeypatch.setattr(socket, "create_connection", watched)
    web.serve("/disk", BITS)
    assert fetch(web.url("/disk", "rebind.test")) == BITS
    assert requested == ["rebind.test"]
    assert connected == [("127.0.0.1", web.port)]
    assert web.asked[0][1]["host"] == f"rebind.test:{web.port}"


def test_of_several_addresses_only_those_outside_are_tried(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, mixed_test=[("10.0.0.1", "127.0.0.1", "169.254.169.254")])
    web.serve("/disk", BITS)
    assert fetch(web.url("/disk", "mixed.test")) == BITS


def test_no_proxy_of_the_environment_is_used(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    assert fetch(web.serve("/disk", BITS)) == BITS


def test_secrets_of_a_url_are_neither_logged_nor_reported(
    web: Web, caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    with caplog.at_level(logging.DEBUG):
        fetch(web.serve("/ok", BITS) + "?signature=hunter2")
        texts = []
        for uri in (web.url("/missing?signature=hunter2"), "http://me:hunter2@example.org/", "ftp://hunter2/"):
            with pytest.raises((DownloadError, ImportUriError)) as caught:
                fetch(uri)
            texts.append(caught.value.message)
    assert "hunter2" not in caplog.text + "".join(texts)
