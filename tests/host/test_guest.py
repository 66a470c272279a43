"""A real guest from image to login, what happens when its agent dies, and what is left when it is gone."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.network.kernel import namespace
from compute_agent.virt.errors import HostError, InstanceNotFoundError
from tests.host.cast import EGRESS, GROUP, OURS, PING, SSH, Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Interface, Lab, Space, links, processes_naming, until
from tests.host.woken import prepare, wake
from tests.support.guest_image import GuestImage

USER_DATA = base64.b64encode(b"#!/bin/sh\necho user data says $(hostname) >/root/proof\n").decode()


def launch(host: HostProcess, spec: InstanceSpec) -> None:
    prepare(host, spec)
    host.driver.start(spec.uuid)
    assert host.driver.wait_for_boot(spec.uuid, PATIENCE) == PowerState.RUNNING


def console(host: HostProcess, spec: InstanceSpec) -> str:
    return host.driver.console_output(spec.uuid, 0, 1_000_000).data.decode(errors="replace")


@dataclass
class Stage:
    """Two guests on one host: ``web`` lets everybody in by SSH, ``back`` only its neighbours."""

    lab: Lab
    host: HostProcess
    web: InstanceSpec
    back: InstanceSpec
    key: Path

    @property
    def inside(self) -> Space:
        return self.lab.inside()

    def ssh(self, command: str, *, check: bool = True) -> str:
        """Run a command in ``web``, from where its network is served."""
        return self.lab.ssh(self.key, self.web, command, check=check)


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    public = key.with_suffix(".pub").read_text()
    web = Wish(
        2, rules=(EGRESS, SSH, PING), groups=(OURS,), image=image.ref, public_key=public, user_data=USER_DATA
    ).spec()
    back = Wish(1, rules=(EGRESS, GROUP), groups=(OURS,), image=image.ref, public_key=public).spec()
    launch(host, web)
    wake(host, back)
    until(lambda: "login:" in console(host, web), "the guest's login prompt")
    yield Stage(lab, host, web, back, key)
    host.kill()


def test_the_guest_prints_its_name_and_address(stage: Stage) -> None:
    assert "=== Novella guest: web-2 10.20.0.6/24 up " in console(stage.host, stage.web)


def test_the_injected_key_opens_the_guest(stage: Stage) -> None:
    assert stage.ssh("ping -c1 -W60 127.0.0.1 >/dev/null && sudo -n lsblk -dno NAME /dev/vda") == "vda\n"
    output = stage.ssh("hostname; cat /root/proof; cat /sys/class/net/eth0/mtu; cat /etc/shadow")
    assert output.splitlines() == ["web-2", "user data says web-2", "1442", "root:*:19000:0:99999:7:::"]


def test_the_root_disk_has_the_flavors_size(stage: Stage) -> None:
    assert int(stage.ssh("df -m / | awk 'NR == 2 { print $2 }'")) > 900


def test_qemu_finds_each_page_that_the_emulated_guest_writes(stage: Stage) -> None:
    """QEMU 7.2 misses pages of a memory whose number of pages is divisible by 64."""
    size = stage.host.monitor.ask(stage.web.uuid, "query-memory-size-summary")["base-memory"]
    assert size % (64 * 4096)


def test_guests_know_each_other_by_name(stage: Stage) -> None:
    assert "10.20.0.5" in stage.ssh("nslookup web-1.novalocal")


def test_security_rules_hold_for_real_guests(stage: Stage) -> None:
    with plugged(stage, Wish(3)) as neighbour:
        assert neighbour.space.connects("10.20.0.6", 22)
        assert not neighbour.space.connects("10.20.0.5", 22, 0.5)
    assert "SSH-2.0" in stage.ssh("nc -w 60 10.20.0.5 22 </dev/null | head -n1 | cut -c1-7")


@contextmanager
def plugged(stage: Stage, wish: Wish) -> Iterator[Interface]:
    """An interface beside those of the guests, without a guest."""
    spec = wish.spec()
    stage.host.tell(spec)
    stage.host.network.plug(spec)
    stage.host.network.apply_firewall(spec)
    interface = Interface(stage.inside, spec.ports[0], f"{stage.lab.settings.netns}-neighbour")
    interface.configure()
    yield interface
    interface.remove()
    stage.host.network.unplug(spec.uuid)


def test_a_guest_that_lies_is_not_heard(stage: Stage) -> None:
    lie = "ip addr add 10.20.0.99/24 dev eth0; ping -c1 -W1 -I 10.20.0.99 10.20.0.3 >/dev/null; echo $?"
    assert (
        stage.ssh(lie + "; ip addr del 10.20.0.99/24 dev eth0; ping -c1 -W60 10.20.0.3 >/dev/null; echo $?") == "1\n0\n"
    )
    # A new hardware address cuts the connection too: the guest judges alone and writes down what it found.
    script = (
        "own=$(cat /sys/class/net/eth0/address); ip link set eth0 address fa:16:3e:66:66:66; "
        "ping -c1 -W1 10.20.0.3 >/dev/null; echo lied $? >/root/verdict; "
        "ip link set eth0 address $own; ping -c1 -W60 10.20.0.3 >/dev/null; echo told the truth $? >>/root/verdict"
    )
    stage.ssh(f"setsid sh -c '{script}' >/dev/null 2>&1 </dev/null &")
    verdict = until(lambda: written(stage, "/root/verdict", lines=2), "the guest's verdict")
    assert verdict == "lied 1\ntold the truth 0\n"


def written(stage: Stage, path: str, lines: int) -> str | None:
    text = stage.ssh(f"cat {path}", check=False)
    return text if text.count("\n") == lines else None


def test_guests_outlive_an_agent_that_is_killed(stage: Stage) -> None:
    before = stage.host.driver.guests()
    began = stage.ssh("cut -d. -f1 /proc/uptime")
    stage.host.kill()
    stage.host.start()
    stage.host.network.init_host()
    stage.host.driver.init_host()
    stage.host.network.restore([stage.web, stage.back])
    assert stage.host.driver.guests() == before
    assert [guest.power_state for guest in before] == [PowerState.RUNNING] * 2
    assert int(stage.ssh("cut -d. -f1 /proc/uptime")) >= int(began)


def test_the_power_button_is_heard_and_a_stopped_guest_starts_again(stage: Stage) -> None:
    driver = stage.host.driver
    driver.stop(stage.back.uuid, PATIENCE)
    assert driver.power_state(stage.back.uuid) == PowerState.SHUTDOWN
    assert "reboot: Power down" in console(stage.host, stage.back)
    driver.start(stage.back.uuid)
    assert driver.wait_for_boot(stage.back.uuid, PATIENCE) == PowerState.RUNNING


def test_a_foreign_domain_is_never_touched(stage: Stage) -> None:
    stranger = "0c000000-0000-4000-8000-00000000beef"
    stage.host.foreign.define(stranger)
    try:
        assert stranger not in {guest.uuid for guest in stage.host.driver.guests()}
        for touch in (stage.host.driver.start, stage.host.driver.power_state):
            with pytest.raises(InstanceNotFoundError):
                touch(stranger)
        with pytest.raises(HostError, match="not Novella's"):
            stage.host.driver.destroy(stranger)
        assert stage.host.foreign.names() == ["somebody-elses"]
    finally:
        stage.host.foreign.remove(stranger)


def test_destroying_leaves_nothing(stage: Stage) -> None:
    state = stage.lab.settings.state_dir
    for _ in range(2):
        stage.host.driver.destroy(stage.back.uuid)
        stage.host.network.unplug(stage.back.uuid)
    assert [guest.uuid for guest in stage.host.driver.guests()] == [stage.web.uuid]
    assert processes_naming(stage.back.uuid) == []
    left = [path for path in state.rglob("*") if stage.back.uuid in str(path)]
    assert left == []
    assert stage.back.ports[0].tap not in links(stage.inside)
    for text in (stage.back.ports[0].tap, "10.20.0.5"):
        assert text not in stage.inside.run("nft", "list", "ruleset")
    mac = stage.back.ports[0].mac_address
    files = (state / "network/networks").rglob("*")
    assert [path.name for path in files if path.is_file() and mac in path.read_text()] == []


def test_cleaning_removes_guests_networks_and_files(stage: Stage) -> None:
    lab = stage.lab
    stage.host.kill()
    assert processes_naming(stage.web.uuid)
    done = lab.clean()
    assert any(stage.web.uuid in line for line in done)
    assert lab.clean() == []
    assert processes_naming(lab.settings.state_dir) == []
    assert links(lab.machine) == set()
    assert lab.machine.run("nft", "list", "ruleset") == ""
    assert lab.machine.do(lambda: Path("/proc/sys/net/ipv4/ip_forward").read_text()) == "0\n"
    assert not (namespace.FOLDER / str(lab.settings.netns)).exists()
    assert {path.name for path in lab.settings.state_dir.iterdir()} == {"images", "outgoing", "pki", "exports"}


def test_this_machine_was_not_touched() -> None:
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    assert f"nvt-{os.getpid()}" not in rules
