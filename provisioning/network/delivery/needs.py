"""Finds the hosts that need a network, router, floating IP or security group, by the ports bound to them."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from django.db.models import CharField, Q, QuerySet, UUIDField
from django.utils import timezone

from compute_agent.contract.messages import DOCUMENTS
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network.models import Delivery, FloatingIP, Network, Port, PortForwarding, Router, SecurityGroupRule
from provisioning.network.records.marks import mark
from provisioning.network.records.owners import GUESTS, ROUTER_GATEWAY, ROUTER_INTERFACE, UNBOUND

Subject = tuple[str, uuid.UUID]
Membership = Port.security_groups.through

_HOSTS = Prepared(lambda: Host.objects.filter(contract_version__gte=DOCUMENTS))
_KEPT = Prepared(lambda: Delivery.objects.filter(kept=True).values_list("kind", "subject_id", "host_id"))
_LEGS = Prepared(
    lambda: Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__isnull=False).values_list(
        "device_id", "network_id"
    )
)
_LEADING = Prepared(
    lambda network: Router.objects.filter(gateway_port__network_id=network).values_list("id", flat=True),
    network=UUIDField(),
)
"""Routers whose gateway is on a network."""
_GUESTS_PORTS = Prepared(
    lambda host: Port.objects.filter(GUESTS, Q(host=host) | Q(second_host=host)).values_list("id", "network_id"),
    host=CharField(),
)

_HOSTS_OF_GUESTS = Prepared(
    lambda networks: (
        Port.objects.filter(GUESTS, Among("network_id", networks))
        .exclude(host="")
        .values_list("host", "second_host")
        .distinct()
    ),
    networks=Ids(),
)


def _of_group(group: Any) -> QuerySet[Port, tuple[str, str]]:
    """Return the hosts of ports in a group, and of ports in groups whose rules refer to it."""
    naming = SecurityGroupRule.objects.filter(remote_group_id=group).values("group_id")
    rows = Port.objects.filter(Q(security_groups=group) | Q(security_groups__in=naming)).exclude(host="")
    return rows.values_list("host", "second_host").distinct()


_HOSTS_OF_GROUP = Prepared(_of_group, group=UUIDField())
_NETWORKS_BEHIND = Prepared(
    lambda routers: Router.objects.filter(Among("id", routers), gateway_port__isnull=False).values_list(
        "gateway_port__network_id", flat=True
    ),
    routers=Ids(),
)
"""External networks of routers' gateways."""
_GROUPS_OF = Prepared(
    lambda ports: Membership.objects.filter(Among("port_id", ports)).values_list("securitygroup_id", flat=True),
    ports=Ids(),
)
_GROUPS_NAMED_BY = Prepared(
    lambda groups: SecurityGroupRule.objects.filter(
        Among("group_id", groups), remote_group_id__isnull=False
    ).values_list("remote_group_id", flat=True),
    groups=Ids(),
)
"""Groups that the rules of these groups refer to."""


def _floating_ips(host: Any, ports: Any, routers: Any) -> QuerySet[FloatingIP, uuid.UUID]:
    """Return the floating IPs that a host needs, given the ports of its guests and the routers that it needs."""
    borne = Q(Among("router_id", routers), router__host=host, fixed_port=None, port_forwardings__isnull=False)
    unbound = Port.objects.filter(UNBOUND).values("id")
    anywhere = Q(fixed_port__in=unbound) | Q(fixed_port=None, port_forwardings__internal_port__in=unbound)
    rows = FloatingIP.objects.filter(
        Q(Among("fixed_port_id", ports))
        | Q(Among("port_forwardings__internal_port_id", ports), fixed_port=None)
        | borne
        | Q(Among("router_id", routers), anywhere)
    )
    return rows.values_list("id", flat=True)


_FLOATING_IPS = Prepared(_floating_ips, host=CharField(), ports=Ids(), routers=Ids())


