"""The Networking API as the unmodified ``openstack`` command line and SDK use it."""

from __future__ import annotations

import pytest
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.command_line import batch, refused
from tests.support.one_machine import PATIENCE, OneMachine

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


def test_networks_and_subnets(cloud: OneMachine) -> None:
    network, subnet, six = batch(
        cloud,
        "network create --description For-clients --mtu 1400 --tag blue --disable --availability-zone-hint nova"
        " cli-net",
        "subnet create --network cli-net --subnet-range 10.77.0.0/24 --dns-nameserver 9.9.9.9 --gateway 10.77.0.9"
        " --allocation-pool start=10.77.0.20,end=10.77.0.99 --host-route destination=10.1.0.0/16,gateway=10.77.0.8"
        " cli-subnet",
        "subnet create --network cli-net --ip-version 6 --subnet-range fd00:77::/64 --ipv6-ra-mode slaac"
        " --ipv6-address-mode slaac cli-six",
    )
    assert (network["mtu"], network["admin_state_up"], network["tags"]) == (1400, False, ["blue"])
    assert network["availability_zone_hints"] == ["nova"]
    assert (subnet["gateway_ip"], subnet["dns_nameservers"]) == ("10.77.0.9", ["9.9.9.9"])
    assert subnet["allocation_pools"] == [{"start": "10.77.0.20", "end": "10.77.0.99"}]
    assert (six["ip_version"], six["ipv6_ra_mode"]) == (6, "slaac")
    batch(
        cloud,
        "network set --name cli-other --enable --no-tag --tag green cli-net",
        "subnet set --name cli-changed --no-dhcp --gateway none --dns-nameserver 1.1.1.1 cli-subnet",
        "network unset --tag green cli-other",
        "subnet unset --dns-nameserver 9.9.9.9 cli-changed",
    )
    shown, changed, named = batch(
        cloud, "network show cli-other", "subnet show cli-changed", "subnet list --network cli-other --ip-version 4"
    )
    assert (shown["admin_state_up"], shown["tags"], len(shown["subnets"])) == (True, [], 2)
    assert (changed["enable_dhcp"], changed["gateway_ip"], changed["dns_nameservers"]) == (False, None, ["1.1.1.1"])
    assert [row["Name"] for row in named] == ["cli-changed"]
    assert "overlaps with another subnet" in refused(
        cloud, "subnet create --network cli-other --subnet-range 10.77.0.0/25 x"
    )
    own, long, outer = batch(
        cloud,
        "network list --internal --name cli-other --enable --no-share --status ACTIVE --provider-network-type vxlan",
        "network list --long --any-tags blue,red --name cli-other",
        "network list --external",
    )
    assert [row["Name"] for row in own] == ["cli-other"]
    assert (long, [row["Name"] for row in outer]) == ([], ["public"])
    batch(cloud, "subnet delete cli-changed cli-six", "network delete cli-other")


def test_provider_networks_of_operators(cloud: OneMachine) -> None:
    (made,) = batch(
        cloud,
        "network create --external --provider-network-type flat --provider-physical-network cli-wire cli-outside",
    )
    assert made["provider:network_type"] == "flat"
    assert (made["router:external"], made["is_default"]) == (True, False)
    assert "already exists" in refused(cloud, "network set --external --default cli-outside")
    batch(cloud, "network set --external --no-default cli-outside", "network delete cli-outside")


def test_subnet_pools_and_address_scopes(cloud: OneMachine) -> None:
    scope, pool = batch(
        cloud,
        "address scope create --ip-version 4 cli-scope",
        "subnet pool create --pool-prefix 10.64.0.0/16 --default-prefix-length 26 --min-prefix-length 20"
        " --max-prefix-length 28 --address-scope cli-scope --tag blue cli-pool",
    )
    assert (scope["ip_version"], pool["default_prefixlen"], pool["tags"]) == (4, 26, ["blue"])
    assert pool["address_scope_id"] == scope["id"]
    network, subnet, pools = batch(
        cloud,
        "network create cli-pooled",
        "subnet create --network cli-pooled --subnet-pool cli-pool --prefix-length 24 cli-taken",
        "subnet pool list --address-scope cli-scope",
    )
    assert (subnet["cidr"], subnet["subnetpool_id"]) == ("10.64.0.0/24", pool["id"])
    assert [row["Name"] for row in pools] == ["cli-pool"]
    batch(
        cloud,
        "subnet pool set --pool-prefix 10.65.0.0/16 --no-address-scope --default-quota 2048 --tag red cli-pool",
        "subnet pool unset --tag blue cli-pool",
    )
    pool, scope, scopes = batch(
        cloud, "subnet pool show cli-pool", "address scope show cli-scope", "address scope list --ip-version 4"
    )
    assert (pool["prefixes"], pool["tags"]) == (["10.64.0.0/15"], ["red"])
    assert (pool["address_scope_id"], pool["default_quota"]) == (None, 2048)
    assert scope["id"] in {row["ID"] for row in scopes}
    batch(
        cloud,
        "network delete cli-pooled",
        "subnet pool delete cli-pool",
        "address scope set --name cli-renamed cli-scope",
        "address scope delete cli-renamed",
    )
    assert network["id"]


