"""Requests for every operation of the OpenAPI document: sound ones, wrong ones, and sound ones with one odd value."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import schemathesis
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode

from portal.api.common.requests import Version, text_of
from portal.api.openapi.document import make_document
from tests.security.conftest import World
from tests.security.routes import as_route, table

NASTY: tuple[Any, ...] = (
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ud800",
        "a" * 300,
        "a" * 70_000,
        "\N{MATHEMATICAL FRAKTUR CAPITAL U}\N{ALCHEMICAL SYMBOL FOR EARTH}",
        "%00",
        "../..",
        "' OR 1=1 --",
        "{}",
        "null",
        "\n",
    ),
    *("9" * 30, "-1", "0", "1e400", "NaN", "²", "٣", "2147483648", "9223372036854775808", "00000000000000000000"),
    *("0000-00-00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30"),
    *("00000000-0000-0000-0000-000000000000", "0" * 32, "g" * 36, "::1", "fe80::1%eth0", "256.0.0.1", "10.0.0.0/33"),
    *(None, True, False, 0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, 1e308, -0.0),
    *([], {}, [[]], [None], [""], {"": ""}, {"a": None}, [{}], ["a", "a"], {"id": {}}, [[[[]]]]),
)
TEXTS = tuple(value for value in NASTY if isinstance(value, str))
KNOWN_AS = {
    "imageref": "public_image",
    "flavorref": "flavor",
    "image_id": "image",
    "server_id": "server",
    "uuid": "own_network",
    "network": "own_network",
    "net_id": "own_network",
    "port": "port",
    "port_id": "port",
    "fixed_ip": "",
    "volume_id": "server",
    "host": "host_name",
    "hypervisor_hostname": "host_name",
    "project_id": "project",
    "tenant_id": "project",
    "tenant": "project",
    "default_project_id": "project",
    "parent_id": "project",
    "user_id": "user",
    "domain_id": "domain",
    "role_id": "role",
    "service_id": "service",
    "region_id": "region",
    "parent_region_id": "region",
    "member": "members/member",
    "key_name": "key",
    "group": "server_group",
    "instance_uuid": "server",
    "marker": "server",
    "rebuild_image_ref": "public_image",
    "rescue_image_ref": "public_image",
}
"""What a field of a body or a parameter names → the thing of the world that it could be."""


@dataclass(frozen=True)
class Operation:
    """One operation of a document: where it is, what it declares, and how requests for it are made."""

    method: str
    path: str
    service: str
    declared: dict[str, Any]
    api: Any = field(repr=False)

    @property
    def public(self) -> bool:
        return not self.declared.get("security")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    query: str
    body: bytes
    headers: dict[str, str]
    person: str


def operations(version: Version, service: str) -> Iterator[Operation]:
    """Yield every operation that the document has."""
    document = orjson.loads(orjson.dumps(make_document(version, service)))
    for result in schemathesis.openapi.from_dict(_all_json(document)).get_all_operations():
        api = result.ok()
        declared = document["paths"][api.path][api.method.lower()]
        yield Operation(api.method.upper(), api.path, service, declared, api)


def _all_json(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with JSON for every kind of body, as schemathesis makes no other."""
    document = copy.deepcopy(document)
    for item in document["paths"].values():
        for operation in item.values():
            bodies = operation.get("requestBody", {}).get("content", {})
            schemas = [bodies.pop(kind)["schema"] for kind in list(bodies)]
            if schemas:
                bodies["application/json"] = {"schema": schemas[0]}
    return document


def requests_for(operation: Operation, world: World, version: Version) -> st.SearchStrategy[Sent]:
    """Return the requests to try: ids that there are mostly, and whatever else can come."""
    modes = [
        operation.api.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ]

    known = _known_bodies(operation, world)

    @st.composite
    def made(draw: Callable[..., Any]) -> Sent:
        case = draw(st.one_of(*modes))
        path = re.sub(r"([\w-]*)/\{(\w+)\}", lambda match: _named(draw, world, match[1], match[2]), operation.path)
        body = case.body
        if known and draw(st.sampled_from(("known", "known", "made"))) == "known":
            body = draw(st.sampled_from(known))
            body = draw(st.sampled_from([body, _odd(draw, body), _odd(draw, body)]))
        elif not isinstance(body, bytes | schemathesis.core.NotSet):
            body = _with_ids(draw, body, world)
            body = draw(st.sampled_from([body, _odd(draw, body)]))
        query = {name: _with_ids(draw, value, world, name) for name, value in dict(case.query or {}).items()}
        if draw(st.booleans()):
            query = _odd_query(draw, operation, query)
        headers = _headers(draw, operation, world, version, case)
        person = draw(st.sampled_from(("operator", "member")))
        headers["X-Auth-Token"] = world.tokens[person]
        return Sent(operation.method, path, _encoded(query), _bytes(body), headers, person)

    return made()


def _known_bodies(operation: Operation, world: World) -> list[Any]:
    """Return bodies that do something: those of the table of routes, and of a server whole."""
    route = as_route(operation.path)
    result = [
        row.sent(world.ids) for row in table() if (row.method, row.route) == (operation.method, route) and row.body
    ]
    if str(operation) == "POST /compute/v2.1/servers":
        for networks in ("none", [{"uuid": world.ids["own_network"]}]):
            whole = server_body(world, networks)
            anybodys = {name: value for name, value in whole["server"].items() if name != "key_name"}
            result += [whole, {"server": anybodys}]
    content = operation.declared.get("requestBody", {}).get("content", {})
    schema = next((one["schema"] for one in content.values()), {})
    return [body for body in result if Draft202012Validator(schema).is_valid(body)]