class Needs:
    """Finds the hosts that need a subject, and the subjects that a host needs; for one transaction.

    ``kept``: include the subjects that a host keeps for guests that the records do not place on the host.
    """

    def __init__(self, *, kept: bool = True) -> None:
        self._with_kept = kept

    @cached_property
    def hosts(self) -> dict[str, Host]:
        """Hosts whose agents accept documents, by name."""
        return {host.name: host for host in _HOSTS()}

    @cached_property
    def by_id(self) -> dict[uuid.UUID, Host]:
        return {host.id: host for host in self.hosts.values()}

    @cached_property
    def _kept(self) -> list[tuple[str, uuid.UUID, uuid.UUID]]:
        """Return the kind, subject id and host id of everything that hosts keep for guests without a placement."""
        if not self._with_kept:
            return []
        return _KEPT()

    def _kept_by(self, kind: str, ids: Collection[uuid.UUID]) -> set[str]:
        """Return the names of the hosts that keep one of these subjects."""
        hosts = {host_id for each, key, host_id in self._kept if each == kind and key in ids}
        return {self.by_id[host_id].name for host_id in hosts if host_id in self.by_id}

    @cached_property
    def _legs(self) -> list[tuple[uuid.UUID, uuid.UUID]]:
        """Return the router id and network id of each router interface."""
        return [(router, network) for router, network in _LEGS() if router]

    def connected(self, network_ids: Iterable[uuid.UUID]) -> tuple[set[uuid.UUID], set[uuid.UUID]]:
        """Return these networks with all networks that routers connect to them, and the routers.

        Gateways are not followed: an external network is outside the cloud.
        """
        networks, routers = set(network_ids), set()
        joined: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
        for router, network in self._legs:
            joined[router].add(network)
        grown = True
        while grown:
            additional = {router for router, legs in joined.items() if router not in routers and legs & networks}
            routers |= additional
            grown = bool(additional)
            for router in additional:
                networks |= joined[router]
        return networks, routers

    def of_network(self, network: Network) -> list[Host]:
        """Return the hosts of guests on the network and on networks connected to it.

        For an external network, the hosts of the routers whose gateway is on it are added.
        """
        networks, _ = self.connected([network.id])
        hosts = self._with_guests(networks)
        for router in _LEADING(network=network.id):
            hosts |= self._with_guests(self._networks_of(router))
        return self._named(hosts)

    def of_router(self, router: Router) -> list[Host]:
        """Return the hosts of guests on the networks that the router connects, directly or through other routers."""
        return self._named(self._with_guests(self._networks_of(router.id)))

    def of_group(self, group_id: uuid.UUID) -> list[Host]:
        """Return the hosts of the group's ports, and of ports in groups whose rules refer to it."""
        bound = chain.from_iterable(_HOSTS_OF_GROUP(group=group_id))
        return self._named({*bound, *self._kept_by(SECURITY_GROUP, [group_id])})

    def of_floating_ip(self, floating: FloatingIP) -> list[Host]:
        """Return the hosts that need the floating IP; the first host serves its address.

        This is the host of its port; for a port that is being migrated also its second host. If the floating IP only
        forwards ports, or if the fixed address may move between guests, it is the host with the router's external
        address, followed by the hosts of the guests.
        """
        if floating.fixed_port_id is not None:
            ports = Port.objects.filter(id=floating.fixed_port_id)
            if not ports.filter(UNBOUND).exists():
                return self._named(chain.from_iterable(ports.values_list("host", "second_host")))
        if floating.router is None:
            return []
        joined = self.of_router(floating.router)
        there = joined
        if floating.fixed_port_id is None:
            forwards = PortForwarding.objects.filter(floating_ip=floating)
            bound = forwards.exclude(internal_port__host="")
            anywhere = forwards.filter(internal_port__in=Port.objects.filter(UNBOUND)).exists()
            names = chain.from_iterable(bound.values_list("internal_port__host", "internal_port__second_host"))
            there = joined if anywhere else self._named(names)
        if not there:
            return []
        bears = self._named([bearer(floating.router, joined)])
        return [*bears, *(host for host in there if host not in bears)]

    def is_moving(self, floating: FloatingIP) -> bool:
        """Return whether the guest with the floating IP is being migrated: both hosts need the floating IP."""
        if floating.fixed_port_id is None:
            return False
        return Port.objects.filter(id=floating.fixed_port_id).exclude(second_host="").exists()

    def of_host(self, host: Host) -> set[Subject]:
        """Return all subjects that a host needs."""
        here = _GUESTS_PORTS(host=host.name)
        kept = {(kind, key) for kind, key, host_id in self._kept if host_id == host.id}
        networks, routers = self.connected(
            {network for _, network in here} | {key for kind, key in kept if kind == NETWORK}
        )
        if routers:
            networks |= set(_NETWORKS_BEHIND(routers=routers))
        ports = [port for port, _ in here]
        groups = set(_GROUPS_OF(ports=ports)) if ports else set()
        groups |= set(_GROUPS_NAMED_BY(groups=groups)) if groups else set()
        floating = _FLOATING_IPS(host=host.name, ports=ports, routers=routers) if ports or routers else []
        return (
            kept
            | {(NETWORK, key) for key in networks}
            | {(ROUTER, key) for key in routers}
            | {(SECURITY_GROUP, key) for key in groups}
            | {(FLOATING_IP, key) for key in floating}
        )

    def _networks_of(self, router_id: uuid.UUID) -> set[uuid.UUID]:
        mine = {network for router, network in self._legs if router == router_id}
        return self.connected(mine)[0]

    def _with_guests(self, network_ids: Collection[uuid.UUID]) -> set[str]:
        bound = set(chain.from_iterable(_HOSTS_OF_GUESTS(networks=network_ids))) - {""}
        return bound | self._kept_by(NETWORK, network_ids)

    def _named(self, names: Iterable[str]) -> list[Host]:
        return [self.hosts[name] for name in sorted(set(names)) if name in self.hosts]


def networks_of_routers(router_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the networks on which routers have a port, including the networks of their gateways."""
    if not router_ids:
        return set()
    rows = Port.objects.filter(device_owner__in=(ROUTER_INTERFACE, ROUTER_GATEWAY), device_id__in=router_ids)
    return set(rows.values_list("network_id", flat=True))


def bearer(router: Router, hosts: Sequence[Host]) -> str:
    """Choose the host that has a router's external address; return its name, or "" if there are no hosts.

    The previous host is kept while it is in ``hosts``, unless it is down and another host is up. A change is written to
    ``router.host``, and the router's floating IPs are marked.
    """
    now = timezone.now()
    alive = [host.name for host in hosts if is_alive(host, now)]
    names = alive or [host.name for host in hosts]
    chosen = router.host if router.host in names else min(names, default="")
    if chosen != router.host:
        Router.objects.filter(id=router.id).update(host=chosen)
        router.host = chosen
        mark(FLOATING_IP, router.floating_ips.values_list("id", flat=True))
    return chosen
