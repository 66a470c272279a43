"""Operations of the Compute API that are not supported, as one table: 410 for operations removed from the API, and
refusals for resources of services that this cloud does not have.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.refusals import Answer, Operation, answering, refuse
from portal.api.common.views import ServiceView
from portal.api.compute.proxies.base import LAST, ProxyView
from portal.api.compute.schemas import COUNT, Schema
from provisioning.common.errors import GoneError, InvalidInputError, NotOfferedError

REMOVED = "novella:removed_apis"
GONE = refuse(GoneError, "This resource is no longer available. No forwarding address is given.")
NO_BARE_METAL = refuse(NotOfferedError, "There is no bare metal service in this cloud.")


def ironic(command: str) -> Answer:
    """Return an answer that refuses the request and names the command of the bare metal service to use instead."""
    message = f"Command not supported. Please use Ironic command {command} to perform this action."
    return refuse(InvalidInputError, message)


def ironic_port(request: Request, named: Mapping[str, str]) -> Response:
    """Refuse to add or remove an interface of a node, depending on the body."""
    removal = isinstance(request.data, dict) and "remove_interface" in request.data
    return ironic("port-delete" if removal else "port-create")(request, named)


class Row(NamedTuple):
    """A path below ``/compute/v2.1``, some of its methods, and their response up to a microversion."""

    path: str
    methods: str
    rule: str
    answer: Answer
    last_version: Version | None = LAST


def removed(path: str, methods: str) -> Row:
    """Return the row of an operation removed from the API: every microversion answers 410."""
    return Row(path, methods, REMOVED, GONE, None)


TABLE: tuple[Row, ...] = (
    removed("os-agents", "GET POST"),
    removed("os-agents/{agent_id}", "PUT DELETE"),
    removed("os-cells", "GET POST"),
    removed("os-cells/capacities", "GET"),
    removed("os-cells/detail", "GET"),
    removed("os-cells/info", "GET"),
    removed("os-cells/sync_instances", "POST"),
    removed("os-cells/{cell_id}", "GET PUT DELETE"),
    removed("os-cells/{cell_id}/capacities", "GET"),
    removed("os-certificates", "POST"),
    removed("os-certificates/{certificate_id}", "GET"),
    removed("os-cloudpipe", "GET POST"),
    removed("os-cloudpipe/{cloudpipe_id}", "PUT"),
    removed("os-fixed-ips/{fixed_ip}", "GET"),
    removed("os-fixed-ips/{fixed_ip}/action", "POST"),
    removed("os-floating-ip-dns", "GET"),
    removed("os-floating-ip-dns/{dns_domain}", "PUT DELETE"),
    removed("os-floating-ip-dns/{dns_domain}/entries/{dns_entry}", "GET PUT DELETE"),
    removed("os-floating-ips-bulk", "GET POST"),
    removed("os-floating-ips-bulk/{bulk_host}", "GET PUT"),
    removed("os-fping", "GET"),
    removed("os-fping/{server_id}", "GET"),
    removed("os-networks", "POST"),
    removed("os-networks/add", "POST"),
    removed("os-networks/{network_id}", "DELETE"),
    removed("os-networks/{network_id}/action", "POST"),
    removed("os-tenant-networks", "POST"),
    removed("os-tenant-networks/{network_id}", "DELETE"),
    removed("os-security-group-default-rules", "GET POST"),
    removed("os-security-group-default-rules/{default_rule_id}", "GET DELETE"),
    removed("servers/{server_id}/consoles", "GET POST"),
    removed("servers/{server_id}/consoles/{console_id}", "GET DELETE"),
    removed("servers/{server_id}/os-virtual-interfaces", "GET"),
    Row("os-baremetal-nodes", "GET", "os_compute_api:os-baremetal-nodes:list", NO_BARE_METAL),
    Row("os-baremetal-nodes", "POST", "os_compute_api:os-baremetal-nodes", ironic("node-create")),
    Row("os-baremetal-nodes/{node_id}", "GET", "os_compute_api:os-baremetal-nodes:show", NO_BARE_METAL),
    Row("os-baremetal-nodes/{node_id}", "DELETE", "os_compute_api:os-baremetal-nodes", ironic("node-delete")),
    Row("os-baremetal-nodes/{node_id}/action", "POST", "os_compute_api:os-baremetal-nodes", ironic_port),
)


def limited(version: Version) -> Schema:
    """The query of lists with ``limit`` and ``offset``."""
    counted: Schema = {"type": "array", "items": COUNT}
    return {
        "type": "object",
        "properties": dict.fromkeys(("limit", "offset"), counted),
        "additionalProperties": True,
    }


def view_of(path: str, base: type[Any] = ProxyView) -> type[ServiceView]:
    """Return the view of a path: it answers the methods in the table as the table specifies, and all other methods as
    ``base`` does.
    """
    rows = [row for row in TABLE if row.path == path]
    operations = {method: Operation(row.rule, row.answer) for row in rows for method in row.methods.split()}
    unlimited = frozenset(method for row in rows if row.last_version is None for method in row.methods.split())
    whole = base is ProxyView and unlimited == operations.keys()
    return answering(
        base,
        operations,
        last_version=None if whole else base.last_version,
        answered_later=unlimited,
        queries=base.queries,
    )
