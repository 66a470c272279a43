"""IPv6 addresses are taken in any form, and kept, shown and found in the one of RFC 5952."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network.models import Network
from tests.network.test_security_groups_api import V2, made
from tests.support.cast import Api, Person

pytestmark = pytest.mark.django_db
FORMS = {
    "2001:DB8:0:1::": "2001:db8:0:1::",
    "2001:0db8:0000:0001:0000:0000:0000:0005": "2001:db8:0:1::5",
    "2001:db8:0:1:0:0:0:0002": "2001:db8:0:1::2",
    "2001:DB8:0:1:1:0:1:1": "2001:db8:0:1:1:0:1:1",
    "2001:DB8:0:1:1:0:0:abCD": "2001:db8:0:1:1::abcd",
}


@pytest.mark.slow
def test_what_is_made(alice: Person, net: Network) -> None:
    api, (prefix, one, two, three, four) = Api(alice), FORMS

    def new(kind: str, /, **values: Any) -> dict[str, Any]:
        return made(api, kind, **values)

    subnet = new(
        "subnet",
        network_id=str(net.id),
        ip_version=6,
        cidr=f"{prefix}/64",
        gateway_ip=two,
        allocation_pools=[{"start": one, "end": four}],
        dns_nameservers=[two],
        host_routes=[{"destination": "2001:DB8:9::/48", "nexthop": one}],
        ipv6_address_mode="dhcpv6-stateful",
        ipv6_ra_mode="dhcpv6-stateful",
    )
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("2001:db8:0:1::/64", FORMS[two])
    assert subnet["allocation_pools"] == [{"start": FORMS[one], "end": FORMS[four]}]
    assert subnet["dns_nameservers"] == [FORMS[two]]
    assert subnet["host_routes"] == [{"destination": "2001:db8:9::/48", "nexthop": FORMS[one]}]
    port = new(
        "port",
        network_id=str(net.id),
        fixed_ips=[{"ip_address": three}],
        allowed_address_pairs=[{"ip_address": "2001:DB8::/64"}, {"ip_address": two}],
    )
    assert [each["ip_address"] for each in port["fixed_ips"]] == [FORMS[three]]
    assert {each["ip_address"] for each in port["allowed_address_pairs"]} == {"2001:db8::/64", FORMS[two]}
    group = new("security_group", name="g")["id"]
    rule = new(
        "security_group_rule",
        security_group_id=group,
        direction="ingress",
        ethertype="IPv6",
        remote_ip_prefix="2001:DB8:0:0::/64",
    )
    assert (rule["remote_ip_prefix"], rule["normalized_cidr"]) == ("2001:db8::/64", "2001:db8::/64")
    assert new("address_group", name="a", addresses=["2001:DB8:0:0::/64"])["addresses"] == ["2001:db8::/64"]
    pool = new("subnetpool", name="p", prefixes=["2001:DB8:0:0::/48"], default_prefixlen=64)
    assert pool["prefixes"] == ["2001:db8::/48"]
    for query in (
        f"ports?fixed_ips=ip_address={three}",
        f"ports?ip_address_substr={three}",
        f"ports?fixed_ips=ip_address_substr={three}",
        f"subnets?cidr={prefix}/64",
        f"subnets?gateway_ip={two}",
        "security-group-rules?remote_ip_prefix=2001:DB8:0:0::/64",
    ):
        assert [len(result) for result in api.get(f"{V2}/{query}").json().values()] == [1], query
