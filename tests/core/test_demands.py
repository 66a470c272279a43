"""Demands of images and flavors: honoured, or refused before anything is written, at every way to a guest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.guest_demands import FLAVOR, IMAGE, TABLE, Effect, unmet
from provisioning.compute.actions.interfaces import attach_interface
from provisioning.compute.actions.rebuild import Rebuild, rebuild
from provisioning.compute.actions.rescue import rescue
from provisioning.compute.actions.resize import resize
from provisioning.compute.actions.shelve import shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.launch.create import launch
from provisioning.compute.launch.dry_run import WouldFit, would_fit
from provisioning.compute.launch.flavor_choices import flavor_choices
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.selectors.catalog import limits_for
from provisioning.compute.services.flavor_specs import merge_extra_specs
from provisioning.images.models import Image
from provisioning.metadefs.wellknown import NAMESPACES
from provisioning.network import services as network
from tests.support.clouds import Cloud, state_of

pytestmark = pytest.mark.django_db
SETS = "os_compute_api:os-flavor-extra-specs:create"

SPECS = [
    ("trait:HW_CPU_X86_AVX512F", "required"), ("trait1:CUSTOM_GOLD", "required"), ("resources:VGPU", "1"),
    ("resources1:CUSTOM_FPGA", "1"), ("resources:VCPU", "2"), ("pci_passthrough:alias", "gpu:1"),
    ("os:secure_boot", "required"), ("hw:tpm_version", "2.0"), ("hw:tpm_model", "tpm-crb"),
    ("hw:mem_encryption", "True"), ("hw:mem_page_size", "1GB"), ("hw:mem_page_size", "large"),
    ("hw:cpu_policy", "dedicated"), ("hw:cpu_policy", "mixed"), ("hw:cpu_thread_policy", "isolate"),
    ("hw:cpu_realtime", "yes"), ("hw:numa_nodes", "2"), ("hw:numa_cpus.0", "0-1"), ("hw:numa_mem.1", "64"),
    ("hw:watchdog_action", "reset"), ("hw:pmem", "6GB"), ("hw:viommu_model", "auto"), ("hw:locked_memory", "true"),
    ("hw:ephemeral_encryption", "true"), ("hw:emulator_threads_policy", "isolate"),
    ("accel:device_profile", "fpga"),
]  # fmt: skip
PROPERTIES = [
    ("hw_firmware_type", "uefi"), ("hw_firmware_type", "bogus"), ("hw_machine_type", "q35"),
    ("hw_machine_type", "bogus"), ("hw_disk_bus", "scsi"), ("hw_disk_bus", "bogus"), ("hw_vif_model", "e1000"),
    ("hw_vif_model", "bogus"), ("os_require_quiesce", "yes"), ("img_config_drive", "sometimes"), ("os_type", "beos"),
    ("os_secure_boot", "required"), ("hw_tpm_version", "2.0"), ("hw_mem_encryption", "true"),
    ("hw_mem_page_size", "2MB"), ("hw_cpu_policy", "dedicated"), ("hw_numa_nodes", "1"),
    ("hw_watchdog_action", "poweroff"), ("trait:CUSTOM_GOLD", "required"), ("hw_video_model", "bogus"),
    ("hw_rng_model", "bogus"), ("hw_scsi_model", "bogus"), ("hw_pointer_model", "bogus"), ("hw_cdrom_bus", "bogus"),
    ("vm_mode", "xen"), ("hw_firmware_stateless", "true"), ("hw_viommu_model", "intel"), ("hw_video_ram", "much"),
    ("hw_emulation_architecture", "aarch64"), ("hw_floppy_bus", "fdc"),
]  # fmt: skip
HARMLESS: list[dict[str, str]] = [
    {"hw_firmware_type": "bios", "hw_machine_type": "pc-i440fx-9.2", "hw_disk_bus": "virtio", "hw_vif_model": "virtio"},
    {"hw_scsi_model": "virtio-scsi", "hw_video_model": "qxl", "hw_rng_model": "virtio", "hw_pmu": "false"},
    {"os_require_quiesce": "no", "os_secure_boot": "optional", "vm_mode": "hvm", "hw_cpu_policy": "shared"},
    {"trait:CUSTOM_GOLD": "forbidden", "os_distro": "debian", "my_own": "hw_disk_bus", "hw_qemu_guest_agent": "yes"},
    {"hw_watchdog_action": "disabled", "hw_mem_page_size": "any", "kernel_id": "", "hw_hide_hypervisor_id": "yes"},
]


def demand(image: Image, **properties: str) -> None:
    Image.objects.filter(id=image.id).update(properties=properties)
    image.refresh_from_db()


def refused(call: Any, field: str, name: str, value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.field == field
    assert name in caught.value.message
    assert value in caught.value.message


@pytest.mark.parametrize(("name", "value"), SPECS)
def test_a_flavor_whose_demand_cannot_be_met_is_not_launched(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, name: str, value: str
) -> None:
    merge_extra_specs(operator, cloud.small.flavorid, {name: value}, rule=SETS)
    refused(lambda: launch(alice, cloud.request()), "flavorRef", name, value)
    assert not Instance.objects.exists()


@pytest.mark.parametrize(("name", "value"), PROPERTIES)
def test_an_image_whose_demand_cannot_be_met_is_not_launched(
    cloud: Cloud, alice: RequestContext, name: str, value: str
) -> None:
    demand(cloud.image, **{name: value})
    refused(lambda: launch(alice, cloud.request()), "imageRef", name, value)
    assert not Instance.objects.exists()


@pytest.mark.parametrize("properties", HARMLESS)
def test_what_guests_are_anyway_may_be_demanded(
    cloud: Cloud, alice: RequestContext, properties: dict[str, str]
) -> None:
    demand(cloud.image, **properties)
    launch(alice, cloud.request())
    flavor = {
        "os:secure_boot": "disabled",
        "hw:cpu_policy": "shared",
        "hw:numa_nodes_note": "1",
        "quota:cpu_shares": "1",
    }
    assert (
        unmet(FLAVOR, flavor | {"trait:CUSTOM_X": "forbidden", "hw_rng:allowed": "True", "hw:mem_encryption": "0"})
        == []
    )


def test_a_mandatory_config_drive_is_there(cloud: Cloud, alice: RequestContext) -> None:
    demand(cloud.image, img_config_drive="mandatory")
    (server,) = launch(alice, cloud.request(config_drive=False))
    assert server.config_drive
    demand(cloud.image, img_config_drive="optional")
    assert not launch(alice, cloud.request())[0].config_drive


def test_rebuild_resize_and_rescue_refuse_as_a_launch_does(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    cloud.add_host("h1").serve()
    server = cloud.running(alice)
    demand(cloud.image, hw_machine_type="q35")
    image = str(cloud.image.id)
    refused(lambda: rebuild(alice, server.id, Rebuild(image)), "imageRef", "hw_machine_type", "q35")
    refused(lambda: rescue(alice, server.id, image_id=image), "rescue_image_ref", "hw_machine_type", "q35")
    merge_extra_specs(operator, cloud.big.flavorid, {"resources:VGPU": "1"}, rule=SETS)
    refused(lambda: resize(alice, server.id, cloud.big.flavorid), "flavorRef", "resources:VGPU", "1")
    assert state_of(server) == ("active", None)
    demand(cloud.image, img_config_drive="mandatory")
    rebuild(alice, server.id, Rebuild(image))
    assert Instance.objects.get(id=server.id).config_drive


@pytest.mark.slow
@pytest.mark.parametrize("of", ["flavor", "image"])
def test_unshelving_refuses_as_a_launch_does(cloud: Cloud, alice: RequestContext, of: str) -> None:
    cloud.add_host("h1").serve()
    server = cloud.running(alice)
    shelve(alice, server.id)
    cloud.run()
    columns: dict[str, Any] = {"image_properties": {"hw_firmware_type": "uefi"}}
    if of == "flavor":
        columns = {"flavor": server.flavor | {"extra_specs": {"hw:cpu_policy": "dedicated"}}}
    Instance.objects.filter(id=server.id).update(**columns)
    name, value = ("hw:cpu_policy", "dedicated") if of == "flavor" else ("hw_firmware_type", "uefi")
    refused(lambda: unshelve(alice, server.id), f"{of}Ref", name, value)


def test_what_would_fit_and_the_wizard_say_so_before(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    merge_extra_specs(operator, cloud.big.flavorid, {"accel:device_profile": "fpga"}, rule=SETS)
    asked = WouldFit(flavor_ref=cloud.big.flavorid, image_id=str(cloud.image.id), count=1)
    refused(lambda: would_fit(alice, asked), "flavorRef", "accel:device_profile", "fpga")
    reasons = {each.flavor: each.reason for each in flavor_choices(alice, cloud.image, limits_for(alice))}
    assert "accel:device_profile" in reasons[cloud.big]
    assert reasons[cloud.small] == ""
    demand(cloud.image, hw_disk_bus="scsi")
    refused(lambda: would_fit(alice, asked), "imageRef", "hw_disk_bus", "scsi")
    small = Flavor.objects.get(pk=cloud.small.pk)
    reasons = {each.flavor: each.reason for each in flavor_choices(alice, cloud.image, limits_for(alice))}
    assert "hw_disk_bus" in reasons[small]


def test_a_volume_has_the_demands_of_its_image() -> None:
    metadata = json.loads('{"image_id": "x", "hw_firmware_type": "uefi", "size": "1"}')
    assert [each.name for each in unmet(IMAGE, metadata)] == ["hw_firmware_type"]


def test_definitions_of_metadata_say_what_launches_do() -> None:
    said = {
        prefix.prefix + name if prefix.prefix else name: str(schema["description"])
        for namespace in NAMESPACES
        for prefix in namespace.types or ()
        for each in (namespace.properties, *(group.properties for group in namespace.groups))
        for name, schema in each.items()
    }
    for name, effect in {
        "hw_firmware_type": "refused",
        "hw:cpu_policy": "refused",
        "hw_video_model": "do not act",
    }.items():
        assert effect in said[name], name
    assert "do not act" not in said["hw_disk_bus"]
    assert "refused" not in said["hw_qemu_guest_agent"]


def page() -> str:
    """Return the table of docs/user-guide.md, from the table of the code."""
    lines = ["| images | flavors | | values that are accepted |", "|---|---|---|---|"]
    words = {Effect.HONOURED: "honoured", Effect.REFUSED: "refused", Effect.IGNORED: "ignored"}
    for each in TABLE:
        cells = [", ".join(f"`{name}`" for name in each.shown(source)) for source in (IMAGE, FLAVOR)]
        meaning = f"{words[each.effect]}: {each.meaning}" if each.meaning else words[each.effect]
        lines.append(f"| {' | '.join(cells)} | {meaning} | {', '.join(each.readable)} |")
    return "\n".join(lines)


def test_the_user_guide_has_the_table() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/user-guide.md").read_text()
    assert page() in guide


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
    wanted = NetworkRequest(network_id=str(bare.id))
    with pytest.raises(InvalidInputError, match=word) as caught:
        launch(alice, cloud.request(networks=(wanted,)))
    assert caught.value.field == "networks"
    cloud.add_host("h1").serve()
    server = cloud.running(alice)
    with pytest.raises(InvalidInputError, match=word):
        attach_interface(alice, server.id, wanted)
    with pytest.raises(InvalidInputError, match="could not be found"):
        launch(charlie, cloud.request(networks=(wanted,)))
