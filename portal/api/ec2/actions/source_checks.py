"""The check of sources and destinations, an attribute of interfaces and of instances that have one: port security."""

from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.models import Port


def check_sources(call: Call, port: Port, *, wanted: bool) -> None:
    """Switch port security, without which no group filters: so an interface in groups keeps it; Ec2Error."""
    owner = port.network.project_id
    target = {"project_id": port.project_id, "network:project_id": owner, "network:tenant_id": owner}
    policy.enforce(call.context, "update_port:port_security_enabled", target)
    if not wanted and port.security_groups.all():
        msg = (
            "Without the check of sources no security group filters here: take the interface out of its groups by the"
            " Network API first, or allow it further addresses there (allowed_address_pairs)"
        )
        raise errors.unsupported(msg)
    services.update_port(port, {"port_security_enabled": wanted})
