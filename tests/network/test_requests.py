"""What a launch may ask for: networks, ports, addresses and groups, checked before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.network import selectors, services
from provisioning.network.errors import AmbiguousNetworkError
from provisioning.network.models import Network, RbacPolicy, SecurityGroup
from tests.support.cast import Person
from tests.support.tables import each_row


def test_the_only_network_is_chosen(alice: Person, net: Network) -> None:
    for requested in (None, "auto"):
        result = selectors.requested_networks_for(alice.context, requested)
        assert result == [{"network_id": str(net.id), "port_id": None, "fixed_ip": None}]
    assert selectors.requested_networks_for(alice.context, "none") == []


def test_a_choice_between_two_is_asked_for(alice: Person, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")
    services.create_subnet(other, "10.30.0.0/24")
    with pytest.raises(AmbiguousNetworkError, match="Multiple possible networks found"):
        selectors.requested_networks_for(alice.context, None)


def test_without_a_network_auto_is_refused_and_silence_is_not(charlie: Person, net: Network) -> None:
    assert selectors.requested_networks_for(charlie.context, None) == []
    with pytest.raises(InvalidInputError, match="No network is available"):
        selectors.requested_networks_for(charlie.context, "auto")


def test_a_network_without_subnet_or_of_another_project_is_not_usable(
    alice: Person, charlie: Person, net: Network
) -> None:
    empty = services.create_network(charlie.project_id, "empty")
    assert list(selectors.usable_networks_for(charlie.context)) == []
    for network, why in ((empty, "requires a subnet"), (net, "could not be found")):
        with pytest.raises(InvalidInputError, match=f"Network {network.id} {why}") as caught:
            selectors.requested_networks_for(charlie.context, [{"network_id": str(network.id)}])
        assert caught.value.field == "networks"
    with pytest.raises(InvalidInputError, match=r"Network \.\./\.\./etc could not be found"):
        selectors.requested_networks_for(charlie.context, [{"network_id": "../../etc"}])


def test_an_operator_names_another_projects_network_and_is_given_none(operator: Person, net: Network) -> None:
    requested: list[Mapping[str, str | None]] = [{"network_id": str(net.id)}]
    [result] = selectors.requested_networks_for(operator.context, requested)
    assert (result["network_id"], result["anywhere"]) == (str(net.id), "yes")
    assert selectors.requested_networks_for(operator.context, None) == []
    with pytest.raises(InvalidInputError, match="could not be found"):
        services.allocate(uuid.uuid4(), operator.project_id, requested, [], "h1", "nova")
    [port] = services.allocate(uuid.uuid4(), operator.project_id, [result], [], "h1", "nova")
    assert (port.network_id, port.project_id) == (net.id, operator.project_id)


def test_addresses_and_ports_are_checked(alice: Person, charlie: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net, fixed_ips=[{"ip_address": "10.20.0.9"}])
    ask = selectors.requested_networks_for
    assert ask(alice.context, [{"port_id": str(port.id)}])[0]["port_id"] == str(port.id)
    assert ask(alice.context, [{"network_id": str(net.id), "fixed_ip": "10.20.0.10"}])[0]["fixed_ip"] == "10.20.0.10"
    refusals = [
        (alice, [{"network_id": str(net.id), "fixed_ip": "10.20.0.9"}], "is already in use"),
        (alice, [{"network_id": str(net.id), "fixed_ip": "10.20.0.1"}], "is reserved"),
        (alice, [{"port_id": str(port.id)}, {"port_id": str(port.id)}], "requested twice"),
        (alice, [{"network_id": str(net.id), "fixed_ip": "10.20.0.11"}] * 2, "requested twice"),
        (alice, [{"port_id": str(uuid.uuid4())}], "could not be found"),
        (charlie, [{"port_id": str(port.id)}], "could not be found"),
    ]
    for person, requested, sentence in refusals:
        with pytest.raises(InvalidInputError, match=sentence):
            ask(person.context, requested)
    with pytest.raises(InvalidInputError, match="for more than one instance"):
        ask(alice.context, [{"port_id": str(port.id)}], count=2)
    services.allocate(uuid.uuid4(), alice.project_id, [{"port_id": str(port.id)}], [], "host", "nova")
    with pytest.raises(InvalidInputError, match="is still in use"):
        ask(alice.context, [{"port_id": str(port.id)}])


def test_security_groups_by_name_and_id(alice: Person, charlie: Person) -> None:
    ask = selectors.security_group_ids_for
    assert ask(alice.context, None) == ask(alice.context, ["default"]) == []
    web = SecurityGroup.objects.create(project_id=alice.project_id, name="web")
    assert ask(alice.context, ["web", str(web.id)]) == [str(web.id)]
    with pytest.raises(InvalidInputError, match="Security group web not found"):
        ask(charlie.context, ["web"])
    SecurityGroup.objects.create(project_id=alice.project_id, name="web")
    with pytest.raises(InvalidInputError, match="Multiple security groups found matching 'web'"):
        ask(alice.context, ["web"])


def test_interfaces_as_the_host_gets_them(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    group = services.ensure_default_security_group(alice.project_id)
    services.allow_ingress(group, "tcp", 22)
    [port] = services.allocate(
        instance, alice.project_id, [{"network_id": str(net.id), "fixed_ip": None}], [], "host", "nova"
    )
    [ref] = selectors.port_refs(instance)
    assert (ref.id, ref.mac_address, ref.tap) == (str(port.id), port.mac_address, f"tap{port.id}"[:14])
    assert (ref.network.bridge, ref.network.cidr, ref.network.gateway) == (net.bridge, "10.20.0.0/24", "10.20.0.1")
    assert len(ref.network.bridge) <= 15
    [fixed] = ref.fixed_ips
    assert (fixed.address, fixed.prefix_length, fixed.gateway, fixed.dns_nameservers) == (
        "10.20.0.2",
        24,
        "10.20.0.1",
        ["9.9.9.9"],
    )
    assert ref.security_group_ids == [str(group.id)]
    assert selectors.addresses_of([instance])[instance][0].address == "10.20.0.2"
    assert selectors.security_group_names_of([instance]) == {instance: ["default"]}


@each_row(
    ("cidr", "more", "field"),
    [
        ("10.30.0.0", {}, "cidr"),
        ("10.30.0.0/31", {}, "cidr"),
        ("10.30.0.0/33", {}, "cidr"),
        ("fd00::/63", {}, "cidr"),
        ("fd00::/127", {}, "cidr"),
        ("10.20.0.128/25", {}, "cidr"),
        ("10.30.0.0/24", {"gateway_ip": "10.30.0.0"}, "gateway_ip"),
        ("10.30.0.0/24", {"gateway_ip": "10.30.0.255"}, "gateway_ip"),
        ("10.30.0.0/24", {"dns_nameservers": ["nine"]}, "dns_nameservers"),
        ("10.30.0.0/24", {"allocation_pools": [{"start": "10.30.0.1", "end": "10.30.0.9"}]}, "gateway_ip"),
        ("10.30.0.0/24", {"allocation_pools": [{"start": "10.30.0.9", "end": "10.30.0.8"}]}, "allocation_pools"),
        ("10.30.0.0/24", {"allocation_pools": [{"start": "10.30.0.9", "end": "10.30.1.9"}]}, "allocation_pools"),
    ],
)
def test_a_wrong_subnet_is_refused(alice: Person, net: Network, cidr: str, more: dict[str, object], field: str) -> None:
    with pytest.raises((InvalidInputError, ConflictError)) as caught:
        services.create_subnet(net, cidr, **more)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert net.subnets.count() == 1


@pytest.mark.parametrize("by_name", [False, True], ids=["with everybody", "with one project"])
def test_on_a_shared_network_a_guests_name_is_in_its_projects_domain(
    alice: Person, charlie: Person, by_name: bool
) -> None:
    shared = services.create_network(alice.project_id, "others are here", shared=not by_name)
    services.create_subnet(shared, "10.40.0.0/24")
    if by_name:
        services.create_rbac_policy(alice.project_id, "network", shared, RbacPolicy.SHARED, charlie.project_id.hex)
    assert domain(alice, shared) == f"{alice.project_id.hex[:12]}.novalocal"
    assert domain(charlie, shared) == f"{charlie.project_id.hex[:12]}.novalocal"


@pytest.mark.both_databases("sql")
def test_a_network_that_is_shared_with_its_owner_or_by_another_kind_of_policy_is_the_owners_alone(
    alice: Person, net: Network
) -> None:
    services.create_rbac_policy(alice.project_id, "network", net, RbacPolicy.SHARED, alice.project_id.hex)
    services.create_rbac_policy(alice.project_id, "network", net, RbacPolicy.EXTERNAL, RbacPolicy.EVERYBODY)
    assert domain(alice, net) == ""


def domain(person: Person, network: Network) -> str:
    """Return the domain that the host of a new guest of the person's is told for it."""
    instance, requested = uuid.uuid4(), {"network_id": str(network.id), "fixed_ip": None}
    services.allocate(instance, person.project_id, [requested], [], "host-1", "nova")
    return selectors.port_refs(instance)[0].dns_domain
