"""Demands of images and flavors: honoured, or refused before anything is written, at every way to a guest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytest_django import Settings

from compute_agent.contract.hardware import every_trait
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.values.guest_demands import FLAVOR, IMAGE, TABLE
from provisioning.compute.actions.base import Prepared
from provisioning.compute.actions.interfaces import attach_interface
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.actions.rescue import rescue
from provisioning.compute.actions.resize import resize
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.snapshot import create_backup, create_image
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.dry_run import WouldFit, would_fit
from provisioning.compute.launch.flavor_choices import FlavorChoice, flavor_choices
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Flavor, Instance, InstanceFault
from provisioning.compute.selectors.catalog import limits_for
from provisioning.compute.selectors.explained import decisions_for
from provisioning.compute.selectors.host_offers import boot_properties, boot_properties_of_volume
from provisioning.compute.services.flavors import merge_extra_specs
from provisioning.compute.services.hosts import update_host
from provisioning.hosts.audits import audit
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.metadefs.wellknown import NAMESPACES
from provisioning.network import services as network
from tests.support.clouds import Cloud, state_of
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
SETS = "os_compute_api:os-flavor-extra-specs:create"

PLAIN, RICH = (), every_trait()
"""The traits of a host of the oldest kind, and of one that can do everything."""
GIVEN, WRONG = "given", "wrong"
"""The place of a demand that is not honoured everywhere: no host (``nowhere``), the rich host only (``there``)."""
NOWHERE, THERE = "nowhere", "there"

SIZES: list[tuple[str, dict[str, str]]] = [
    (NOWHERE, {"trait:HW_CPU_X86_AVX512F": "required"}), (NOWHERE, {"trait1:CUSTOM_GOLD": "required"}),
    (GIVEN, {"trait:CUSTOM_GOLD": "forbidden"}), (THERE, {"trait:COMPUTE_NET_VIF_MODEL_E1000": "required"}),
    (WRONG, {"trait:CUSTOM_GOLD": "maybe"}), (NOWHERE, {"resources:VGPU": "1"}),
    (NOWHERE, {"resources1:CUSTOM_FPGA": "1"}), (NOWHERE, {"resources:VCPU": "2"}), (GIVEN, {"resources:VGPU": "0"}),
    (GIVEN, {"resources:VCPU": "1"}),
    (WRONG, {"pci_passthrough:alias": "gpu:1"}), (WRONG, {"accel:device_profile": "x"}),
    (THERE, {"os:secure_boot": "required"}), (THERE, {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}),
    (WRONG, {"hw:tpm_model": "tpm-crb"}), (WRONG, {"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}),
    (WRONG, {"hw:mem_encryption": "True"}), (NOWHERE, {"hw:mem_page_size": "1GB"}),
    (NOWHERE, {"hw:mem_page_size": "large"}), (WRONG, {"hw:mem_page_size": "much"}),
    (GIVEN, {"hw:mem_page_size": "any"}),
    (NOWHERE, {"hw:cpu_policy": "dedicated"}), (NOWHERE, {"hw:cpu_policy": "mixed"}),
    (GIVEN, {"hw:cpu_policy": "shared"}),
    (WRONG, {"hw:cpu_thread_policy": "isolate"}), (WRONG, {"hw:cpu_realtime": "yes"}),
    (NOWHERE, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}),
    (NOWHERE, {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "0"}),
    (NOWHERE, {"hw:numa_nodes": "2"}), (NOWHERE, {"hw:numa_cpus.0": "0-1"}), (NOWHERE, {"hw:numa_mem.1": "64"}),
    (GIVEN, {"hw:watchdog_action": "reset"}), (NOWHERE, {"hw:pmem": "6GB"}), (WRONG, {"hw:viommu_model": "auto"}),
    (WRONG, {"hw:locked_memory": "true"}), (NOWHERE, {"hw:locked_memory": "true", "hw:mem_page_size": "2MB"}),
    (NOWHERE, {"hw:ephemeral_encryption": "true"}), (WRONG, {"hw:emulator_threads_policy": "isolate"}),
    (THERE, {"quota:cpu_quota": "1000"}), (THERE, {"quota:vif_inbound_average": "1"}),
    (WRONG, {"quota:cpu_quota": "9"}), (GIVEN, {"quota:cpu_quota": "-1"}),
    (THERE, {"quota:cpu_shares": "9", "os:secure_boot": "required"}),
    (WRONG, {"quota:vif_inbound_peak": "1"}), (GIVEN, {"quota:disk_read_bytes_sec": "10000000000"}),
    (WRONG, {"quota:disk_total_iops_sec": "9", "quota:disk_read_iops_sec": "9"}),
    (NOWHERE, {"quota:memory_limit": "5"}), (NOWHERE, {"vmware:hw_version": "13"}),
    (THERE, {"hw:virtio_packed_ring": "true"}), (GIVEN, {"hw:cpu_sockets": "1"}), (GIVEN, {"hw_rng:allowed": "False"}),
    (NOWHERE, {"hw:maxphysaddr_mode": "emulate"}),
    (GIVEN, {"hw:serial_port_count": "3"}), (WRONG, {"hw:serial_port_count": "5"}),
    (GIVEN, {"hw:mem_encryption": "0", "hw:numa_nodes_note": "1", "colour": "red", "group_policy": "none"}),
]  # fmt: skip
"""Extra specs of a size of one vCPU → what becomes of a launch."""
IMAGES: list[tuple[str, dict[str, str]]] = [
    (THERE, {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}), (WRONG, {"hw_firmware_type": "bogus"}),
    (GIVEN, {"hw_firmware_type": "bios"}), (GIVEN, {"hw_machine_type": "q35"}), (WRONG, {"hw_machine_type": "bogus"}),
    (THERE, {"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi"}), (THERE, {"hw_disk_bus": "sata"}),
    (WRONG, {"hw_disk_bus": "bogus"}), (THERE, {"hw_vif_model": "e1000"}), (WRONG, {"hw_vif_model": "bogus"}),
    (WRONG, {"os_require_quiesce": "perhaps"}), (GIVEN, {"os_require_quiesce": "yes", "hw_qemu_guest_agent": "yes"}),
    (WRONG, {"img_config_drive": "sometimes"}), (WRONG, {"os_type": "beos"}), (GIVEN, {"os_type": "windows"}),
    (THERE, {"os_secure_boot": "required"}), (WRONG, {"os_secure_boot": "required", "hw_firmware_type": "bios"}),
    (GIVEN, {"os_secure_boot": "optional"}), (THERE, {"hw_tpm_version": "2.0"}), (WRONG, {"hw_mem_encryption": "true"}),
    (NOWHERE, {"hw_mem_encryption": "true", "hw_firmware_type": "uefi"}), (WRONG, {"hw_mem_page_size": "2MB"}),
    (NOWHERE, {"hw_cpu_policy": "dedicated"}), (NOWHERE, {"hw_numa_nodes": "1"}),
    (GIVEN, {"hw_watchdog_action": "poweroff"}), (NOWHERE, {"trait:CUSTOM_GOLD": "required"}),
    (WRONG, {"hw_video_model": "bogus"}), (THERE, {"hw_video_model": "qxl"}), (WRONG, {"hw_rng_model": "bogus"}),
    (WRONG, {"hw_scsi_model": "bogus"}), (WRONG, {"hw_pointer_model": "bogus"}), (WRONG, {"hw_cdrom_bus": "bogus"}),
    (NOWHERE, {"vm_mode": "xen"}), (WRONG, {"vm_mode": "bogus"}), (WRONG, {"hw_firmware_stateless": "true"}),
    (THERE, {"hw_firmware_stateless": "true", "hw_firmware_type": "uefi"}), (WRONG, {"hw_viommu_model": "intel"}),
    (WRONG, {"hw_video_ram": "much"}), (WRONG, {"hw_video_ram": "64"}), (WRONG, {"hw_floppy_bus": "fdc"}),
    (NOWHERE, {"hw_emulation_architecture": "aarch64"}), (WRONG, {"hw_cpu_sockets": "many"}),
    (GIVEN, {"os_distro": "debian", "my_own": "hw_disk_bus", "kernel_id": "", "hw_hide_hypervisor_id": "yes"}),
    (GIVEN, {"hw_scsi_model": "virtio-scsi", "hw_rng_model": "virtio", "hw_pmu": "false", "vm_mode": "hvm"}),
]  # fmt: skip
"""Properties of an image → the same."""


def offer(cloud: Cloud, **traits: Sequence[str]) -> None:
    """Let hosts of these names report such traits."""
    for name, offered in traits.items():
        cloud.add_host(name).serve()
        Host.objects.filter(name=name).update(traits=sorted(offered))


def demand(image: Image, **properties: str) -> None:
    Image.objects.filter(id=image.id).update(properties=properties)
    image.refresh_from_db()


def refused(call: Any, field: str, *words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.field == field
    assert all(word in caught.value.message for word in words), caught.value.message


def fault_of(server: Instance) -> str:
    return InstanceFault.objects.get(instance_id=server.id).message


def becomes(caller: RequestContext, cloud: Cloud, requested: Mapping[str, str], field: str) -> str:
    """Return what becomes of a launch; a refusal, or the lack of a host, names one of the properties."""
    request = WouldFit(flavor_ref=cloud.small.flavorid, image_id=str(cloud.image.id), count=1)
    words = [f"{name}={value}" for name, value in requested.items()]
    try:
        fit = would_fit(caller, request)
    except InvalidInputError as error:
        refusal = error
    else:
        row = next((each for each in fit.decision.filters if each.after < each.before), None)
        if row is None or row.name != "HostNeedsFilter":  # no room for one more
            return GIVEN
        assert any(each in row.reason for each in words), row.reason
        assert row.after or row.reason in fit.sentence
        return THERE if row.after else NOWHERE
    assert any(each in refusal.message for each in words), refusal.message
    refused(lambda: launch(caller, cloud.request()), field, refusal.message)
    return WRONG


@pytest.fixture
def hosts(cloud: Cloud) -> Cloud:
    offer(cloud, plain=PLAIN, rich=RICH)
    return cloud


@each_row("expected, specs", SIZES)
def test_what_a_size_demands(hosts: Cloud, alice: RequestContext, expected: str, specs: dict[str, str]) -> None:
    Flavor.objects.filter(pk=hosts.small.pk).update(extra_specs=specs)
    assert becomes(alice, hosts, specs, "flavorRef") == expected


@each_row("expected, properties", IMAGES)
def test_what_an_image_demands(hosts: Cloud, alice: RequestContext, expected: str, properties: dict[str, str]) -> None:
    demand(hosts.image, **properties)
    assert becomes(alice, hosts, properties, "imageRef") == expected


def test_an_image_and_a_size_must_not_contradict(hosts: Cloud, alice: RequestContext) -> None:
    request = WouldFit(flavor_ref=hosts.small.flavorid, image_id=str(hosts.image.id), count=1)
    for specs, properties in (
        ({"hw:mem_encryption": "no"}, {"hw_mem_encryption": "yes", "hw_firmware_type": "uefi"}),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}),
        ({"hw:numa_nodes": "1"}, {"hw_numa_nodes": "2"}),
        ({"hw:serial_port_count": "1"}, {"hw_serial_port_count": "2"}),
        ({"hw:tpm_version": "1.2"}, {"hw_tpm_version": "2.0"}),
        ({"os:secure_boot": "disabled"}, {"os_secure_boot": "required"}),
        ({"hw:pmu": "true"}, {"hw_pmu": "false"}),
    ):
        Flavor.objects.filter(pk=hosts.small.pk).update(extra_specs=specs)
        demand(hosts.image, **properties)
        name, value = next(iter(properties.items()))
        refused(lambda: would_fit(alice, request), "imageRef", f"{name}={value}")


def test_a_launch_without_a_valid_host_says_what_hosts_lack(hosts: Cloud, alice: RequestContext) -> None:
    demand(hosts.image, os_secure_boot="required")
    server = hosts.running(alice)
    assert server.host is not None
    assert server.host_name == "rich"
    Host.objects.filter(name="rich").update(traits=[])
    server = hosts.launch(alice)
    hosts.run()
    assert state_of(server) == ("error", None)
    assert "2 hosts do not offer Secure Boot (os_secure_boot=required)" in fault_of(server)
    (decision,) = decisions_for(alice, server.id)
    assert decision.stopper is not None
    assert decision.stopper.label == "hardware"
    assert decision.asked["needs"][0] == "os_secure_boot=required"


def test_operators_give_hosts_traits_of_their_own(
    hosts: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    demand(hosts.image, **{"trait:CUSTOM_GOLD": "required"})
    plain = Host.objects.get(name="plain")
    for wrong in (["gold"], ["CUSTOM_GOLD", "HW_GOLD"], ["CUSTOM_" + "X" * 250]):
        refused(lambda wrong=wrong: update_host(operator, plain.id, {"custom_traits": wrong}), "custom_traits")
    update_host(operator, plain.id, {"custom_traits": ["CUSTOM_GOLD"]})
    assert hosts.running(alice).host == plain
    demand(hosts.image, **{"trait:CUSTOM_GOLD": "forbidden"})
    assert hosts.running(alice).host != plain


def test_reported_traits_are_kept_until_others_are_reported(cloud: Cloud) -> None:
    agent = cloud.add_host("h1")
    for reported, kept in (
        (["HW_B", "HW_A", "HW_A"], ["HW_A", "HW_B"]),
        (None, ["HW_A", "HW_B"]),
        ([], []),
        (["a\0"], []),
    ):
        audit(agent.host.id, msgspec.structs.replace(agent.audit(8, 8192, 100), traits=reported))
        assert Host.objects.get().traits == kept


def test_a_mandatory_config_drive_is_there(cloud: Cloud, alice: RequestContext) -> None:
    demand(cloud.image, img_config_drive="mandatory")
    (server,) = launch(alice, cloud.request(config_drive=False))
    assert server.config_drive
    demand(cloud.image, img_config_drive="optional")
    assert not launch(alice, cloud.request())[0].config_drive


def test_rebuild_resize_and_rescue_refuse_as_a_launch_does(
    hosts: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    Host.objects.filter(name="rich").update(enabled=False)
    server = hosts.running(alice)
    assert server.host_name == "plain"
    image = str(hosts.image.id)
    for properties, words in (
        ({"hw_machine_type": "bogus"}, "hw_machine_type=bogus"),
        ({"hw_disk_bus": "sata"}, "host does not offer the bus of disks sata (hw_disk_bus=sata)"),
    ):
        demand(hosts.image, **properties)
        refused(lambda: RebuildAction.begin(alice, server.id, Rebuild(image)), "imageRef", words)
        refused(lambda: rescue(alice, server.id, image_id=image), "rescue_image_ref", words)
    merge_extra_specs(operator, hosts.big.flavorid, {"pci_passthrough:alias": "gpu:1"}, rule=SETS)
    refused(lambda: resize(alice, server.id, hosts.big.flavorid), "flavorRef", "pci_passthrough:alias=gpu:1")
    assert state_of(server) == ("active", None)
    demand(hosts.image, img_config_drive="mandatory")
    RebuildAction.begin(alice, server.id, Rebuild(image))
    assert Instance.objects.get(id=server.id).config_drive


def test_a_resize_fails_where_the_host_lacks_what_the_new_size_needs(cloud: Cloud, alice: RequestContext) -> None:
    offer(cloud, plain=PLAIN)
    server = cloud.running(alice)
    Flavor.objects.filter(pk=cloud.big.pk).update(extra_specs={"hw:tpm_version": "2.0"})
    resize(alice, server.id, cloud.big.flavorid)
    assert cloud.fresh(server).flavor == server.flavor
    assert "1 host does not offer a TPM 2.0 (hw:tpm_version=2.0)" in fault_of(server)


@pytest.mark.slow
def test_unshelving_asks_as_a_launch_does(hosts: Cloud, alice: RequestContext) -> None:
    server = hosts.running(alice)
    Shelve.begin(alice, server.id)
    hosts.run()
    Instance.objects.filter(id=server.id).update(image_properties={"hw_firmware_type": "dos"})
    refused(lambda: unshelve(alice, server.id), "imageRef", "hw_firmware_type=dos")
    Instance.objects.filter(id=server.id).update(
        image_properties={}, flavor=server.flavor | {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    )
    unshelve(alice, server.id)
    hosts.run()
    assert hosts.fresh(server).vm_state == "shelved_offloaded"
    assert "hw:cpu_policy=dedicated" in decisions_for(alice, server.id)[0].sentence


def test_a_snapshot_that_must_be_quiet_needs_an_agent(hosts: Cloud, alice: RequestContext) -> None:
    demand(hosts.image, os_require_quiesce="yes")
    server = hosts.running(alice)
    for take in (
        lambda: create_image(alice, server.id, "copy"),
        lambda: create_backup(alice, server.id, "b", "daily", 1),
    ):
        with pytest.raises(InvalidInputError, match="os_require_quiesce=yes without hw_qemu_guest_agent=yes"):
            take()
    assert not Image.objects.filter(name="copy").exists()
    Instance.objects.filter(id=server.id).update(vm_state="stopped")
    create_image(alice, server.id, "copy")
    assert Image.objects.filter(name="copy").exists()


def test_a_guest_has_the_seconds_that_its_image_says(settings: Settings) -> None:
    settings.POWER_TIMEOUT = 180
    for properties, seconds in (({}, 60), ({"os_shutdown_timeout": "5"}, 5), ({"os_shutdown_timeout": "999"}, 150)):
        assert shutdown_seconds(Instance(image_properties=properties)) == seconds
        assert Stop().command(Instance(image_properties=properties), Prepared()).timeout == seconds


def test_the_wizard_says_so_before(hosts: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    merge_extra_specs(operator, hosts.big.flavorid, {"accel:device_profile": "fpga"}, rule=SETS)

    def choices() -> dict[str, FlavorChoice]:
        result = flavor_choices(alice, Image.objects.get(pk=hosts.image.pk), limits_for(alice))
        return {each.flavor.name: each for each in result}

    assert "accel:device_profile" in choices()[hosts.big.name].reason
    assert choices()[hosts.small.name].reason == ""
    demand(hosts.image, hw_disk_bus="bogus")
    assert "hw_disk_bus=bogus" in choices()[hosts.small.name].reason
    demand(hosts.image, hw_cpu_policy="dedicated")
    assert "hw_cpu_policy=dedicated" in choices()[hosts.small.name].full


@pytest.mark.parametrize("can", [True, False])
def test_what_an_image_boots_by_is_found_in_its_data(cloud: Cloud, alice: RequestContext, *, can: bool) -> None:
    offer(cloud, plain=PLAIN, **({"rich": RICH} if can else {}))
    Image.objects.filter(id=cloud.image.id).update(found_firmware="uefi")
    result = {"hw_firmware_type": "uefi"} if can else {}
    server = cloud.running(alice)
    assert (server.image_properties, server.host_name) == (result, "rich" if can else "plain")
    assert boot_properties_of_volume({"found_firmware": "uefi", "size": "1"}) == {"size": "1", **result}
    demand(cloud.image, hw_firmware_type="bios")
    assert boot_properties(cloud.image) == {"hw_firmware_type": "bios"}
    assert Image.objects.get(id=cloud.image.id).properties == {"hw_firmware_type": "bios"}


def test_definitions_of_metadata_say_what_launches_do() -> None:
    descriptions = {
        prefix.prefix + name if prefix.prefix else name: str(schema["description"])
        for namespace in NAMESPACES
        for prefix in namespace.types or ()
        for each in (namespace.properties, *(group.properties for group in namespace.groups))
        for name, schema in each.items()
    }
    for name, words in {
        "hw_firmware_type": "Honoured",
        "hw_disk_bus": "Honoured",
        "hw:cpu_policy": "No host of this cloud offers",
        "os_shutdown_timeout": "Honoured",
        "img_signature": "ignored",
    }.items():
        assert words in descriptions[name], (name, descriptions[name])
    assert not [name for name, words in descriptions.items() if "do not act" in words]


def page() -> str:
    """Return the table of docs/user-guide.md, from the table of the code."""
    lines = ["| images | flavors | | values that are accepted |", "|---|---|---|---|"]
    for each in TABLE:
        cells = [", ".join(f"`{name}`" for name in each.shown(source)) for source in (IMAGE, FLAVOR)]
        lines.append(f"| {' | '.join(cells)} | {each.effect}: {each.meaning} | {each.readable} |")
    return "\n".join(lines)


def test_the_user_guide_has_the_table() -> None:
    guide = Path(__file__).resolve().parents[2] / "docs/user-guide.md"
    before, _, rest = guide.read_text().partition(page().splitlines()[0])
    after = rest.partition("\n\n")[2]
    if os.environ.get("WRITE_PAGES") == "1":
        guide.write_text(f"{before}{page()}\n\n{after}")
    assert page() in guide.read_text()


def test_a_flavor_without_disk_is_for_volumes_or_operators(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    Flavor.objects.filter(pk=cloud.small.pk).update(root_gb=0)
    cloud.small.refresh_from_db()
    with pytest.raises(ForbiddenError) as caught:
        launch(alice, cloud.request())
    assert caught.value.field == "flavorRef"
    with pytest.raises(ForbiddenError):
        would_fit(alice, WouldFit(flavor_ref=cloud.small.flavorid, image_id=str(cloud.image.id), count=1))
    reasons = {each.flavor: each.reason for each in flavor_choices(alice, cloud.image, limits_for(alice))}
    assert reasons[cloud.small]
    assert not Instance.objects.exists()
    assert launch(replace(operator, project_id=alice.project_id), cloud.request())


@pytest.mark.parametrize(("down", "word"), [(False, "subnet"), (True, "down")])
def test_a_network_that_guests_cannot_be_on_is_refused_for_its_reason(
    cloud: Cloud, alice: RequestContext, charlie: RequestContext, *, down: bool, word: str
) -> None:
    assert alice.project_id is not None
    bare = network.create_network(alice.project_id, "bare", admin_state_up=not down)
    if down:
        network.create_subnet(bare, "10.77.0.0/24")
    request = NetworkRequest(network_id=str(bare.id))
    with pytest.raises(InvalidInputError, match=word) as caught:
        launch(alice, cloud.request(networks=(request,)))
    assert caught.value.field == "networks"
    cloud.add_host("h1").serve()
    server = cloud.running(alice)
    with pytest.raises(InvalidInputError, match=word):
        attach_interface(alice, server.id, request)
    with pytest.raises(InvalidInputError, match="could not be found"):
        launch(charlie, cloud.request(networks=(request,)))
