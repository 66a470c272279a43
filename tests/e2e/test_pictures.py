"""Pages of a cloud in daily use, as README and the guides show them: four simulated hosts with servers, networks,
volumes, images, moves and faults.

``WRITE_PICTURES=1 bin/test tests/e2e/test_pictures.py`` takes the pictures again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import enter
from tests.e2e.pictures import picture
from tests.e2e.sdk_proxies import connect
from tests.support.one_machine import PATIENCE, OneMachine, running, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.e2e,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
SERVERS = {
    "web-1": ("m1.small", "web-net"),
    "web-2": ("m1.small", "web-net"),
    "db-1": ("m1.medium", "web-net"),
    "ci-runner-1": ("m1.micro", "demo-net"),
    "ci-runner-2": ("m1.micro", "demo-net"),
    "monitor": ("m1.nano", "demo-net"),
}
"""Name → flavor and network."""
IMAGES: Mapping[str, Mapping[str, str]] = {
    "debian-13": {"os_distro": "debian", "os_version": "13"},
    "ubuntu-26.04": {"os_distro": "ubuntu", "os_version": "26.04"},
    "rocky-10": {"os_distro": "rocky", "os_version": "10"},
}
DISK = bytes(1 << 20)
RULES = (("tcp", 80), ("tcp", 443), ("tcp", 22))


class Seeds:
    """The records of a cloud in daily use, created by the clients' library."""

    def __init__(self, cloud: OneMachine) -> None:
        self.cloud = cloud
        self.admin = connect(cloud, compute_default_microversion="2.90")
        self.demo = connect(cloud, "demo", compute_default_microversion="2.90")
        self.servers: dict[str, Any] = {}

    def sow(self) -> None:
        self.image = self.demo.image.find_image("novella-guest", ignore_missing=False)
        self.networks()
        self.images()
        self.launch()
        self.volumes()
        self.moves()
        self.faults()

    def networks(self) -> None:
        network = self.demo.network
        self.net = network.create_network(name="web-net", description="Web servers and their database")
        subnet = network.create_subnet(network_id=self.net.id, name="web", ip_version=4, cidr="10.30.0.0/24")
        self.public = network.find_network("public", ignore_missing=False)
        gateway = {"network_id": self.public.id}
        router = network.create_router(name="web-router", external_gateway_info=gateway)
        network.add_interface_to_router(router, subnet_id=subnet.id)
        self.group = network.create_security_group(name="web", description="HTTP, HTTPS and SSH")
        for protocol, port in RULES:
            network.create_security_group_rule(
                security_group_id=self.group.id,
                direction="ingress",
                protocol=protocol,
                port_range_min=port,
                port_range_max=port,
            )

    def images(self) -> None:
        for name, properties in IMAGES.items():
            self.admin.image.create_image(
                name=name,
                data=DISK,
                disk_format="raw",
                container_format="bare",
                visibility="public",
                validate_checksum=False,
                **properties,
            )

    def launch(self) -> None:
        compute = self.demo.compute
        for name, (flavor, network) in SERVERS.items():
            self.servers[name] = compute.create_server(
                name=name,
                image_id=self.image.id,
                flavor_id=compute.find_flavor(flavor, ignore_missing=False).id,
                networks=[{"uuid": self.demo.network.find_network(network, ignore_missing=False).id}],
                security_groups=[{"name": "web"}] if network == "web-net" else [{"name": "default"}],
                metadata={"team": "web" if network == "web-net" else "build"},
            )
        for name in SERVERS:
            self.until(name, "ACTIVE")
        port = next(iter(self.demo.network.ports(device_id=self.servers["web-1"].id)))
        self.demo.network.create_ip(floating_network_id=self.public.id, port_id=port.id)
        compute.stop_server(self.servers["ci-runner-2"])
        self.until("ci-runner-2", "SHUTOFF")

    def volumes(self) -> None:
        storage = self.demo.block_storage
        for name, size in (("web-data", 20), ("db-data", 80), ("scratch", 10)):
            volume = storage.create_volume(name=name, size=size)
            storage.wait_for_status(volume, "available", interval=0.2, wait=int(PATIENCE))
            if server := {"web-data": "web-1", "db-data": "db-1"}.get(name):
                self.demo.compute.create_volume_attachment(self.servers[server].id, volume_id=volume.id)
                storage.wait_for_status(volume, "in-use", interval=0.2, wait=int(PATIENCE))
            if name == "web-data":
                self.volume = volume
        made = storage.create_snapshot(volume_id=self.volume.id, name="before-upgrade", force=True)
        storage.wait_for_status(made, "available", interval=0.2, wait=int(PATIENCE))
        saved = storage.create_backup(volume_id=self.volume.id, name="monday", force=True)
        storage.wait_for_status(saved, "available", interval=0.2, wait=int(PATIENCE))

    def moves(self) -> None:
        """A cold move that is confirmed, one that is reverted, and a live one."""
        compute = self.admin.compute
        for name, end in (("web-2", compute.confirm_server_resize), ("monitor", compute.revert_server_resize)):
            compute.migrate_server(self.servers[name].id)
            self.until(name, "VERIFY_RESIZE")
            end(self.servers[name].id)
            self.until(name, "ACTIVE")
        compute.live_migrate_server(self.servers["ci-runner-1"].id, block_migration="auto")
        home = compute.get_server(self.servers["ci-runner-1"].id).compute_host
        wait_for("it has moved", lambda: self.until("ci-runner-1", "ACTIVE").compute_host != home)

    def faults(self) -> None:
        """A host in maintenance, and a launch that no host has the space for."""
        compute = self.admin.compute
        used = {compute.get_server(each.id).compute_host for each in self.servers.values()}
        names = sorted(each.name for each in compute.hypervisors(details=True))
        idle = next((name for name in names if name not in used), names[-1])
        service = next(each for each in compute.services() if each.host == idle)
        compute.disable_service(service, disabled_reason="New memory, until Friday")
        flavor = compute.create_flavor(name="m1.huge", vcpus=4, ram=8192, disk=800)
        self.servers["analytics"] = self.demo.compute.create_server(
            name="analytics",
            image_id=self.image.id,
            flavor_id=flavor.id,
            networks=[{"uuid": self.net.id}],
        )
        self.until("analytics", "ERROR")

    def until(self, name: str, status: str) -> Any:
        """Wait for the end of a server's action."""
        get: Callable[[], Any] = partial(self.admin.compute.get_server, self.servers[name].id)

        def there() -> Any:
            result = get()
            return result if result.status == status and not result.task_state else None

        return wait_for(f"{name} is {status}", there)