def test_ports(cloud: OneMachine) -> None:
    batch(
        cloud,
        "network create cli-wired",
        "subnet create --network cli-wired --subnet-range 10.78.0.0/24 cli-wired-subnet",
        "security group create cli-group",
    )
    (port,) = batch(
        cloud,
        "port create --network cli-wired --fixed-ip subnet=cli-wired-subnet,ip-address=10.78.0.50"
        " --fixed-ip subnet=cli-wired-subnet --mac-address 02:00:00:00:78:01 --security-group cli-group"
        " --allowed-address ip-address=10.78.0.200 --extra-dhcp-option name=mtu,value=1400 --dns-name web"
        " --description d --tag blue --disable cli-port",
    )
    addresses = {each["ip_address"] for each in port["fixed_ips"]}
    assert (port["mac_address"], port["admin_state_up"], port["dns_name"]) == ("02:00:00:00:78:01", False, "web")
    assert (len(addresses), "10.78.0.50" in addresses, port["tags"]) == (2, True, ["blue"])
    assert [each["ip_address"] for each in port["allowed_address_pairs"]] == ["10.78.0.200"]
    batch(
        cloud,
        "port set --name cli-set --enable --fixed-ip ip-address=10.78.0.60 --allowed-address ip-address=10.78.1.0/24"
        " --device box --device-owner mine cli-port",
        "port unset --fixed-ip subnet=cli-wired-subnet,ip-address=10.78.0.50 --security-group cli-group"
        " --allowed-address ip-address=10.78.0.200,mac-address=02:00:00:00:78:01 cli-set",
    )
    shown, named = batch(
        cloud,
        "port show cli-set",
        "port list --network cli-wired --fixed-ip ip-substring=0.60 --mac-address 02:00:00:00:78:01",
    )
    assert "10.78.0.50" not in {each["ip_address"] for each in shown["fixed_ips"]}
    assert (shown["security_group_ids"], shown["device_id"], shown["admin_state_up"]) == ([], "box", True)
    assert [each["ip_address"] for each in shown["allowed_address_pairs"]] == ["10.78.1.0/24"]
    assert [row["Name"] for row in named] == ["cli-set"]
    batch(cloud, "port set --disable-port-security --no-allowed-address --no-security-group cli-set")
    assert "in use" in refused(cloud, "port create --network cli-wired --mac-address 02:00:00:00:78:01 x")
    batch(cloud, "port delete cli-set", "network delete cli-wired", "security group delete cli-group")


