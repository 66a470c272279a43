"""Parts of servers: metadata, tags, addresses, security groups, password and topology."""

from typing import Any

from rest_framework.response import Response

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.servers.diagnostics import DIAGNOSTICS
from portal.api.compute.servers.fields import METADATA, TAGS
from portal.api.compute.servers.security_group_shapes import REMOTE, security_group
from portal.api.compute.servers.shapes import addresses
from portal.api.frame.parts import Call, Entries, parts
from provisioning.common.context import RequestContext
from provisioning.compute.selectors import instance_for
from provisioning.compute.services import metadata, tags
from provisioning.compute.services.instances import clear_password
from provisioning.network import selectors as network

TAGGED, NUMA = (2, 26), (2, 78)


def _addresses(context: RequestContext, server_id: str) -> dict[str, Any]:
    """Return network name → addresses."""
    instance = instance_for(context, server_id)
    return addresses(network.addresses_of([instance.id]).get(instance.id, ()), extended=False)


def _groups(context: RequestContext, server_id: str) -> list[dict[str, Any]]:
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
