"""What is left over on a real host: found, named, removed by a destroy; what is somebody else's is never touched."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.power import PowerState
from tests.host.cast import Wish
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, Lab, links
from tests.support.guest_image import GuestImage

Told = set[tuple[str, str, str]]


@pytest.fixture(scope="module")
def host(lab: Lab, small: GuestImage) -> Iterator[HostProcess]:
    host = HostProcess(lab.settings, lab.machine.path, small.path)
    host.network.init_host()
    host.driver.init_host()
    yield host
    host.kill()


@pytest.fixture
def guest(host: HostProcess, small: GuestImage) -> Iterator[InstanceSpec]:
    """A guest that runs, with an interface."""
    spec = Wish(1, image=small.ref).spec()
    host.tell(spec)
    host.network.plug(spec)
    host.driver.create_disk(spec, host.images.get(spec.image, spec.uuid).path)
    host.driver.create_seed(spec)
    host.driver.define(spec, 1)
    host.network.apply_firewall(spec)
    host.driver.start(spec.uuid)
    yield spec
    host.driver.destroy(spec.uuid)
    host.network.unplug(spec.uuid)


@pytest.fixture
def reader(host: HostProcess) -> Callable[[], Told]:
    """What both parts of the host say is left over."""

    def ask() -> Told:
        guests = {each.uuid for each in host.driver.guests()}
        result = host.driver.leftovers() + host.network.leftovers(guests)
        return {(each.kind, each.name, each.subject_id) for each in result}

    return ask


def virsh_destroy(host: HostProcess, spec: InstanceSpec) -> None:
    """Remove the domain as somebody with virsh would: the disk stays."""
    host.foreign.take_away(spec.uuid)


def test_a_guest_accounts_for_what_it_has(guest: InstanceSpec, reader: Callable[[], Told]) -> None:
    assert reader() == set()


def test_what_a_guest_that_was_removed_by_hand_has_left_is_found_and_removed(
    host: HostProcess, lab: Lab, guest: InstanceSpec, reader: Callable[[], Told]
) -> None:
    virsh_destroy(host, guest)
    (port,) = guest.ports
    lab.inside().run("ip", "tuntap", "add", "dev", port.tap, "mode", "tap")
    result = reader()
    assert {
        ("folder", guest.uuid, guest.uuid),
        ("plug", guest.uuid, guest.uuid),
        ("tap", port.tap, guest.uuid),
    } <= result
    assert {owner for _, _, owner in result} == {guest.uuid}
    host.driver.destroy(guest.uuid)
    host.network.unplug(guest.uuid)
    assert reader() == set()
    assert not (lab.settings.state_dir / "instances" / guest.uuid).exists()
    assert port.tap not in links(lab.inside())


def test_a_guest_that_was_removed_by_hand_runs_again_from_its_disk(host: HostProcess, guest: InstanceSpec) -> None:
    virsh_destroy(host, guest)
    assert host.driver.guests() == []
    assert host.driver.has_disk(guest.uuid)
    host.network.plug(guest)
    host.driver.define(guest, 1)
    host.network.apply_firewall(guest)
    host.driver.start(guest.uuid)
    assert host.driver.wait_for_boot(guest.uuid, PATIENCE) == PowerState.RUNNING


def test_an_interface_of_nobody_is_found(
    host: HostProcess, lab: Lab, guest: InstanceSpec, reader: Callable[[], Told]
) -> None:
    lab.inside().run("ip", "tuntap", "add", "dev", "tap01234567-89", "mode", "tap")
    lab.inside().run("ip", "tuntap", "add", "dev", "tapestry", "mode", "tap")
    try:
        assert reader() == {("tap", "tap01234567-89", "")}
    finally:
        lab.inside().run("ip", "link", "del", "tap01234567-89")
        lab.inside().run("ip", "link", "del", "tapestry")


def test_a_domain_of_somebody_else_is_named_and_left_alone(
    host: HostProcess, guest: InstanceSpec, reader: Callable[[], Told]
) -> None:
    theirs = str(uuid.uuid4())
    host.foreign.define(theirs)
    try:
        assert reader() == {("foreign_domain", "somebody-elses", "")}
        assert [each.uuid for each in host.driver.guests()] == [guest.uuid]
        with pytest.raises(Exception, match="not Novella's"):
            host.driver.destroy(theirs)
        assert host.foreign.names() == ["somebody-elses"]
    finally:
        host.foreign.remove(theirs)