@pytest.fixture(scope="module")
def busy() -> Iterator[Seeds]:
    with running(simulate=4, settings={"NOVELLA_AGENT_FAKE_CAPACITY": "16:32768:500"}) as cloud:
        seeds = Seeds(cloud)
        seeds.sow()
        yield seeds


@pytest.fixture(params=["demo"])
def page(request: pytest.FixtureRequest, busy: Seeds, chromium: Browser) -> Iterator[Page]:
    context = enter(busy.cloud, chromium, request.param)
    yield context.new_page()
    context.close()


def test_users_see_their_resources(busy: Seeds, page: Page) -> None:
    url, web = busy.cloud.url, busy.servers["web-1"].id
    page.goto(url)
    expect(page.locator("main")).to_contain_text("monitor")
    picture(page, "dashboard")
    page.goto(f"{url}/instances/{web}/")
    expect(page.get_by_test_id("instance-status")).to_have_attribute("data-status", "ACTIVE")
    picture(page, "instance")
    page.goto(f"{url}/images/")
    expect(page.locator("#list-rows tr")).to_have_count(len(IMAGES) + 1)
    picture(page, "images")
    page.goto(f"{url}/images/catalogue/")
    expect(page.locator("main")).to_contain_text("Debian")
    picture(page, "image-catalogue")


@pytest.mark.parametrize("page", ["admin"], indirect=True)
def test_operators_see_the_cloud(busy: Seeds, page: Page) -> None:
    url = busy.cloud.url
    page.goto(f"{url}/cloud/")
    expect(page.locator("#launches")).to_contain_text("analytics")
    expect(page.locator("#hosts")).to_contain_text("New memory, until Friday")
    picture(page, "cloud")
    page.goto(f"{url}/hosts/")
    expect(page.locator("#list-rows tr")).to_have_count(4)
    picture(page, "hosts")
    page.goto(f"{url}/pools/")
    expect(page.locator("#list-rows tr").first).to_be_visible()
    picture(page, "pools")
    page.goto(f"{url}/migrations/")
    expect(page.locator("#list-rows")).to_contain_text("Reverted")
    picture(page, "migrations")
