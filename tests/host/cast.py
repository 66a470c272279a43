"""The cast of the host's tests: networks, rules and guests that fit together."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from compute_agent.contract.build import (
    FixedAddress,
    FlavorRef,
    ImageRef,
    InstanceSpec,
    KeyPairRef,
    NetworkRef,
    PortRef,
    SecurityRule,
    Segment,
    SubnetRef,
)
from compute_agent.contract.network import NetworkDocument, SecurityGroupDocument, ServicePort

EGRESS = SecurityRule(direction="egress")
PING = SecurityRule(direction="ingress", protocol="icmp", remote_ip_prefix="0.0.0.0/0")
SSH = SecurityRule(direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22)
OURS = "0e3a5c70-0000-4000-8000-00000000000a"
"""The default group of a project."""
THEIRS = "0e3a5c70-0000-4000-8000-00000000000b"
"""The one of another project."""
GROUP = SecurityRule(direction="ingress", remote_group_id=OURS)

RULES: dict[str, list[SecurityRule]] = {}
"""What the groups of guests allow."""

NO_IMAGE = ImageRef(id="none", name="none", disk_format="raw", size=0, hash_algo="sha512", hash_value="")


def network(number: int = 20, mtu: int = 1442) -> NetworkRef:
    """The network 10.``number``.0.0/24 without a gateway."""
    subnet = SubnetRef(id=f"5f1d2c3b-0000-4000-8000-aaaaaaaaaa{number:02d}", cidr=f"10.{number}.0.0/24")
    return NetworkRef(
        id=f"5f1d2c3b-0000-4000-8000-0000000000{number:02d}",
        name=f"net-{number}",
        bridge=f"nvbr{number}",
        cidr=subnet.cidr,
        gateway=None,
        mtu=mtu,
        segment=Segment(type="vxlan", id=number),
        subnets=[subnet],
    )


def group_of(rules: Sequence[SecurityRule]) -> str:
    """Return the id of a security group with these rules."""
    key = str(uuid.uuid5(uuid.NAMESPACE_OID, repr(rules)))
    RULES[key] = list(rules)
    return key


def documents(*specs: InstanceSpec) -> list[NetworkDocument | SecurityGroupDocument]:
    """Return what a host is told of the guests' networks, which have DHCP at .3, and of their security groups."""
    ports = [port for spec in specs for port in spec.ports]
    networks = {port.network.id: port.network for port in ports}
    groups = {key for port in ports for key in port.security_group_ids}
    return [
        *(
            NetworkDocument(
                id=key, name=ref.name, bridge=ref.bridge, mtu=ref.mtu, segment=ref.segment,
                subnets=ref.subnets, dns_domain=ref.dns_domain,
                service=ServicePort(
                    id=key, mac_address=f"fa:16:3e:{int(ref.cidr.split('.')[1]):02x}:dc:dc",
                    addresses=[ref.cidr.replace(".0/24", ".3")],
                ),
            )
            for key, ref in networks.items()
        ),
        *(SecurityGroupDocument(id=key, rules=RULES.get(key, [])) for key in sorted(groups)),
    ]  # fmt: skip


@dataclass
class Wish:
    """What a test wants of a guest."""

    number: int = 1
    rules: Sequence[SecurityRule] = (EGRESS,)
    groups: Sequence[str] = ()
    network: NetworkRef = field(default_factory=network)
    image: ImageRef = NO_IMAGE
    public_key: str | None = None
    user_data: str | None = None
    port_security: bool = True
    root_gb: int = 1
    hostname: str = ""
    dns_name: str = ""
    dns_domain: str = ""

    def port(self) -> PortRef:
        identifier = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.network.bridge}/{self.number}"))
        prefix = self.network.cidr.rsplit(".", 1)[0]
        address = FixedAddress(address=f"{prefix}.{self.number + 4}", prefix_length=24, gateway=self.network.gateway)
        return PortRef(
            id=identifier,
            mac_address=f"fa:16:3e:{self.network.cidr.split('.')[1]}:00:{self.number:02x}",
            tap="tap" + identifier[:11],
            network=self.network,
            fixed_ips=[address],
            port_security=self.port_security,
            dns_name=self.dns_name,
            security_group_ids=[*self.groups, group_of(self.rules)],
            dns_domain=self.dns_domain,
        )

    def spec(self) -> InstanceSpec:
        return InstanceSpec(
            uuid=str(uuid.uuid4()),
            name=f"Web <{self.number}> & co",
            hostname=self.hostname or f"web-{self.number}",
            project_id="0" * 32,
            user_id="1" * 32,
            image=self.image,
            flavor=FlavorRef(name="m1.nano", vcpus=1, memory_mb=96, root_gb=self.root_gb),
            ports=[self.port()],
            key_pair=KeyPairRef(name="my key", public_key=self.public_key) if self.public_key else None,
            user_data=self.user_data,
        )
