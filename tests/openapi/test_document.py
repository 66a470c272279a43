"""The OpenAPI document: valid, complete, made from the views, and the same as what the matrix of routes knows."""

from __future__ import annotations

import copy
import gzip
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from django.test import Client
from drf_spectacular import validation
from drf_spectacular.renderers import OpenApiJsonRenderer
from jsonschema_rs import meta, validator_for

from portal.api.common.requests import Version
from portal.api.compute.dialect import MICROVERSIONS
from portal.api.compute.server_actions import ACTIONS
from portal.api.openapi import document as documents
from portal.api.openapi.document import make_document
from tests.security.routes import as_route, served, table
from tests.support.cast import People
from tests.support.sockets import cookie_of

EDITIONS = (MICROVERSIONS.minimum, (2, 35), (2, 42), (2, 52), MICROVERSIONS.maximum)
SPECIFICATION = validator_for(orjson.loads((Path(validation.__file__).parent / "openapi_3_1_schema.json").read_bytes()))
"""The specification's own JSON schema, as drf-spectacular brings it, in a validator that takes 10 ms instead of 2 s."""
COOKIE = "novella_session"
METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def editions() -> dict[Version, dict[str, Any]]:
    return {version: make_document(version) for version in EDITIONS}


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(method.upper(), path): one for path, item in document["paths"].items() for method, one in item.items()}


@pytest.mark.slow
@pytest.mark.parametrize("version", EDITIONS)
def test_it_is_valid(editions: dict[Version, dict[str, Any]], version: Version) -> None:
    document = editions[version]
    assert document["openapi"].startswith("3.1")
    SPECIFICATION.validate(orjson.loads(OpenApiJsonRenderer().render(document)))
    ids = [one["operationId"] for one in operations(document).values()]
    assert len(ids) == len(set(ids)) > 150
    for (method, path), one in operations(document).items():
        for body in one.get("requestBody", {}).get("content", {}).values():
            meta.validate(body["schema"])
        named = {item["name"] for item in one.get("parameters", ()) if item.get("in") == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), (method, path)
        assert one["summary"], (method, path)


def test_no_pattern_is_python_s_alone(editions: dict[Version, dict[str, Any]]) -> None:
    assert rb"\\Z" not in orjson.dumps(editions[MICROVERSIONS.maximum])


def test_every_route_is_in_it(editions: dict[Version, dict[str, Any]]) -> None:
    documented = {(method, as_route(path)) for document in editions.values() for method, path in operations(document)}
    apis = {
        (method, route)
        for method, route in served()
        if re.match("/(compute|identity|image|network|volume)(/|$)", route)
    }
    apis = {(method, route) for method, route in apis if "<nothing>" not in route and "<rest>" not in route}
    apis = {(method, route.rstrip("/")) for method, route in apis}
    assert apis - documented == {("GET", "/image/versions")} - documented
    assert documented - apis == set()


def test_the_statuses_are_those_of_the_matrix(editions: dict[Version, dict[str, Any]]) -> None:
    known = defaultdict(set)
    for row in table():
        known[row.method, row.route.rstrip("/")] |= set(row.statuses.values())
    wrong = []
    for document in editions.values():
        for (method, path), one in operations(document).items():
            result = known[method, as_route(path)]
            good = {status for status in result if status < 400} or result & {410, 501}
            statuses = {int(code) for code in one["responses"] if code.isdigit()}
            if not good <= statuses:
                wrong.append(f"{method} {path}: told {sorted(statuses)}, is {sorted(good)}")
    assert wrong == []


def test_bodies_differ_by_microversion(editions: dict[Version, dict[str, Any]]) -> None:
    def server(version: Version) -> set[str]:
        body = operations(editions[version])["POST", "/compute/v2.1/servers"]["requestBody"]
        return set(body["content"]["application/json"]["schema"]["properties"]["server"]["properties"])

    assert "hostname" not in server((2, 1))
    assert "hostname" in server((2, 96))
    assert "personality" in server((2, 1))
    assert "personality" not in server((2, 96))


def test_operations_come_and_go(editions: dict[Version, dict[str, Any]]) -> None:
    path = ("GET", "/compute/v2.1/servers/{server_id}/topology")
    assert [version for version in EDITIONS if path in operations(editions[version])] == [(2, 96)]
    path = ("GET", "/compute/v2.1/os-hosts")
    assert [version for version in EDITIONS if path in operations(editions[version])] == list(EDITIONS[:3])


@pytest.mark.parametrize("version", EDITIONS)
def test_every_action_is_one_of_the_bodies(editions: dict[Version, dict[str, Any]], version: Version) -> None:
    body = operations(editions[version])["POST", "/compute/v2.1/servers/{server_id}/action"]["requestBody"]
    titles = {one["title"] for one in body["content"]["application/json"]["schema"]["oneOf"]}
    assert titles == {name for name, action in ACTIONS.items() if action.minimum <= version <= action.maximum}


