"""Servers: list, detail, create, show, update, delete (Compute API reference, "Servers")."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import next_links, read_page
from portal.api.compute import server_schemas, server_shapes
from portal.api.compute.server_requests import launch_request, truth
from portal.api.compute.views import ComputeView
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute import selectors, services
from provisioning.compute.models import Instance

_create_schema = functools.cache(server_schemas.create)
_update_schema = functools.cache(server_schemas.update)
_SORT = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "launched_at": "launched_at",
    "display_name": "name",
    "hostname": "hostname",
    "vm_state": "vm_state",
    "uuid": "id",
}
"""Sort keys of the reference that Novella sorts by, and the selector's words for them."""
_TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")


class ServersView(ComputeView):
    """``GET`` and ``POST /servers``."""

    rules = {"GET": "compute:servers:list", "POST": "compute:servers:create"}
    detailed = False

    def get(self, request: Request) -> Response:
        """List the servers of the project (``all_tenants`` for operators): filtered, sorted, a page at a time."""
        page = read_page(request)
        found = self._find(request, page.limit, page.marker)
        around = self.around(found) if self.detailed else self.around([])
        if self.detailed:
            shapes = [server_shapes.detail(item, around, self.context, self.microversion) for item in found]
        else:
            shapes = [server_shapes.brief(item, around) for item in found]
        answer: dict[str, Any] = {"servers": shapes}
        following = next_links(
            request, page, [item.id for item in found], f"{self.base}/servers{'/detail' if self.detailed else ''}"
        )
        if following:
            answer["servers_links"] = following
        return Response(answer)

    def post(self, request: Request) -> Response:
        """Accept a launch: 202 with the server, or with the reservation when ``return_reservation_id`` asks for it."""
        body = self.body(_create_schema(self.microversion))
        if isinstance(body["server"].get("networks"), str) and body["server"]["networks"] not in {"auto", "none"}:
            raise InvalidInputError("Bad networks format", field="networks")
        instances = services.launch(self.context, launch_request(body))
        first = instances[0]
        if truth(body["server"].get("return_reservation_id", False)):
            return Response({"reservation_id": first.reservation_id}, status=202)
        around = self.around([])
        groups = [{"name": group["name"]} for group in body["server"].get("security_groups", []) if "name" in group]
        shape = {
            "id": str(first.id),
            "links": server_shapes.links(around, "servers", str(first.id)),
            "OS-DCF:diskConfig": "MANUAL",
            "security_groups": groups or [{"name": "default"}],
        }
        return Response({"server": shape}, status=202, headers={"Location": f"{self.base}/servers/{first.id}"})

    def _changes_before(self, request: Request) -> datetime | None:
        """The filter of 2.66; unknown before."""
        known = self.microversion >= (2, 66)
        return _moment(request.query_params.get("changes-before"), "changes-before") if known else None

    def _find(self, request: Request, limit: int, marker: str | None) -> list[Instance]:
        query = request.query_params
        for name in _TAG_FILTERS:
            if self.microversion >= (2, 26) and name in query:  # to ignore it would list too much
                raise InvalidInputError(f"Filtering by {name} is not offered.", field=name)
        everywhere = truth(query.get("all_tenants", query.get("all_projects", "0")) or "1")
        if everywhere and not self.allows("compute:servers:list:all_projects"):
            raise ForbiddenError("Policy doesn't allow compute:servers:list:all_projects to be performed.")
        project = _id(query.get("project_id") or query.get("tenant_id"), "project_id")
        return selectors.instances_for(
            self.context,
            sort=_sort(query.getlist("sort_key"), query.getlist("sort_dir")),
            limit=limit,
            marker=marker,
            all_projects=everywhere or (project is not None and self.allows("compute:servers:list:all_projects")),
            name=query.get("name"),
            status=query["status"].upper() if query.get("status") else None,
            vm_state=query.get("vm_state"),
            image_id=query.get("image"),
            flavor_id=query.get("flavor"),
            host=query.get("host") or query.get("OS-EXT-SRV-ATTR:host"),
            availability_zone=query.get("availability_zone"),
            user_id=_id(query.get("user_id"), "user_id"),
            project_id=project,
            reservation_id=query.get("reservation_id"),
            ids=_ids(query.get("uuid")),
            changes_since=_moment(query.get("changes-since"), "changes-since"),
            changes_before=self._changes_before(request),
            deleted=truth(query.get("deleted", "0")) or query.get("status", "").upper() == "DELETED",
        )


class ServersDetailView(ServersView):
    """``GET /servers/detail``."""

    http_method_names = ["get", "head"]
    detailed = True


class ServerView(ComputeView):
    """``GET``, ``PUT`` and ``DELETE /servers/{id}``."""

    rules = {"GET": "compute:servers:show", "PUT": "compute:servers:update", "DELETE": "compute:servers:delete"}

    def get(self, request: Request, server_id: str) -> Response:
        """Show one server."""
        return self._shown(selectors.instance_for(self.context, server_id))

    def put(self, request: Request, server_id: str) -> Response:
        """Rename or describe a server."""
        body = self.body(_update_schema(self.microversion))["server"]
        for field in ("accessIPv4", "accessIPv6", "OS-DCF:diskConfig"):
            if field in body:
                raise InvalidInputError(f"{field} cannot be changed: it is not offered.", field=field)
        return self._shown(services.update(self.context, server_id, **body))

    def delete(self, request: Request, server_id: str) -> Response:
        """Delete a server: 204 once the order is recorded; the guest is removed after that."""
        services.delete(self.context, server_id)
        return Response(status=204)

    def _shown(self, instance: Instance) -> Response:
        around = self.around([instance])
        return Response({"server": server_shapes.detail(instance, around, self.context, self.microversion)})


def _id(text: str | None, field: str) -> Any:
    if not text:
        return None
    found = read_id(text)
    if found is None:
        raise InvalidInputError(f"Invalid input for query parameters {field}. Value: {text[:64]}.", field=field)
    return found


def _ids(text: str | None) -> list[Any] | None:
    if not text:
        return None
    found = read_id(text)
    if found is None:
        raise NotFoundError(f"Instance {text[:64]} could not be found.")
    return [found]


def _moment(text: str | None, field: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidInputError(f"Invalid input for query parameters {field}. Value: {text[:64]}.", field=field)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _sort(keys: list[str], directions: list[str]) -> list[tuple[str, str]]:
    for direction in directions:
        if direction not in {"asc", "desc"}:
            raise InvalidInputError(
                f"Unknown sort direction {direction[:32]!r}, must be one of: asc, desc", field="sort_dir"
            )
    if len(directions) > len(keys) and keys:
        raise InvalidInputError("Sort direction size exceeds sort key size", field="sort_dir")
    chosen = keys or ["created_at"]
    last = directions[-1] if directions else "desc"
    pairs = []
    for position, key in enumerate(chosen):
        if key not in _SORT:
            raise InvalidInputError(
                f"Invalid input for query parameters sort_key. Value: {key[:64]}.", field="sort_key"
            )
        pairs.append((_SORT[key], directions[position] if position < len(directions) else last))
    return pairs
