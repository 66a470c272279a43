"""The address that a host reports is recorded only where it can be the host's own."""

from __future__ import annotations

import ipaddress

import pytest
from msgspec.structs import replace
from pytest_django import Settings

from provisioning.hosts import audits
from provisioning.hosts.models import Host
from tests.host.lab import NOBODY
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db

LINK = "192.0.2.7"
UNUSABLE = (
    "nonsense", "not an address; x", "192.0.2.7/24", "192.0.2.7 192.0.2.8", "300.1.1.1", "192.0.2", "0xc0000207",
    "fe80::1%eth0", "fe80::1", "169.254.1.1", "224.0.0.1", "ff02::1", NOBODY, "0.1.2.3", "::", "255.255.255.255",
    "240.0.0.1", "::ffff:192.0.2.7", "127.0.0.1", "::1", "192.0.2.7\n", "\u0661.2.3.4", "x" * 5000,
)  # fmt: skip


def reports(cloud: Cloud, name: str, address: str, link: str = LINK) -> Host:
    """Let a host report an address over a link; a new one has reported none before."""
    if name not in cloud.agents:
        cloud.add_host(name)
        Host.objects.filter(name=name).update(host_ip="")
    agent = cloud.agents[name]
    audits.audit(agent.host.id, replace(agent.audit(1, 1, 1), host_ip=address, warnings=[]), link)
    return Host.objects.get(id=agent.host.id)


@pytest.mark.doctor_finds("host_warnings")
@pytest.mark.parametrize("address", UNUSABLE)
def test_an_unusable_address_is_refused_with_a_warning_and_the_old_one_stays(cloud: Cloud, address: str) -> None:
    host = reports(cloud, "one", address)
    assert (host.host_ip, len(host.warnings)) == ("", 1)
    assert reports(cloud, "one", LINK).warnings == []
    host = reports(cloud, "one", address)
    assert (host.host_ip, len(host.warnings)) == (LINK, 1)
    assert all(text.isprintable() for text in host.warnings)


def test_a_first_address_is_accepted_and_another_one_is_the_links(cloud: Cloud) -> None:
    assert reports(cloud, "one", "10.9.0.1").host_ip == "10.9.0.1"
    assert reports(cloud, "one", "10.9.0.2").host_ip == "10.9.0.1"
    host = reports(cloud, "one", "10.9.0.2", "10.9.0.2")
    assert (host.host_ip, host.warnings) == ("10.9.0.2", [])


def test_no_two_hosts_have_one_address(cloud: Cloud) -> None:
    reports(cloud, "one", "10.9.0.1")
    for link in (LINK, "10.9.0.1"):
        host = reports(cloud, "two", "10.9.0.1", link)
        assert (host.host_ip, len(host.warnings)) == ("", 1)
    assert reports(cloud, "two", "10.9.0.2").host_ip == "10.9.0.2"


def test_all_hosts_have_addresses_of_one_ip_version(cloud: Cloud) -> None:
    reports(cloud, "one", "2001:db8::1")
    assert reports(cloud, "two", "10.9.0.2").host_ip == ""
    assert reports(cloud, "two", "2001:DB8:0::2").host_ip == "2001:db8::2"


def test_hosts_on_the_portals_machine_share_its_loopback_address(cloud: Cloud) -> None:
    for name in ("one", "two"):
        host = reports(cloud, name, "127.0.0.1", "127.0.0.1")
        assert (host.host_ip, host.warnings) == ("127.0.0.1", [])
    assert reports(cloud, "three", "10.9.0.2").host_ip == "10.9.0.2"


@pytest.mark.doctor_finds("host_warnings")
def test_an_operators_networks_decide(cloud: Cloud, settings: Settings) -> None:
    settings.HOST_NETWORKS = [ipaddress.ip_network("10.9.0.0/24")]
    assert reports(cloud, "one", LINK).host_ip == ""
    assert reports(cloud, "one", "10.9.0.1").host_ip == "10.9.0.1"
    assert reports(cloud, "one", "10.9.0.2").host_ip == "10.9.0.2"
    assert reports(cloud, "one", LINK, LINK).host_ip == "10.9.0.2"


def test_an_agent_without_an_address_changes_nothing(cloud: Cloud) -> None:
    reports(cloud, "one", "10.9.0.1")
    host = reports(cloud, "one", "")
    assert (host.host_ip, host.warnings) == ("10.9.0.1", [])
