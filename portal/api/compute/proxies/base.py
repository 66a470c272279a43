"""Base of the proxies of other services, and the table of operations that are not supported: 410 for those removed from
the API, and refusals for resources of services that this cloud does not have.
"""

from typing import Any, ClassVar, NamedTuple

from rest_framework.request import Request

from portal.api.compute.dialect import COUNT, ComputeView
from portal.api.frame import Call, Schema, Service, ServiceView, Version, parts, refuse
from provisioning.common.context import RequestContext
from provisioning.common.errors import GoneError, InvalidInputError, NotOfferedError

LAST: Version = (2, 35)
"""The last version of nearly all proxies."""


class ProxyView(ComputeView):
    """A resource of another service; not available from 2.36 on."""

    last_version: ClassVar[Version | None] = LAST
    answered_later: ClassVar[frozenset[str]] = frozenset()
    """Methods that the API also has after ``last_version``, with the same response."""

    def check_rule(self, request: Request) -> None:
        """Answer 404 in versions that no longer have the method, then check the policy."""
        if request.method not in self.answered_later:
            self.require(maximum=self.last_version)
        super().check_rule(request)

    def policy_target(self) -> dict[str, object]:
        """Return the caller's project, for rules of the other services."""
        return {"project_id": self.context.project_id}


GONE = Call(
    refuse(GoneError, "This resource is no longer available. No forwarding address is given."), "novella:removed_apis"
)
NO_BARE_METAL = refuse(NotOfferedError, "There is no bare metal service in this cloud.")


def ironic(command: str) -> Service:
    """Return a service that refuses the request and names the command of the bare metal service to use instead."""
    message = f"Command not supported. Please use Ironic command {command} to perform this action."
    return refuse(InvalidInputError, message)


def ironic_port(context: RequestContext, node_id: str, *, removal: bool) -> None:
    """Refuse to add or remove an interface of a node."""
    ironic("port-delete" if removal else "port-create")()


def _removes(view: ServiceView) -> dict[str, bool]:
    body: Any = view.request.data
    return {"removal": isinstance(body, dict) and "remove_interface" in body}


class Row(NamedTuple):
    """A path below ``/compute/v2.1``, some of its methods, and their response up to a microversion."""

    path: str
    methods: str
    call: Call
    last_version: Version | None = LAST


def removed(path: str, methods: str) -> Row:
    """Return the row of an operation removed from the API: every microversion answers 410."""
    return Row(path, methods, GONE, None)


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
    Row("os-baremetal-nodes", "GET", Call(NO_BARE_METAL, "os_compute_api:os-baremetal-nodes:list")),
    Row("os-baremetal-nodes", "POST", Call(ironic("node-create"), "os_compute_api:os-baremetal-nodes")),
    Row("os-baremetal-nodes/{node_id}", "GET", Call(NO_BARE_METAL, "os_compute_api:os-baremetal-nodes:show")),
    Row("os-baremetal-nodes/{node_id}", "DELETE", Call(ironic("node-delete"), "os_compute_api:os-baremetal-nodes")),
    Row(
        "os-baremetal-nodes/{node_id}/action",
        "POST",
        Call(ironic_port, "os_compute_api:os-baremetal-nodes", more=_removes),
    ),
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
    calls = {method: row.call for row in rows for method in row.methods.split()}
    unlimited = frozenset(method for row in rows if row.last_version is None for method in row.methods.split())
    last = None if base is ProxyView and unlimited == calls.keys() else base.last_version
    return parts(base, path, calls, last_version=last, answered_later=unlimited)[path]
