"""Names and kinds in answers: those of the references' samples beside ours."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.samples.recorder import MICROVERSIONS, Version, text_of
from tests.samples.store import HERE, every_pair

OWN_NAMES = {
    "addresses",
    "binding:profile",
    "binding:vif_details",
    "configurations",
    "cpu_info",
    "extra_specs",
    "flavor_extra",
    "hosts",
    "image_meta",
    "input",
    "log",
    "meta",
    "metadata",
    "properties",
    "result",
}
"""Objects whose names are data: they are not looked into."""
DATA_OPERATIONS = {
    "GET /flavors/{flavor_id}/os-extra_specs/{key}",
    "PUT /flavors/{flavor_id}/os-extra_specs/{key}",
    "GET /servers/{server_id}/ips/{network_label}",
}
"""Names in their answers are data."""
KINDS = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null", list: "list"}
Shape = dict[str, set[str]]
Difference = tuple[str, str, str]
"""Operation, what differs, name."""


def kind_of(value: Any) -> str:
    if isinstance(value, str) and value in {"<number>", "<integer>"}:
        return "number"
    return KINDS.get(type(value), "object")


def shape_of(documents: Iterable[Any]) -> Shape:
    """Return name → kinds that it has anywhere in the documents."""
    shape: Shape = defaultdict(set)
    for document in documents:
        for name, kind in _walk(document, ""):
            shape[name].add(kind)
    return shape


def _walk(value: Any, at: str) -> Iterator[tuple[str, str]]:
    kind = kind_of(value)
    if at:
        yield at, kind
    if kind == "list":
        for each in value:
            yield from _walk(each, f"{at}[]")
    elif kind == "object" and at.rpartition(".")[2] not in OWN_NAMES:
        for name, each in value.items():
            yield from _walk(each, f"{at}.{name}" if at else name)


def reference(service: str) -> dict[str, dict[Version, Shape]]:
    """Read what the reference's samples hold, by operation and microversion; (0, 0) where there are none."""
    result: dict[str, dict[Version, Shape]] = {}
    versions: list[Version] = []
    for line in (HERE / "reference" / f"{service}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith("  "):
            operation, _, given = line.partition(" @ ")
            versions = [_version(each) for each in given.split()]
            shapes: dict[Version, Shape] = {version: defaultdict(set) for version in versions}
            result[operation] = shapes
            continue
        name, kinds, *ranges = line.split()
        for version in _covered(versions, ranges):
            shapes[version][name] |= set(kinds.split("|"))
    return result


def _version(text: str) -> Version:
    major, _, minor = text.partition(".")
    return (0, 0) if text == "any" else (int(major), int(minor))


def _covered(versions: list[Version], ranges: list[str]) -> Iterator[Version]:
    for each in ranges:
        start, end = re.fullmatch(r"([\w.]+)(=|-.*)", each).groups()  # type: ignore[union-attr]
        first = _version(start)
        last = first if end == "=" else _version(end[1:]) if end[1:] else versions[-1]
        yield from (version for version in versions if first <= version <= last)


def ours(service: str) -> dict[str, dict[Version, list[Any]]]:
    """Return the bodies of our good answers, by operation and microversion."""
    result: dict[str, dict[Version, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for each, pair in every_pair():
        body = pair["response"].get("body")
        if each != service or pair["response"]["status"] >= 400 or not isinstance(body, dict | list):
            continue
        since, until = _version(pair.get("since", "any")), _version(pair.get("until", "any"))
        for version in [(0, 0), *MICROVERSIONS.get(service, [])]:
            if since <= version <= until:
                result[pair["operation"]][version].append(body)
    return result


def differences(service: str) -> set[Difference]:
    """Compare at every microversion of which the reference has a sample."""
    result: set[Difference] = set()
    mine = ours(service)
    for operation, shapes in reference(service).items():
        for version, expected in shapes.items():
            bodies = mine.get(operation, {}).get(version)
            if not bodies:
                result.add((operation, "no answer", text_of(version) if version != (0, 0) else "any"))
            elif operation not in DATA_OPERATIONS:
                result |= {(operation, *each) for each in _compare(expected, shape_of(bodies))}
    return result


def _compare(expected: Shape, shape: Shape) -> Iterator[tuple[str, str]]:
    for name, kinds in expected.items():
        if name in shape:
            if not (kinds & shape[name] or "null" in kinds | shape[name]):
                yield f"{'|'.join(sorted(shape[name]))} for {'|'.join(sorted(kinds))}", name
        elif within := _empty_list(name, shape):
            yield "empty", within
        else:
            yield "missing", name
    for name in shape.keys() - expected.keys():
        if not _empty_list(name, expected):
            yield "more", name


def _empty_list(name: str, shape: Shape) -> str:
    """Return the list in which the name is, when the shape has that list and nothing in it."""
    while "[]" in name:
        name = name[: name.rindex("[]")]
        if "list" in shape.get(name, ()) and f"{name}[]" not in shape:
            return name
    return ""
