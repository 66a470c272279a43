"""Networks and subnets: made by operators and by the set-up."""

import itertools
import uuid
from collections.abc import Mapping, Sequence

from django.db import connection, transaction

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.models import Network, Subnet
from provisioning.quotas.services.ledger import hold

MAX_NAME_SERVERS = 5
"""Neutron's max_dns_nameservers."""


def create_network(
    project_id: uuid.UUID,
    name: str,
    *,
    shared: bool = False,
    mtu: int = 1500,
    description: str = "",
    dns_domain: str = "novalocal",
) -> Network:
    """Make a network with a bridge name of its own.  ``mtu`` in bytes.  Raises InvalidInputError, OverQuotaError."""
    if len(name) > 255:
        raise InvalidInputError("The name of a network has at most 255 characters.", field="name")
    if not 576 <= mtu <= 9216:
        raise InvalidInputError(f"The MTU must be from 576 to 9216 bytes, not {mtu}.", field="mtu")
    identity = uuid.uuid4()
    with transaction.atomic():
        hold(project_id, identity, {"networks": 1})
        return Network.objects.create(
            id=identity,
            project_id=project_id,
            name=name,
            description=description,
            shared=shared,
            mtu=mtu,
            bridge=f"br{identity.hex[:11]}",
            dns_domain=dns_domain,
        )


def create_subnet(
    network: Network,
    cidr: str,
    *,
    name: str = "",
    gateway_ip: str | None = "auto",
    enable_dhcp: bool = True,
    dns_nameservers: Sequence[str] = (),
    allocation_pools: Sequence[Mapping[str, str]] | None = None,
) -> Subnet:
    """Make an IPv4 subnet.

    ``gateway_ip``: ``auto`` takes the first address, None makes a range without a way out.  ``allocation_pools``: None
    gives out every other address.  A range that shares addresses with another subnet is refused, on any network: a host
    routes all its bridges together.  Raises InvalidInputError naming the field, OverQuotaError.
    """
    whole = addressing.parse_cidr(cidr)
    hosts = addressing.hosts_of(whole)
    gateway = _gateway(gateway_ip, hosts)
    ranges = _pools(allocation_pools, hosts, gateway)
    servers = [str(addressing.parse_address(text, field="dns_nameservers")) for text in dns_nameservers]
    if len(servers) > MAX_NAME_SERVERS:
        raise InvalidInputError(f"A subnet has at most {MAX_NAME_SERVERS} name servers.", field="dns_nameservers")
    dhcp = addressing.as_text(ranges[0].first) if enable_dhcp and gateway is None else None
    identity = uuid.uuid4()
    with transaction.atomic():
        hold(network.project_id, identity, {"subnets": 1})
        if connection.features.has_select_for_update:  # all of them: ranges are compared over every network
            list(Network.objects.select_for_update(no_key=True).order_by("pk").values_list("pk"))
        other = addressing.overlapping(whole)
        if other is not None:
            msg = f"Requested subnet with cidr: {whole} for network: {network.id} overlaps with another subnet."
            raise InvalidInputError(msg, field="cidr")
        return Subnet.objects.create(
            id=identity,
            network=network,
            project_id=network.project_id,
            name=name,
            cidr=str(whole),
            gateway_ip=None if gateway is None else addressing.as_text(gateway),
            enable_dhcp=enable_dhcp,
            dhcp_address=dhcp,
            dns_nameservers=servers,
            allocation_pools=addressing.as_pools(ranges),
        )


def _gateway(text: str | None, hosts: addressing.Range) -> int | None:
    """Return the gateway's number: the first address for ``auto``, None for none."""
    if text is None:
        return None
    if text == "auto":
        return hosts.first
    number = int(addressing.parse_address(text, field="gateway_ip"))
    if not hosts.first <= number <= hosts.last:
        raise InvalidInputError(f"The gateway {text} is not an address of a machine in this range.", field="gateway_ip")
    return number


def _pools(
    pools: Sequence[Mapping[str, str]] | None, hosts: addressing.Range, gateway: int | None
) -> list[addressing.Range]:
    """Check the pools: inside the range, in order, apart from each other and from the gateway."""
    if pools is None:
        return addressing.without([hosts], [] if gateway is None else [gateway])
    ranges = []
    for pool in pools:
        first, last = (
            int(addressing.parse_address(pool.get(end, ""), field="allocation_pools")) for end in ("start", "end")
        )
        if not hosts.first <= first <= last <= hosts.last:
            msg = f"The allocation pool {pool.get('start')}-{pool.get('end')} is not valid in this range."
            raise InvalidInputError(msg, field="allocation_pools")
        if gateway is not None and first <= gateway <= last:
            pool_text = f"{pool['start']}-{pool['end']}"
            msg = f"Gateway ip {addressing.as_text(gateway)} conflicts with allocation pool {pool_text}."
            raise InvalidInputError(msg, field="allocation_pools")
        ranges.append(addressing.Range(first, last))
    ranges.sort(key=lambda part: part.first)
    if not ranges or any(before.last >= after.first for before, after in itertools.pairwise(ranges)):
        raise InvalidInputError("The allocation pools are empty or overlap each other.", field="allocation_pools")
    return ranges
