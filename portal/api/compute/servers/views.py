"""Servers and their parts: metadata, tags, addresses, security groups, password and topology (Compute API reference,
"Servers").
"""

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.compute.dialect import LIST_PAGES, ComputeView, boolean
from portal.api.compute.servers import schemas as server_schemas
from portal.api.compute.servers import shapes
from portal.api.compute.servers.guests import DIAGNOSTICS
from portal.api.compute.servers.launch_requests import launch_request
from portal.api.compute.servers.lists import listing, read_filters, read_sort
from portal.api.compute.servers.schemas import METADATA, TAGS
from portal.api.compute.servers.shapes import REMOTE, ServerView, addresses, security_group
from portal.api.frame import Call, Entries, Json, Values, parts
from portal.common.http import rate_limits
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.actions import delete
from provisioning.compute.launch.create import launch
from provisioning.compute.models import Instance
from provisioning.compute.records.passwords import generate_password
from provisioning.compute.selectors import instance_for
from provisioning.compute.selectors.instance_lists import SEARCHED
from provisioning.compute.services import metadata, tags
from provisioning.compute.services.instances import clear_password, update
from provisioning.network import selectors as network

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
    schemas = {"POST": server_schemas.create}
    queries = {"GET": listing}
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

        def make() -> Json:
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

    def _shapes(self, found: list[Instance]) -> list[Json]:
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
    schemas = {"PUT": server_schemas.update}

    def get(self, request: Request, server_id: str) -> Json:
        return self.shown(selectors.instance_for(self.context, server_id))

    def put(self, request: Request, server_id: str) -> Json:
        """Update the name, description, host name and access addresses."""
        values = self.checked_body()["server"]
        changes: Values = {_CHANGES[name]: value for name, value in values.items()}
        return self.changed(update(self.context, server_id, **changes))

    def delete(self, request: Request, server_id: str) -> None:
        """Delete a server: 204 once the command to the host is recorded; the host removes the guest afterwards."""
        delete.delete(self.context, server_id)


_CHANGES = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "OS-DCF:diskConfig": "disk_config",
}
"""Field of the API → name in the service."""


TAGGED, NUMA = (2, 26), (2, 78)


def _addresses(context: RequestContext, server_id: str) -> Json:
    """Return network name → addresses."""
    instance = instance_for(context, server_id)
    return addresses(network.addresses_of([instance.id]).get(instance.id, ()), extended=False)


def _groups(context: RequestContext, server_id: str) -> list[Json]:
    """Return the groups of the ports in nova-network's format."""
    instance = instance_for(context, server_id)
    members = {ident for ref in network.port_refs(instance.id) for ident in ref.security_group_ids}
    groups = network.security_groups_for(context, all_projects=True).filter(id__in=members)
    return [security_group(group) for group in groups.prefetch_related(REMOTE).order_by("name", "id")]


def _tagged(view: ComputeView, added: object) -> Response:
    """Answer 201 with the address of a new tag, 204 if the server had it."""
    where = f"{view.base}/servers/{view.kwargs['server_id']}/tags/{view.kwargs['tag']}"
    return Response(status=201, headers={"Location": where}) if added else Response(status=204)


_METADATA = Entries(
    name="metadata",
    item="meta",
    find=instance_for,
    values=lambda view, server: server.metadata,
    schema=METADATA,
    merge=metadata.merge_metadata,
    replace=metadata.set_metadata,
    remove=metadata.delete_metadata,
    missing="Metadata item was not found",
)
_TAGS = Entries(
    name="tags",
    find=instance_for,
    values=lambda view, server: server.tags,
    schema=TAGS,
    replace=tags.set_tags,
    remove=tags.delete_tag,
    missing="Server {found.id} has no tag '{key:.60}'",
)
_ADDRESSES = Entries(name="addresses", find=_addresses, missing="Instance is not a member of specified network")
PARTS = parts(
    ComputeView,
    "servers/{server_id}",
    {
        "GET /metadata": _METADATA.all("os_compute_api:server-metadata:index"),
        "POST /metadata": _METADATA.merging(
            "os_compute_api:server-metadata:create",
            "Add or update items; items that the body does not contain are kept.",
        ),
        "PUT /metadata": _METADATA.replacing("os_compute_api:server-metadata:update_all"),
        "GET /metadata/{key}": _METADATA.one("os_compute_api:server-metadata:show"),
        "PUT /metadata/{key}": _METADATA.setting("os_compute_api:server-metadata:update"),
        "DELETE /metadata/{key}": _METADATA.removing("os_compute_api:server-metadata:delete"),
        "GET /tags": _TAGS.all("os_compute_api:os-server-tags:index", since=TAGGED),
        "PUT /tags": _TAGS.replacing("os_compute_api:os-server-tags:update_all", since=TAGGED),
        "DELETE /tags": Call(tags.delete_tags, "os_compute_api:os-server-tags:delete_all", since=TAGGED),
        "GET /tags/{tag}": _TAGS.check(
            "os_compute_api:os-server-tags:show", "Check whether the server has the tag: 204 or 404.", since=TAGGED
        ),
        "PUT /tags/{tag}": Call(
            tags.add_tag,
            "os_compute_api:os-server-tags:update",
            "Add the tag: 201 with its address, or 204 if it exists.",
            shape=_tagged,
            since=TAGGED,
        ),
        "DELETE /tags/{tag}": _TAGS.removing("os_compute_api:os-server-tags:delete", since=TAGGED),
        "GET /ips": _ADDRESSES.all(
            "os_compute_api:ips:index", "List the addresses of every network, or of the specified one."
        ),
        "GET /ips/{network_label}": _ADDRESSES.one(
            "os_compute_api:ips:show", "List the addresses of every network, or of the specified one."
        ),
        "GET /os-security-groups": Call(
            _groups,
            "os_compute_api:os-security-groups:list",
            "List the groups of the server's ports.",
            name="security_groups",
        ),
        "GET /os-server-password": Call(
            instance_for,
            "os_compute_api:os-server-password:show",
            "Show the encrypted password; empty if the guest has not posted a password.",
            name="password",
            shape=lambda view, server: server.password,
        ),
        "DELETE /os-server-password": Call(
            clear_password,
            "os_compute_api:os-server-password:clear",
            "Delete the stored password; the password in the guest is unchanged.",
        ),
        "GET /topology": Call(
            instance_for,
            "compute:server:topology:index",
            "Answer with no node and no page size: servers have no NUMA topology here.",
            shape=lambda view, server: {"nodes": [], "pagesize_kb": None},
            since=NUMA,
        ),
        "GET /diagnostics": DIAGNOSTICS,
    },
)
