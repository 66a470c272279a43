"""Pages, answers of the APIs and static files are compressed for who accepts it; streams and secrets are not."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.staticfiles.storage import StaticFilesStorage, storages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory
from pytest_django import Settings

from portal.web.compression import LEAST, CompressionMiddleware
from portal.web.static_files import StaticFilesMiddleware
from tests.support.cast import Person, sign_in_browser

Answer = Callable[[HttpRequest], HttpResponseBase]
GZIP = {"Accept-Encoding": "gzip"}
TEXT = b"<p>all work and no play</p>" * 100


def passed(answer: HttpResponseBase, **headers: str) -> HttpResponseBase:
    """Return what the middleware makes of an answer to a client with these headers."""
    request = RequestFactory().get("/", headers=headers or GZIP)
    return CompressionMiddleware(lambda _: answer)(request)


@pytest.mark.parametrize(
    "kind", ["text/html; charset=utf-8", "application/json", "application/xml", "image/svg+xml", "text/plain"]
)
def test_texts_are_compressed(kind: str) -> None:
    answer = passed(HttpResponse(TEXT, content_type=kind, headers={"ETag": '"one"'}))
    assert isinstance(answer, HttpResponse)
    assert answer["Content-Encoding"] == "gzip"
    assert answer["Vary"] == "Accept-Encoding"
    assert answer["ETag"] == 'W/"one"'
    assert int(answer["Content-Length"]) == len(answer.content) < len(TEXT) / 3
    assert gzip.decompress(answer.content) == TEXT


def test_who_does_not_accept_it_gets_the_text_and_caches_know() -> None:
    answer = passed(HttpResponse(TEXT), Accept="*/*")
    assert isinstance(answer, HttpResponse)
    assert (answer.content, answer["Vary"]) == (TEXT, "Accept-Encoding")
    assert "Content-Encoding" not in answer


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(TEXT[: LEAST - 1]),
        HttpResponse(TEXT, content_type="application/octet-stream"),
        HttpResponse(TEXT, content_type="image/png"),
        HttpResponse(TEXT, headers={"Cache-Control": "no-store"}),
        HttpResponse(TEXT, headers={"Content-Encoding": "br"}),
        StreamingHttpResponse([TEXT], content_type="text/event-stream"),
    ],
    ids=["short", "data", "picture", "secret", "compressed", "stream"],
)
def test_others_are_left_alone(answer: HttpResponseBase) -> None:
    before = None if answer.streaming else bytes(answer.content)  # type: ignore[attr-defined]
    after = passed(answer)
    assert after.get("Content-Encoding") in {None, "br"}
    if before is not None:
        assert after.content == before  # type: ignore[attr-defined]


def test_the_same_text_has_not_always_the_same_size() -> None:
    """Sizes of compressed pages do not tell whether a guess at a secret was right."""
    sizes = {len(passed(HttpResponse(TEXT)).content) for _ in range(40)}  # type: ignore[attr-defined]
    assert len(sizes) > 5


def test_nothing_new_varies_too() -> None:
    answer = passed(HttpResponse(status=304, headers={"ETag": '"one"'}))
    assert (answer["Vary"], answer["ETag"]) == ("Accept-Encoding", '"one"')


@pytest.mark.usefixtures("plain_static")
def test_a_page_is_compressed(alice: Person) -> None:
    client = Client()
    sign_in_browser(client, alice)
    page = client.get("/", headers=GZIP)
    assert page["Content-Encoding"] == "gzip"
    assert {"Accept-Encoding", "Cookie"} <= set(page["Vary"].split(", "))
    assert b"<!DOCTYPE html>" in gzip.decompress(page.content)


@pytest.fixture
def collected(settings: Settings, tmp_path: Path) -> str:
    """Collect one style sheet as ``bin/up`` does, and return its hashed name."""
    settings.STATIC_ROOT = tmp_path
    (tmp_path / "page.css").write_bytes(b"p { color: red }\n" * 200)
    backend = settings.STORAGES["staticfiles"]["BACKEND"]
    storage = storages.create_storage({"BACKEND": backend, "OPTIONS": {"location": tmp_path, "base_url": "/static/"}})
    assert isinstance(storage, StaticFilesStorage)
    list(storage.post_process({"page.css": (storage, "page.css")}))  # type: ignore[attr-defined]
    return storage.url("page.css")


@pytest.mark.django_db  # closing an answer looks at a connection that an earlier test may have left
def test_static_files_are_compressed_beforehand(collected: str) -> None:
    def nothing(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    served = StaticFilesMiddleware(nothing)
    plain, small = (served(RequestFactory().get(collected, headers=headers)) for headers in ({}, GZIP))
    assert (plain.status_code, small.status_code) == (200, 200)
    assert small["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain
    assert plain["Vary"] == small["Vary"] == "Accept-Encoding"
    assert "immutable" in small["Cache-Control"]
    assert int(small["Content-Length"]) < int(plain["Content-Length"]) / 5
    assert gzip.decompress(b"".join(small.streaming_content)) == b"p { color: red }\n" * 200  # type: ignore[attr-defined]
    plain.close()
    small.close()
    changed = RequestFactory().get(collected, headers={**GZIP, "If-Modified-Since": plain["Last-Modified"]})
    assert served(changed).status_code == 304


@pytest.mark.slow
@pytest.mark.deep
def test_the_web_server_sends_an_api_answer_compressed(port: int, alice: Person) -> None:
    def fetch(**headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/image/v2/schemas/image", headers={"X-Auth-Token": alice.token, **headers})
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer, read

    plain, text = fetch()
    small, body = fetch(**GZIP)
    assert (plain.status, small.status) == (200, 200)
    assert (plain.headers["Content-Encoding"], small.headers["Content-Encoding"]) == (None, "gzip")
    assert json.loads(gzip.decompress(body)) == json.loads(text)
    assert len(body) < len(text) / 2
