"""Every lifecycle action once, asked by openstacksdk of a real guest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from openstack.exceptions import BadRequestException, ConflictException

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.libvirt,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
PATIENCE = 240.0


class Guest:
    """One server and what can be seen of it."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.compute = connection.compute
        self.image = connection.image
        image = self.image.find_image("novella-guest", ignore_missing=False)
        flavor = self.compute.find_flavor("m1.nano", ignore_missing=False)
        net = connection.network.find_network("demo-net", ignore_missing=False)
        made = self.compute.create_server(
            name=name, image_id=image.id, flavor_id=flavor.id, networks=[{"uuid": net.id}], timeout=PATIENCE
        )
        self.id = str(made.id)
        self.boots = 0
        self.until("ACTIVE")

    def until(self, status: str) -> None:
        """Wait until it has a status and nothing goes on with it."""

        def there() -> bool:
            shown = self.compute.get_server(self.id)
            assert shown.status == status or shown.status != "ERROR", shown.fault
            return bool(shown.status == status and not shown.task_state)

        wait_for(f"it becomes {status}", there, PATIENCE)

    def banners(self) -> list[str]:
        """What the guest has said at each of its starts, as far as its log goes."""
        log = self.compute.get_server_console_output(self.id)["output"]
        return re.findall(r"=== Novella guest: (.*) ===", log)

    def until_it_boots(self) -> None:
        """Wait for one more banner than there were."""
        wait_for("the guest's banner", lambda: len(self.banners()) > self.boots, PATIENCE)
        self.boots = len(self.banners())

    def power(self) -> int:
        return int(self.compute.get_server(self.id).power_state)


@pytest.fixture(scope="module")
def admin(cloud: OneMachine) -> Connection:
    config = OpenStackConfig(config_files=[str(cloud.data / "clouds.yaml")])
    return Connection(config=config.get_one("admin"), compute_default_microversion="2.96")


@pytest.fixture
def guest(admin: Connection) -> Iterator[Guest]:
    guest = Guest(admin, "living")
    guest.until_it_boots()
    yield guest
    admin.compute.delete_server(guest.id, force=True)
    admin.compute.wait_for_delete(admin.compute.get_server(guest.id), wait=PATIENCE)


def test_power(admin: Connection, guest: Guest) -> None:
    compute = admin.compute
    compute.pause_server(guest.id)
    guest.until("PAUSED")
    assert guest.power() == 3
    compute.unpause_server(guest.id)
    guest.until("ACTIVE")
    compute.suspend_server(guest.id)
    guest.until("SUSPENDED")
    compute.resume_server(guest.id)
    guest.until("ACTIVE")
    assert len(guest.banners()) == guest.boots  # it went on; it did not boot
    compute.stop_server(guest.id)
    guest.until("SHUTOFF")
    with pytest.raises(ConflictException, match="vm_state stopped"):
        compute.stop_server(guest.id)
    compute.start_server(guest.id)
    guest.until("ACTIVE")
    guest.until_it_boots()
    compute.reboot_server(guest.id, "SOFT")
    guest.until("ACTIVE")
    guest.until_it_boots()
    compute.reboot_server(guest.id, "HARD")
    guest.until("ACTIVE")
    guest.until_it_boots()
    diagnostics = compute.get_server_diagnostics(guest.id)
    assert (diagnostics.state, diagnostics.driver) == ("running", "libvirt")
    assert diagnostics.cpu_details[0]["time"] > 0
    assert diagnostics.nic_details[0]["rx_octets"] is not None
    compute.lock_server(guest.id, locked_reason="alive")
    assert compute.get_server(guest.id).locked_reason == "alive"
    compute.unlock_server(guest.id)
    compute.change_server_password(guest.id, "a-new-password")
    guest.until("ACTIVE")
    done = [action.action for action in compute.server_actions(guest.id)]
    power = {"pause", "unpause", "suspend", "resume", "stop", "start", "reboot"}
    assert power | {"lock", "unlock", "changePassword"} <= set(done)


def test_disks(admin: Connection, guest: Guest) -> None:
    compute, image = admin.compute, admin.image
    compute.rescue_server(guest.id)
    guest.until("RESCUE")
    compute.unrescue_server(guest.id)
    guest.until("ACTIVE")
    compute.rebuild_server(guest.id, image=compute.get_server(guest.id).image.id, name="living-anew")
    guest.until("ACTIVE")
    wait_for("the new name", lambda: any("living" in banner for banner in guest.banners()), PATIENCE)
    compute.resize_server(guest.id, compute.find_flavor("m1.micro").id)
    guest.until("VERIFY_RESIZE")
    assert compute.get_server(guest.id).flavor.ram == 192
    compute.revert_server_resize(guest.id)
    guest.until("ACTIVE")
    assert compute.get_server(guest.id).flavor.ram == 96
    compute.resize_server(guest.id, compute.find_flavor("m1.micro").id)
    guest.until("VERIFY_RESIZE")
    compute.confirm_server_resize(guest.id)
    guest.until("ACTIVE")
    assert [result.status for result in compute.migrations()][:2] == ["confirmed", "reverted"]
    for ask in (
        lambda: compute.migrate_server(guest.id),
        lambda: compute.live_migrate_server(guest.id),
        lambda: compute.evacuate_server(guest.id),
    ):
        with pytest.raises(BadRequestException):
            ask()
    copy = compute.create_server_image(guest.id, "living-copy", wait=True, timeout=PATIENCE)
    guest.until("ACTIVE")
    assert (copy.status, copy.disk_format) == ("active", "qcow2")
    compute.shelve_server(guest.id)
    guest.until("SHELVED_OFFLOADED")
    assert compute.get_server(guest.id).hypervisor_hostname is None
    compute.unshelve_server(guest.id)
    guest.until("ACTIVE")
    wait_for("the guest's banner", guest.banners, PATIENCE)
    image.delete_image(copy.id)
