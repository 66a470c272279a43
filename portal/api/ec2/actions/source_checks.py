"""The source and destination check of interfaces and instances: port security."""

from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call
from provisioning.identity import policy
from provisioning.network import services
from provisioning.network.models import Port


def check_sources(call: Call, port: Port, *, requested: bool) -> None:
    """Enable or disable port security.

    It cannot be disabled on an interface with security groups, because the groups would no longer filter. Raises
    Ec2Error.
    """
    owner = port.network.project_id
    target = {"project_id": port.project_id, "network:project_id": owner, "network:tenant_id": owner}
    policy.enforce(call.context, "update_port:port_security_enabled", target)
    if not requested and port.security_groups.all():
        msg = (
            "Without the source check no security group filters here: remove the interface from its groups by the"
            " Network API first, or add allowed address pairs to it there (allowed_address_pairs)"
        )
        raise errors.unsupported(msg)
    services.update_port(port, {"port_security_enabled": requested})