def test_faults_and_security(editions: dict[Version, dict[str, Any]]) -> None:
    document = editions[MICROVERSIONS.maximum]
    for (method, path), one in operations(document).items():
        assert "default" in one["responses"]
        if one.get("security"):
            assert one["security"] == [{"token": []}]
            assert "401" in one["responses"], (method, path)
    assert "security" not in operations(document)["POST", "/identity/v3/auth/tokens"]
    assert documents.components((2, 96))["securitySchemes"]["token"]["name"] == "X-Auth-Token"


SIGN_INS = {"/identity/v3/auth/tokens", "/identity/v2.0/tokens", "/identity/v3/users/{user_id}/password"}
SEARCHES = {f"/compute/v2.1/{where}{tail}" for where in ("servers", "os-volumes_boot") for tail in ("", "/detail")}


def test_what_may_be_too_much_says_when_to_ask_again(editions: dict[Version, dict[str, Any]]) -> None:
    """Changes, attempts to sign in, and searches: the last two are asked for in ``test_rate_limits``."""
    document = editions[MICROVERSIONS.maximum]
    for (method, path), one in operations(document).items():
        limited = path in SEARCHES if method == "GET" else bool(one.get("security")) or path in SIGN_INS
        assert ("429" in one["responses"]) == limited, (method, path)
    for name in {one["responses"]["429"]["$ref"] for one in operations(document).values() if "429" in one["responses"]}:
        header = document["components"]["responses"][name.rsplit("/", 1)[1]]["headers"]["Retry-After"]
        assert (header["required"], header["schema"]) == (True, {"type": "integer"})


@pytest.mark.slow
def test_it_is_served(client: Client) -> None:
    """Without a token, and without the database."""
    answer = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    document = orjson.loads(gzip.decompress(answer.content))
    assert document["info"]["version"] == "2.96"
    assert orjson.loads(client.get("/openapi.json").content) == document
    again = client.get("/openapi.json", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    part = client.get("/openapi.yaml?service=network")
    assert part.headers["Content-Type"] == "application/yaml"
    assert "/network/v2.0/ports/{port_id}" in yaml.safe_load(part.content)["paths"]


@pytest.mark.parametrize("query", ["microversion=2.97", "microversion=2.0", "microversion=x", "service=teapot"])
def test_what_there_is_not_is_refused(client: Client, query: str) -> None:
    answer = client.get(f"/openapi.json?{query}")
    assert answer.status_code == 400
    assert "2.96" in answer.json()["error"]["message"]


def test_it_says_nothing_about_this_deployment(client: Client, settings: Any) -> None:
    text = client.get("/openapi.json").content.decode()
    for secret in (settings.PUBLIC_URL, settings.SECRET_KEY, str(settings.DATA_DIR), str(Path(__file__).parents[2])):
        assert secret not in text


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.yaml?microversion=2.96", "/openapi.json?service=image"])
def test_it_is_made_once(client: Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    before = client.get(path).content
    monkeypatch.setattr(documents, "make_document", lambda *_: pytest.fail("made again"))
    assert client.get(path).content == before


@pytest.mark.slow
@pytest.mark.parametrize("query", ["microversion=2.50", "microversion=2.1&service=compute"])
def test_an_older_edition_needs_a_token(
    people: People, client: Client, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(documents, "make_document", lambda *_: pytest.fail("made for a stranger"))
        for headers in ({}, {"X-Auth-Token": "nothing"}):
            answer = client.get(f"/openapi.json?{query}", headers=headers)
            assert answer.status_code == 401
            assert "WWW-Authenticate" in answer.headers
    old = client.get(f"/openapi.json?{query}", headers=people.bob.headers).json()
    assert old["info"]["version"] == query.partition("&")[0].partition("=")[2]
    assert client.get("/openapi.json?microversion=2.50&service=network").status_code == 200  # the same as the newest


def test_a_page_gets_an_older_edition_by_its_session(people: People, client: Client) -> None:
    client.cookies[COOKIE] = cookie_of(people.bob.token).partition("=")[2]
    assert client.get("/openapi.json?microversion=2.1&service=compute").json()["info"]["version"] == "2.1"


@pytest.mark.slow
def test_few_older_editions_are_kept(people: People, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Version] = []

    def make(version: Version, _: str | None) -> dict[str, str]:
        made.append(version)
        return {"info": str(version)}

    monkeypatch.setattr(documents, "make_document", make)
    headers = people.bob.headers
    for minor in (*range(1, 96), 95, 90):
        assert client.get(f"/openapi.json?microversion=2.{minor}", headers=headers).status_code == 200
    assert len(documents._older) == documents.MOST_OLDER
    assert [version for version in made if version in {(2, 95), (2, 90)}] == [(2, 90), (2, 95)]
    documents._older.clear()


def test_one_older_edition_is_made_at_a_time(people: People, client: Client) -> None:
    headers = people.bob.headers
    with documents._making_older:
        answer = client.get("/openapi.json?microversion=2.60", headers=headers)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert client.get("/openapi.json").status_code == 200


def test_making_it_changes_no_view(editions: dict[Version, dict[str, Any]]) -> None:
    """The schemas by which requests are checked stay as they are."""
    before = copy.deepcopy(ACTIONS["rebuild"].body_schema("rebuild", (2, 96)))
    make_document((2, 96), "compute")
    assert ACTIONS["rebuild"].body_schema("rebuild", (2, 96)) == before
