"""An interface that is plugged into a real guest while it runs, used, closed, opened, and taken out again."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, PortRef, SecurityRule
from compute_agent.virt.errors import UnsupportedError
from tests.host.cast import EGRESS, OURS, PING, SSH, THEIRS, Wish, group_of, network
from tests.host.host_process import HostProcess
from tests.host.lab import Interface, Lab, Space, links, until
from tests.host.test_guest import console
from tests.host.woken import wake
from tests.support.guest_image import GuestImage

ADDRESS = "10.21.0.5"
ASK = "udhcpc -i eth1 -n -q -t 5 -T 1 -s /etc/udhcpc.script"


@dataclass
class Stage:
    """One guest with one interface, and the interface that is to come."""

    lab: Lab
    host: HostProcess
    web: InstanceSpec
    interface: PortRef
    key: Path
    near: Interface
    """A guest without the guest, on the network of the interface that is to come."""

    @property
    def inside(self) -> Space:
        return self.lab.inside()

    def ssh(self, command: str) -> str:
        """Run a command in the guest, over its first interface."""
        return self.lab.ssh(self.key, self.web, command)

    def with_interface(self, rules: Sequence[SecurityRule]) -> InstanceSpec:
        """The guest with the second interface, which may do what ``rules`` say."""
        groups = [THEIRS, group_of(rules)]
        return replace(self.web, ports=[*self.web.ports, replace(self.interface, security_group_ids=groups)])

    def plug(self, spec: InstanceSpec) -> None:
        """What a command to attach does; and one to refresh, when the interface is there."""
        self.host.tell(spec)
        self.host.network.plug(spec)
        self.host.network.apply_firewall(spec)
        self.host.driver.attach_interface(spec, spec.ports[1])

    def unplug(self) -> None:
        """What a command to detach does."""
        self.host.driver.detach_interface(self.web, self.interface)
        self.host.network.unplug_interface(self.web, self.interface)

    def pings(self) -> bool:
        return " 0% packet loss" in self.near.space.run("busybox", "ping", "-c1", "-W1", ADDRESS, check=False)


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    public = key.with_suffix(".pub").read_text()
    web = Wish(1, rules=(EGRESS, SSH, PING), groups=(OURS,), image=image.ref, public_key=public).spec()
    wake(host, web)
    other = Wish(2, network=network(21)).spec()
    host.tell(other)
    host.network.plug(other)
    host.network.apply_firewall(other)
    near = Interface(lab.inside(), other.ports[0], f"{lab.settings.netns}-near")
    near.configure()
    yield Stage(lab, host, web, Wish(1, groups=(THEIRS,), network=network(21)).port(), key, near)
    near.remove()
    host.kill()


def interfaces_told_of(stage: Stage) -> int:
    """Count the lines of the guest's kernel about network interfaces that it found on its bus."""
    return int(stage.ssh("dmesg | grep -c '\\[1af4:1000\\]'"))


def test_an_interface_comes_and_goes_while_the_guest_runs(stage: Stage) -> None:
    began = int(stage.ssh("cut -d. -f1 /proc/uptime"))
    before = interfaces_told_of(stage)
    for _ in range(2):
        stage.plug(stage.with_interface([EGRESS, PING]))
    until(lambda: "eth1" in stage.ssh("ls /sys/class/net"), "the second interface in the guest")
    assert stage.ssh("cat /sys/class/net/eth1/address").strip() == stage.interface.mac_address
    assert interfaces_told_of(stage) == before + 1
    stage.ssh(f"ip link set eth1 up; {ASK}")
    assert f"inet {ADDRESS}/24" in stage.ssh("ip -4 addr show dev eth1")
    assert stage.ssh("cat /sys/class/net/eth1/mtu").strip() == "1442"
    assert stage.interface.tap in links(stage.inside)

    # What the groups of this interface allow, and nothing of what the other interface may.
    until(stage.pings, "an answer")
    assert not stage.near.space.connects(ADDRESS, 22, 0.5)
    stage.plug(stage.with_interface([EGRESS, SSH]))
    assert stage.near.space.connects(ADDRESS, 22)
    assert not stage.pings()
    stage.plug(stage.with_interface([EGRESS]))
    assert not stage.near.space.connects(ADDRESS, 22, 0.5)

    for _ in range(2):
        stage.unplug()
    until(lambda: "eth1" not in stage.ssh("ls /sys/class/net"), "the end of the second interface")
    assert int(stage.ssh("cut -d. -f1 /proc/uptime")) >= began
    assert stage.interface.tap not in links(stage.inside)
    ruleset = stage.inside.run("nft", "list", "ruleset")
    assert (stage.interface.tap in ruleset, ADDRESS in ruleset) == (False, False)


@pytest.mark.deep
def test_a_paused_guest_takes_interfaces_and_gives_none(stage: Stage) -> None:
    stage.host.driver.pause(stage.web.uuid)
    stage.plug(stage.with_interface([EGRESS, PING]))
    with pytest.raises(UnsupportedError, match="paused guest cannot release"):
        stage.host.driver.detach_interface(stage.web, stage.interface)
    stage.host.driver.unpause(stage.web.uuid)
    until(lambda: "eth1" in stage.ssh("ls /sys/class/net"), "the second interface in the guest")
    stage.unplug()
    until(lambda: "eth1" not in stage.ssh("ls /sys/class/net"), "the end of the second interface")


@pytest.mark.deep
def test_an_interface_of_a_stopped_guest_is_there_when_it_starts(stage: Stage) -> None:
    driver, uuid = stage.host.driver, stage.web.uuid
    driver.stop(uuid, 20.0)
    stage.plug(stage.with_interface([EGRESS, PING]))
    before = console(stage.host, stage.web).count("login:")
    driver.start(uuid)
    until(lambda: console(stage.host, stage.web).count("login:") > before, "another login prompt")
    until(stage.pings, "the address that the guest has asked for")
    stage.unplug()
    driver.stop(uuid, 0.0)
    (path,) = stage.lab.settings.state_dir.rglob(f"etc/qemu/novella-{uuid}.xml")
    addresses = [mac.get("address") for mac in ET.parse(path).findall("./devices/interface/mac")]  # noqa: S314
    assert addresses == [stage.web.ports[0].mac_address]
