"""Servers: list, detail, create, show, update, delete (Compute API reference, "Servers")."""

from typing import Any, ClassVar

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.compute.dialect.base import LIST_PAGES
from portal.api.compute.dialect.schemas import boolean
from portal.api.compute.servers import schemas as server_schemas
from portal.api.compute.servers import shapes
from portal.api.compute.servers.base import ServerView
from portal.api.compute.servers.filters import listing, read_filters
from portal.api.compute.servers.launch_requests import launch_request
from portal.api.compute.servers.sorting import read_sort
from portal.common import rate_limits
from provisioning.compute import selectors
from provisioning.compute.actions import delete
from provisioning.compute.launch.create import launch
from provisioning.compute.models import Instance
from provisioning.compute.records.passwords import generate_password
from provisioning.compute.selectors.instance_lists import SEARCHED
from provisioning.compute.services.instances import update

_BRIEF = ("id", "name")
_COLUMNS = (
    *_BRIEF,
    *("project_id", "user_id", "vm_state", "task_state", "power_state", "metadata", "image_id", "flavor"),
    *("created_at", "updated_at", "launched_at", "terminated_at", "access_ip_v4", "access_ip_v6", "disk_config"),
    *("availability_zone", "config_drive", "key_name", "hostname", "locked", "locked_reason", "description", "tags"),
    *("trusted_certificates", "host"),
)
_OPERATORS = ("reservation_id", "launch_index", "image_properties", "user_data")


class ServersView(ServerView):
    """``GET`` and ``POST /servers``."""

    rules = {"GET": "os_compute_api:servers:index", "POST": "os_compute_api:servers:create"}
    schemas: ClassVar = {"POST": server_schemas.create}
    queries: ClassVar = {"GET": listing}
    limited = frozenset({"GET"})
    detailed = False
    all_projects_rule = "os_compute_api:servers:index:get_all_tenants"

    def get(self, request: Request) -> Response:
        """List the project's servers (``all_tenants`` for operators), filtered, sorted and paged."""
        query = self.checked_query()
        page = LIST_PAGES.read(request)
        every = self.allows("os_compute_api:servers:allow_all_filters")
        sort = read_sort(request.query_params, self.microversion, every=every)
        filters = read_filters(query, self.microversion, every=every)
        if not SEARCHED.isdisjoint(filters.filters):
            rate_limits.check(self.context, rate_limits.SEARCHES)

        def make() -> dict[str, Any]:
            found = selectors.instances_for(
                self.context,
                sort=sort,
                limit=0 if filters.nothing else page.limit,
                marker=page.marker,
                all_projects=filters.all_projects,
                rule=self.all_projects_rule,
                columns=self._columns(),
                **filters.filters,
            )
            url = f"{self.base}/servers{'/detail' if self.detailed else ''}"
            following = LIST_PAGES.links(request, page, [item.id for item in found], url)
            return {"servers": self._shapes(found)} | ({"servers_links": following} if following else {})

        return conditional.answer(self, make, remember=not (self.detailed and self.visible_fields().host_status))

    def _columns(self) -> tuple[str, ...]:
        if not self.detailed:
            return _BRIEF
        sees_host = self.visible_fields().host and self.microversion >= (2, 3)
        return (*_COLUMNS, *_OPERATORS) if sees_host else _COLUMNS

    def _shapes(self, found: list[Instance]) -> list[dict[str, Any]]:
        if not self.detailed:
            related = self.related([])
            return [shapes.brief(item, related) for item in found]
        related, visible = self.related(found), self.visible_fields(groups=False)
        return [shapes.detail(item, related, visible) for item in found]

    def post(self, request: Request) -> Response:
        """Accept a launch: 202 with the server, or with the reservation if ``return_reservation_id`` is set."""
        body = self.checked_body()
        values = body["server"]
        password = values.get("adminPass")
        if password is None and settings.ENABLE_INSTANCE_PASSWORD:
            password = generate_password()
        requested = launch_request(body, password, self.microversion)
        rate_limits.check(self.context, rate_limits.LAUNCHES, requested.max_count)
        first = launch(self.context, requested)[0]
        if boolean(values.get("return_reservation_id", False)):
            return Response({"reservation_id": first.reservation_id}, status=202)
        groups = [group["name"] for group in values.get("security_groups", ()) if "name" in group]
        shown = password if settings.ENABLE_INSTANCE_PASSWORD else None
        shape = shapes.created(first, self.related([]), groups, shown)
        return Response({"server": shape}, status=202, headers={"Location": f"{self.base}/servers/{first.id}"})


class ServersDetailView(ServersView):
    """``GET /servers/detail``."""

    http_method_names = ["get", "head"]
    rules = {"GET": "os_compute_api:servers:detail"}
    detailed = True
    all_projects_rule = "os_compute_api:servers:detail:get_all_tenants"


class OneServerView(ServerView):
    """``GET``, ``PUT`` and ``DELETE /servers/{id}``."""

    rules = {
        "GET": "os_compute_api:servers:show",
        "PUT": "os_compute_api:servers:update",
        "DELETE": "os_compute_api:servers:delete",
    }
    schemas: ClassVar = {"PUT": server_schemas.update}

    def get(self, request: Request, server_id: str) -> Response:
        return self.shown(selectors.instance_for(self.context, server_id))

    def put(self, request: Request, server_id: str) -> Response:
        """Update the name, description, host name and access addresses."""
        values = self.checked_body()["server"]
        changes = {_CHANGES[name]: value for name, value in values.items()}
        return self.changed(update(self.context, server_id, **changes))

    def delete(self, request: Request, server_id: str) -> Response:
        """Delete a server: 204 once the command to the host is recorded; the host removes the guest afterwards."""
        delete.delete(self.context, server_id)
        return Response(status=204)


_CHANGES: dict[str, Any] = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "OS-DCF:diskConfig": "disk_config",
}
"""Field of the API → name in the service."""