def server_body(world: World, networks: Any) -> dict[str, Any]:
    server = {
        "name": "x",
        "imageRef": world.ids["public_image"],
        "flavorRef": world.ids["flavor"],
        "networks": networks,
        "metadata": {"a": "b"},
        "min_count": 1,
        "max_count": 1,
        "user_data": "IyEvYmluL3No",
        "key_name": world.ids["key"],
        "availability_zone": "nova",
        "block_device_mapping_v2": [
            {
                "boot_index": 0,
                "uuid": world.ids["public_image"],
                "source_type": "image",
                "destination_type": "local",
                "delete_on_termination": True,
            }
        ],
        "security_groups": [{"name": "default"}],
        "config_drive": True,
    }
    return {"server": server, "os:scheduler_hints": {"group": world.ids["server_group"]}}


def path_of(operation: Operation, world: World) -> str:
    """Return the path with ids of things that there are."""
    return re.sub(r"([\w-]*)/\{(\w+)\}", lambda match: f"{match[1]}/{_id(world, match[1], match[2])}", operation.path)


def _id(world: World, before: str, name: str) -> str:
    short = name.removesuffix("_id")
    keys = (f"{before}/{short}", f"{before}/identity", short, name)
    return quote(next((world.ids[key] for key in keys if key in world.ids), "nothing"), safe="")


def _named(draw: Callable[..., Any], world: World, before: str, name: str) -> str:
    known = _id(world, before, name)
    if draw(st.integers(0, 4)):
        return f"{before}/{known}"
    text = draw(st.one_of(st.sampled_from(TEXTS), st.text(max_size=40)))
    text = text if text.strip("/") else "-"  # nothing at all is the address of the list
    return f"{before}/{quote(text.encode('utf-8', 'surrogatepass'), safe='')}"


def _with_ids(draw: Callable[..., Any], value: Any, world: World, name: str = "") -> Any:
    """Put real ids where a value could name something."""
    if isinstance(value, dict):
        return {key: _with_ids(draw, item, world, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_ids(draw, item, world, name) for item in value]
    known = world.ids.get(KNOWN_AS.get(name.lower(), ""))
    return known if known is not None and isinstance(value, str) and draw(st.integers(0, 3)) else value


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*here, key))


def _odd(draw: Callable[..., Any], body: Any) -> Any:
    """Put one odd value somewhere, or in the place of a name."""
    place = draw(st.sampled_from(list(_places(body))[:200]))
    return _put(body, place, draw(st.sampled_from(NASTY)), as_name=draw(st.integers(0, 5)) == 0)


def _put(body: Any, place: tuple[Any, ...], value: Any, *, as_name: bool) -> Any:
    if not place:
        return value
    first, *rest = place
    if isinstance(body, list):
        return [_put(item, tuple(rest), value, as_name=as_name) if i == first else item for i, item in enumerate(body)]
    if as_name and not rest:
        return {(str(value) if key == first else key): item for key, item in body.items()}
    return {
        key: _put(item, tuple(rest), value, as_name=as_name) if key == first else item for key, item in body.items()
    }


def _odd_query(draw: Callable[..., Any], operation: Operation, query: dict[str, Any]) -> dict[str, Any]:
    names = [item["name"] for item in operation.declared.get("parameters", ()) if item.get("in") == "query"]
    names += ["limit", "marker", "sort_key", "fields", "a\0", "", "name", "id"]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        query = query | {name: draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=2))}
    return query


def _encoded(query: dict[str, Any]) -> str:
    pairs = [
        (str(name).encode("utf-8", "surrogatepass"), str(value).encode("utf-8", "surrogatepass"))
        for name, values in query.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return urlencode(pairs)


def _headers(
    draw: Callable[..., Any], operation: Operation, world: World, version: Version, case: Any
) -> dict[str, str]:
    result = {
        name: value
        for name, value in dict(case.headers or {}).items()
        if isinstance(value, str) and re.fullmatch(r"[\x20-\x7e\x80-\xff]*", value) and re.fullmatch(r"[\w-]+", name)
    }
    result = {name: value for name, value in result.items() if name.lower() not in {"content-length", "host", "cookie"}}
    if draw(st.sampled_from((True,) * 9 + (False,))):
        result = {name: value for name, value in result.items() if name.lower() != "openstack-api-version"}
        result["OpenStack-API-Version"] = f"{operation.service} {text_of(version)}"
    if draw(st.booleans()):
        result["X-Subject-Token"] = world.tokens[draw(st.sampled_from(("member", "operator")))]
    kinds = list(operation.declared.get("requestBody", {}).get("content", {"application/json": {}}))
    odd = (
        "",
        "text/plain",
        "application/json; charset=utf-16",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
    )
    result["Content-Type"] = draw(st.sampled_from((*kinds * 12, *odd)))
    return result


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"" if isinstance(body, schemathesis.core.NotSet) else json.dumps(body).encode()