def test_routers_and_floating_ips(cloud: OneMachine) -> None:
    router, *_ = batch(
        cloud,
        "router create --description d --tag blue --availability-zone-hint nova cli-router",
        "network create cli-inner",
        "subnet create --network cli-inner --subnet-range 10.79.0.0/24 cli-inner-subnet",
        "port create --network cli-inner --fixed-ip ip-address=10.79.0.50 cli-inner-port",
        "port create --network cli-inner --fixed-ip ip-address=10.79.0.60 cli-other-port",
    )
    assert (router["admin_state_up"], router["tags"]) == (True, ["blue"])
    assert router["availability_zone_hints"] == ["nova"]
    batch(
        cloud,
        "router set --name cli-routed --external-gateway public --enable-snat cli-router",
        "router add subnet cli-routed cli-inner-subnet",
        "router add route --route destination=10.5.0.0/24,gateway=10.79.0.9 cli-routed",
    )
    shown, listed = batch(cloud, "router show cli-routed", "router list --name cli-routed")
    assert shown["external_gateway_info"]["enable_snat"] is True
    assert [each["destination"] for each in shown["routes"]] == ["10.5.0.0/24"]
    assert [each["ip_address"] for each in shown["interfaces_info"]] == ["10.79.0.1"]
    assert [(row["Status"], row["State"]) for row in listed] == [("ACTIVE", True)]
    floating, port, other = batch(
        cloud,
        "floating ip create --description d --tag blue public",
        "port show cli-inner-port",
        "port show cli-other-port",
    )
    address = floating["floating_ip_address"]
    batch(cloud, f"floating ip set --port cli-inner-port {address}")
    led, named = batch(cloud, f"floating ip show {address}", "floating ip list --port cli-inner-port")
    assert (led["fixed_ip_address"], led["port_id"]) == ("10.79.0.50", port["id"])
    assert [row["Floating IP Address"] for row in named] == [address]
    assert "still has ports" in refused(cloud, "router delete cli-routed")
    (forwarding,) = batch(
        cloud,
        f"floating ip unset --port {address}",
        "floating ip port forwarding create --internal-ip-address 10.79.0.60 --internal-protocol-port 80"
        f" --external-protocol-port 8080 --protocol tcp --port cli-other-port --description d {address} -f json",
    )
    assert (forwarding["external_port"], forwarding["internal_port_id"]) == (8080, other["id"])
    batch(
        cloud,
        f"floating ip port forwarding set --internal-protocol-port 81 --port cli-other-port"
        f" --internal-ip-address 10.79.0.60 --protocol tcp --external-protocol-port 8080 {address} {forwarding['id']}",
    )
    (rows,) = batch(cloud, f"floating ip port forwarding list --protocol tcp {address} -f json")
    (one,) = batch(cloud, f"floating ip port forwarding show {address} {forwarding['id']} -f json")
    assert (len(rows), one["internal_port"]) == (1, 81)
    batch(
        cloud,
        f"floating ip port forwarding delete {address} {forwarding['id']}",
        f"floating ip delete {address}",
        "router remove route --route destination=10.5.0.0/24,gateway=10.79.0.9 cli-routed",
        "router unset --external-gateway --tag blue cli-routed",
        "router remove subnet cli-routed cli-inner-subnet",
        "port create --network cli-inner --fixed-ip ip-address=10.79.0.70 cli-way",
        "router add port cli-routed cli-way",
    )
    (shown,) = batch(cloud, "router show cli-routed")
    assert [each["ip_address"] for each in shown["interfaces_info"]] == ["10.79.0.70"]
    batch(
        cloud,
        "router remove port cli-routed cli-way",
        "router delete cli-routed",
        "port delete cli-inner-port cli-other-port",
        "network delete cli-inner",
    )


def test_security_groups_and_sharing(cloud: OneMachine) -> None:
    group, addresses = batch(
        cloud,
        "security group create --description d --stateless --tag blue cli-web",
        "address group create --address 192.0.2.0/24 cli-office",
    )
    assert (group["stateful"], len(group["rules"]), addresses["addresses"]) == (False, 2, ["192.0.2.0/24"])
    rule, office, ping = batch(
        cloud,
        "security group rule create --protocol tcp --dst-port 80:90 --remote-ip 10.0.0.0/8 cli-web",
        "security group rule create --remote-address-group cli-office --protocol udp --dst-port 53 cli-web",
        "security group rule create --protocol icmp --icmp-type 8 --egress cli-web",
    )
    assert (rule["port_range_min"], rule["port_range_max"], ping["direction"]) == (80, 90, "egress")
    assert office["remote_address_group_id"] == addresses["id"]
    rows, first = batch(
        cloud, "security group rule list --protocol tcp cli-web", f"security group rule show {rule['id']}"
    )
    assert [row["ID"] for row in rows] == [first["id"]] == [rule["id"]]
    batch(
        cloud,
        "address group set --address 198.51.100.0/24 --name cli-offices cli-office",
        "address group unset --address 192.0.2.0/24 cli-offices",
        "security group set --name cli-site --description e --tag red cli-web",
        "security group unset --tag blue cli-site",
        f"security group rule delete {rule['id']} {office['id']}",
    )
    changed, offices, group, groups = batch(
        cloud,
        "address group show cli-offices",
        "address group list --name cli-offices",
        "security group show cli-site",
        "security group list --tags red",
    )
    assert changed["addresses"] == ["198.51.100.0/24"]
    assert [row["ID"] for row in offices] == [changed["id"]]
    assert (group["description"], group["tags"], len(group["rules"])) == ("e", ["red"], 3)
    assert [row["ID"] for row in groups] == [group["id"]]
    default, every = batch(
        cloud,
        "default security group rule create --protocol tcp --dst-port 22 --ingress --for-custom-sg -f json",
        "default security group rule list -f json",
    )
    assert default["id"] in {row["ID"] for row in every}
    made, shown = batch(
        cloud, "security group create cli-later", f"default security group rule show {default['id']} -f json"
    )
    assert 22 in {each["port_range_min"] for each in made["rules"]}
    assert shown["used_in_non_default_sg"] is True
    (shared,) = batch(
        cloud, "network rbac create --type security_group --action access_as_shared --target-project demo cli-later"
    )
    listed, one = batch(cloud, "network rbac list --type security_group", f"network rbac show {shared['id']}")
    assert [row["ID"] for row in listed] == [one["id"]]
    batch(
        cloud,
        f"network rbac set --target-project admin {shared['id']}",
        f"network rbac delete {shared['id']}",
        f"default security group rule delete {default['id']}",
        "security group delete cli-later cli-site",
        "address group delete cli-offices",
    )


