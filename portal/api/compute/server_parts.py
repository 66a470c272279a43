"""What hangs on one server: metadata, tags, addresses, ports, security groups, volumes."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute import server_schemas, server_shapes
from portal.api.compute.views import ComputeView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors, services
from provisioning.network import selectors as network
from provisioning.network.models import SecurityGroup, SecurityGroupRule


class MetadataView(ComputeView):
    """``/servers/{id}/metadata``."""

    rules = {
        "GET": "compute:server_metadata:list",
        "POST": "compute:server_metadata:create",
        "PUT": "compute:server_metadata:update",
    }

    def get(self, request: Request, server_id: str) -> Response:
        """All items."""
        return Response({"metadata": selectors.instance_for(self.context, server_id).metadata})

    def post(self, request: Request, server_id: str) -> Response:
        """Add or change items; the others stay."""
        given = self.body(server_schemas.METADATA_BODY)["metadata"]
        return Response({"metadata": services.merge_metadata(self.context, server_id, given).metadata})

    def put(self, request: Request, server_id: str) -> Response:
        """Replace all items."""
        given = self.body(server_schemas.METADATA_BODY)["metadata"]
        return Response({"metadata": services.set_metadata(self.context, server_id, given).metadata})


class MetadataItemView(ComputeView):
    """``/servers/{id}/metadata/{key}``."""

    rules = {
        "GET": "compute:server_metadata:show",
        "PUT": "compute:server_metadata:update",
        "DELETE": "compute:server_metadata:delete",
    }

    def get(self, request: Request, server_id: str, key: str) -> Response:
        """One item."""
        metadata = selectors.instance_for(self.context, server_id).metadata
        if key not in metadata:
            raise NotFoundError("Metadata item was not found")
        return Response({"meta": {key: metadata[key]}})

    def put(self, request: Request, server_id: str, key: str) -> Response:
        """Set one item."""
        given = self.body(server_schemas.META_BODY)["meta"]
        if key not in given:
            raise InvalidInputError("Request body and URI mismatch", field=key)
        services.merge_metadata(self.context, server_id, given)
        return Response({"meta": given})

    def delete(self, request: Request, server_id: str, key: str) -> Response:
        """Remove one item."""
        services.delete_metadata(self.context, server_id, key)
        return Response(status=204)


class TagsView(ComputeView):
    """``GET /servers/{id}/tags`` (2.26)."""

    rules = {"GET": "compute:server_tags:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """The tags given at the launch."""
        if self.microversion < (2, 26):
            raise NotFoundError("The resource could not be found.")
        return Response({"tags": selectors.instance_for(self.context, server_id).tags})


class AddressesView(ComputeView):
    """``GET /servers/{id}/ips``."""

    rules = {"GET": "compute:server_ips:list"}

    def get(self, request: Request, server_id: str, network_label: str | None = None) -> Response:
        """Addresses by network."""
        instance = selectors.instance_for(self.context, server_id)
        found = server_shapes.addresses(network.addresses_of([instance.id]).get(instance.id, []))
        plain = {
            name: [{"version": entry["version"], "addr": entry["addr"]} for entry in entries]
            for name, entries in found.items()
        }
        if network_label is None:
            return Response({"addresses": plain})
        if network_label not in plain:
            raise NotFoundError("Network label was not found")
        return Response({network_label: plain[network_label]})


class NetworkAddressesView(AddressesView):
    """``GET /servers/{id}/ips/{network}``."""

    rules = {"GET": "compute:server_ips:show"}


class InterfacesView(ComputeView):
    """``GET /servers/{id}/os-interface``."""

    rules = {"GET": "compute:server_interfaces:list"}

    def get(self, request: Request, server_id: str, port_id: str | None = None) -> Response:
        """The ports of a server, in order of its cards."""
        instance = selectors.instance_for(self.context, server_id)
        ports: dict[str, dict[str, Any]] = {}
        for ref in network.port_refs(instance.id):
            ports[ref.id] = {
                "port_state": "ACTIVE" if instance.vm_state == "active" else "DOWN",
                "port_id": ref.id,
                "net_id": ref.network.id,
                "mac_addr": ref.mac_address,
                "fixed_ips": [{"ip_address": ip.address, "subnet_id": ip.subnet_id} for ip in ref.fixed_ips],
            }
        if port_id is None:
            return Response({"interfaceAttachments": list(ports.values())})
        if port_id not in ports:
            raise NotFoundError(f"Port id {port_id[:64]} could not be found.")
        return Response({"interfaceAttachment": ports[port_id]})


class InterfaceView(InterfacesView):
    """``GET /servers/{id}/os-interface/{port}``."""

    rules = {"GET": "compute:server_interfaces:show"}


class SecurityGroupsView(ComputeView):
    """``GET /servers/{id}/os-security-groups``."""

    rules = {"GET": "compute:server_security_groups:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """The groups of the server's ports."""
        instance = selectors.instance_for(self.context, server_id)
        members = {ident for ref in network.port_refs(instance.id) for ident in ref.security_group_ids}
        groups = network.security_groups_for(self.context, all_projects=True).filter(id__in=members)
        return Response({"security_groups": [_group(group) for group in groups.order_by("name", "id")]})


def _group(group: SecurityGroup) -> dict[str, Any]:
    """A group as Nova shows it: what may come in; what goes out was never part of this shape."""
    rules = [rule for rule in group.rules.all() if rule.direction == "ingress"]
    return {
        "id": str(group.id),
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id.hex,
        "rules": [_rule(rule, group) for rule in rules],
    }


def _rule(rule: SecurityGroupRule, group: SecurityGroup) -> dict[str, Any]:
    anywhere = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}[rule.ethertype]
    remote = {"name": group.name, "tenant_id": group.project_id.hex} if rule.remote_group_id == group.id else {}
    return {
        "id": str(rule.id),
        "parent_group_id": str(group.id),
        "ip_protocol": rule.protocol,
        "from_port": rule.port_range_min,
        "to_port": rule.port_range_max,
        "ip_range": {} if rule.remote_group_id else {"cidr": rule.remote_ip_prefix or anywhere},
        "group": remote,
    }


class VolumeAttachmentsView(ComputeView):
    """``GET /servers/{id}/os-volume_attachments``: there is no volume service yet, so nothing is attached."""

    rules = {"GET": "compute:server_volumes:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """The volumes of an existing server: none."""
        selectors.instance_for(self.context, server_id)
        return Response({"volumeAttachments": []})
