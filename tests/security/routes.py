"""Every route with its methods, and the table that says who gets which status where."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from tests.security.conftest import PERSONS

APIS = ("compute", "ec2", "identity", "image", "network", "volume")
CLASS_METHODS = ("get", "post", "put", "patch", "delete")
UNKNOWN = "?"
"""A status that somebody has yet to find out; it never holds."""
RECORDS: dict[str, tuple[int, int, int]] = {
    "compute/aggregate": (200, 200, 200),
    "compute/flavor": (200, 302, 200),
    "hosts/host": (403, 200, 403),
    "hosts/rejectedreport": (403, 403, 403),
    "compute/instance": (403, 403, 403),
    "compute/servergroup": (403, 403, 403),
    "identity/applicationcredential": (403, 403, 200),
    "identity/credential": (403, 403, 200),
    "identity/domain": (403, 403, 403),
    "identity/endpoint": (200, 200, 200),
    "identity/group": (403, 403, 403),
    "identity/project": (403, 403, 403),
    "identity/region": (200, 302, 200),
    "identity/role": (403, 403, 403),
    "identity/roleassignment": (403, 403, 403),
    "identity/service": (200, 200, 200),
    "identity/signin": (403, 403, 200),
    "identity/trust": (403, 403, 200),
    "identity/user": (403, 403, 403),
    "images/image": (403, 403, 403),
    "network/network": (403, 403, 403),
    "network/port": (403, 403, 403),
    "network/securitygroup": (403, 403, 403),
    "network/addressgroup": (403, 403, 403),
    "network/addressscope": (403, 403, 403),
    "network/defaultsecuritygrouprule": (403, 403, 403),
    "network/delivery": (403, 403, 403),
    "network/floatingip": (403, 403, 403),
    "network/portforwarding": (403, 403, 403),
    "network/rbacpolicy": (403, 403, 403),
    "network/router": (403, 403, 403),
    "network/securitygrouprule": (403, 403, 403),
    "network/subnet": (403, 403, 403),
    "network/subnetpool": (403, 403, 403),
    "doctor/doctorrun": (403, 403, 403),
    "notifications/delivery": (403, 403, 403),
    "quotas/quotalimit": (200, 200, 200),
    "volumes/storagepool": (403, 200, 403),
    "volumes/volumetype": (200, 200, 200),
    "volumes/qosspec": (200, 200, 200),
    "volumes/grouptype": (200, 200, 200),
    "volumes/defaulttype": (200, 200, 200),
    "volumes/volume": (403, 403, 403),
    "volumes/snapshot": (403, 403, 403),
    "volumes/backup": (403, 403, 403),
    "volumes/attachment": (403, 403, 403),
    "volumes/message": (403, 403, 403),
    "jobs/lease": (403, 403, 403),
    "compute/schedulingdecision": (403, 403, 403),
    "compute/newerguest": (403, 403, 403),
    "compute/interfacedifference": (403, 403, 403),
    "volumes/poolclaim": (403, 403, 403),
}
"""The admin's records: what an operator gets for adding, for an empty form that changes, and for deleting."""


@dataclass(frozen=True)
class Row:
    """One kind of request and the status that each person gets for it."""

    method: str
    route: str
    query: str
    statuses: dict[str, int]
    body: str = ""

    @property
    def is_api(self) -> bool:
        return self.route.split("/")[1] in APIS

    def path(self, ids: dict[str, str]) -> str:
        """The address for alice's things; what a name stands for may depend on the word before it."""

        def named(found: re.Match[str]) -> str:
            return f"{found[1]}/{ids.get(f'{found[1]}/{found[2]}') or ids[found[2]]}"

        return re.sub(r"([\w-]*)/<(\w+)>", named, self.route) + _filled(self.query, ids)

    def sent(self, ids: dict[str, str]) -> Any:
        return json.loads(_filled(self.body, ids)) if self.body else None

    def line(self, statuses: Mapping[str, int]) -> str:
        """This row as the file has it, with these statuses."""
        numbers = " ".join(f"{statuses[person]:03}" for person in PERSONS)
        return f"{self.method:<6} {self.route + self.query:<58} {numbers}  {self.body}".rstrip()

    def __str__(self) -> str:
        return f"{self.method} {self.route}{self.query} {self.body}".strip()


@functools.cache
def table() -> list[Row]:
    """All rows: those of the file, and those of the admin's records."""
    lines = (Path(__file__).parent / "routes.txt").read_text().splitlines()
    return [_row(line) for line in lines if line and not line.startswith("#")] + list(_record_rows())


def _row(line: str) -> Row:
    method, route, *rest = line.split(None, 2 + len(PERSONS))
    route, mark, query = route.partition("?")
    numbers = [0 if word == UNKNOWN else int(word) for word in rest[: len(PERSONS)]]
    return Row(method, route, mark + query, dict(zip(PERSONS, numbers, strict=True)), "".join(rest[len(PERSONS) :]))


def _record_rows() -> Iterator[Row]:
    for kind, (add, change, delete) in RECORDS.items():
        pages = {"": (200, 200), "add/": (add, add)}
        pages |= {"<object>/history/": (200, 200), "<object>/delete/": (delete, delete)}
        pages |= {"<object>/change/": (200, change)}
        for tail, (get, post) in pages.items():
            yield _record_row("GET", kind, tail, get)
            yield _record_row("POST", kind, tail, post)
        for method in CLASS_METHODS:
            yield _record_row(method.upper(), kind, "<object>/", 302)


def _record_row(method: str, kind: str, tail: str, operator: int) -> Row:
    return Row(method, f"/admin/{kind}/{tail}", "", dict.fromkeys(PERSONS, 302) | {"operator": operator})


def served() -> Iterator[tuple[str, str]]:
    """Every method and route of the resolver; a view that is no class is asked by GET and by POST."""
    for route, pattern in _patterns(get_resolver()):
        view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
        methods = ["GET", "POST"]
        if view is not None:
            offered = {name.lower() for name in view.http_method_names}
            methods = [name.upper() for name in CLASS_METHODS if hasattr(view, name) and name in offered] or ["GET"]
        where = f"{route.split('/')[0]}/<nothing>" if getattr(view, "__name__", "") == "NoSuchResource" else route
        yield from ((method, f"/{where}") for method in methods)


def _patterns(resolver: URLResolver, above: str = "") -> Iterator[tuple[str, URLPattern]]:
    for result in resolver.url_patterns:
        where = above + str(result.pattern)
        if isinstance(result, URLResolver):
            yield from _patterns(result, where)
        else:
            yield _plain(where), result


def _plain(pattern: str) -> str:
    r"""``^/v3/users/(?P<user_id>[^/]+)/?\Z`` → ``/v3/users/<user>``."""
    pattern = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", pattern)
    pattern = pattern.replace(r"(?:\.json)?", "").replace(r"\.", ".")
    pattern = re.sub(r"/\?(\\Z|\$)|\\Z|\$|\^", "", pattern)
    pattern = re.sub(r"<\w+:(\w+)>", r"<\1>", pattern)
    return re.sub(r"<(\w+?)(_id)?>", r"<\1>", pattern)


def as_route(path: str) -> str:
    """A path of the OpenAPI document as routes.txt has it."""
    path = re.sub(r"(/network/v2\.0/[a-z-]+)/\{(?!project)(?!alias)\w+_id\}", r"\1/<identity>", path)
    return re.sub(r"\{(\w+?)(_id)?\}", r"<\1>", path)


def _filled(text: str, ids: dict[str, str]) -> str:
    return re.sub(r"<(\w+)>", lambda match: ids[match[1]], text)