def test_what_operators_look_at(cloud: OneMachine) -> None:
    agents, providers, zones, counts = batch(
        cloud,
        "network agent list --agent-type l3",
        "network service provider list",
        "availability zone list --network",
        "ip availability list",
    )
    assert [(row["Agent Type"], row["Alive"]) for row in agents] == [("L3 agent", True)] * 2
    assert [row["Service Type"] for row in providers] == ["L3_ROUTER_NAT"]
    assert {row["Zone Name"] for row in zones} == {"nova"}
    assert {"demo-net", "public"} <= {row["Network Name"] for row in counts}
    agent, count, extensions = batch(
        cloud,
        f"network agent show {agents[0]['ID']}",
        "ip availability show demo-net",
        "extension list --network",
    )
    assert "not allowed" in refused(cloud, f"network agent set --disable {agents[0]['ID']}")
    assert "not allowed" in refused(cloud, f"network agent delete {agents[0]['ID']}")
    assert (agent["binary"], count["subnet_ip_availability"][0]["ip_version"]) == ("neutron-l3-agent", 4)
    assert {"agent", "auto-allocated-topology", "security-groups-default-rules"} <= {row["Alias"] for row in extensions}


def test_quotas_of_subnet_pools_and_policies(cloud: OneMachine) -> None:
    batch(cloud, "quota set --subnetpools 7 --rbac-policies 8 demo")
    (shown,) = batch(cloud, "quota show --network demo")
    limits = {row["Resource"]: row["Limit"] for row in shown}
    assert (limits["subnet_pools"], limits["rbac_policies"]) == (7, 8)
    batch(cloud, "quota delete --network demo")


def test_a_network_and_a_router_in_one_go(cloud: OneMachine) -> None:
    demo = {"OS_CLOUD": "demo", "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")}
    possible, made = batch(
        cloud,
        "network auto allocated topology create --check-resources -f json",
        "network auto allocated topology create -f json",
        **demo,
    )
    assert [*possible] == ["dry_run"]
    again, network = batch(
        cloud,
        "network auto allocated topology create --or-show -f json",
        f"network show {made['id']}",
        **demo,
    )
    assert (again["id"], network["name"]) == (made["id"], "auto_allocated_network")
    batch(cloud, "network auto allocated topology delete", **demo)
    assert "No Network found" in refused(cloud, f"network show {made['id']}", **demo)


def test_a_member_shares_a_network_with_another_project_by_its_id(cloud: OneMachine) -> None:
    demo = {"OS_CLOUD": "demo", "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")}
    (other,) = batch(cloud, "project create cli-other-project")
    _, policy = batch(
        cloud,
        "network create cli-given",
        f"network rbac create --type network --action access_as_shared --target-project {other['id']} cli-given",
        **demo,
    )
    assert policy["target_project_id"] == other["id"]
    batch(cloud, f"network rbac delete {policy['id']}", "network delete cli-given", **demo)
    batch(cloud, f"project delete {other['id']}")


def test_a_server_with_an_automatic_floating_ip(cloud: OneMachine) -> None:
    """The SDK finds the external network and the router by itself, and takes the floating IP away with the server."""
    config = OpenStackConfig(config_files=[str(cloud.data / "clouds.yaml")])
    with Connection(config=config.get_one("demo")) as sdk:
        server = sdk.create_server(
            "auto",
            image="novella-guest",
            flavor="m1.nano",
            network="demo-net",
            auto_ip=True,
            wait=True,
            timeout=int(PATIENCE),
        )
        address = sdk.get_server(server.id).public_v4  # it is new unless an earlier test has left a free one
        [floating] = sdk.network.ips(floating_ip_address=address)
        kinds = {each["addr"]: each["OS-EXT-IPS:type"] for each in server.addresses["demo-net"]}
        assert kinds[floating.floating_ip_address] == "floating"
        assert kinds[floating.fixed_ip_address] == "fixed"
        assert sdk.delete_server(server.id, wait=True, timeout=int(PATIENCE), delete_ips=True)
        assert list(sdk.network.ips(floating_ip_address=address)) == []
