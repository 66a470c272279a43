"""Hardware that images and flavors ask for: read in one way by both sides, by Nova's rules."""

from __future__ import annotations

from typing import Any

import pytest

from compute_agent.contract.hardware import DEFAULT, Hardware, Topology, every_trait, read
from compute_agent.contract.hardware_properties import PROPERTIES, REFUSED, HardwareError, property_of
from compute_agent.contract.migration import RECEIVER_TRAIT
from compute_agent.servers.audit import resource_audit
from compute_agent.virt.fake.driver import FakeDriver
from tests.support.tables import check_each

FOUND: list[tuple[dict[str, str], dict[str, str], dict[str, Any]]] = [
    ({"os_distro": "debian", "hw_my_own": "x"}, {"quota:cpu_shares": "0", "quota:cpu_quota": "-1"}, {}),
    ({}, {"quota:cpu_shares": "2048", "quota:cpu_period": "20000", "quota:cpu_quota": "10000"},
     {"cpu_limits": {"shares": 2048, "period": 20000, "quota": 10000}}),
    ({"hw_serial_port_count": "2"}, {"hw:serial_port_count": "3"}, {"serial_ports": 2}),
    ({}, {"hw:serial_port_count": "4"}, {"serial_ports": 4}), ({"hw_serial_port_count": "0"}, {}, {}),
    ({"hw_disk_bus": " ", "hw_vif_model": "virtio"}, {}, {}),
    ({"hw_firmware_type": "UEFI"}, {}, {"firmware": "uefi"}),
    ({"hw_machine_type": "q35"}, {}, {"machine": "q35", "cdrom_bus": "sata"}),
    ({"hw_machine_type": "pc-q35-7.2"}, {}, {"machine": "pc-q35-7.2", "cdrom_bus": "sata"}),
    ({"hw_machine_type": "pc", "hw_cdrom_bus": "scsi"}, {}, {"cdrom_bus": "scsi"}),
    ({}, {"os:secure_boot": "required"},
     {"firmware": "uefi", "secure_boot": "required", "machine": "q35", "cdrom_bus": "sata"}),
    ({"os_secure_boot": "optional"}, {}, {}),
    ({"os_secure_boot": "optional", "hw_firmware_type": "uefi"}, {},
     {"firmware": "uefi", "secure_boot": "optional", "machine": "q35", "cdrom_bus": "sata"}),
    ({"os_secure_boot": "optional", "hw_firmware_type": "uefi", "hw_machine_type": "pc"}, {}, {"firmware": "uefi"}),
    ({"hw_tpm_version": "2.0"}, {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
     {"tpm_version": "2.0", "tpm_model": "tpm-crb"}),
    ({}, {"hw:tpm_version": "1.2"}, {"tpm_version": "1.2", "tpm_model": "tpm-tis"}),
    ({"hw_scsi_model": "lsiLogicSas", "hw_disk_bus": "scsi"}, {}, {"scsi_model": "lsisas1068", "disk_bus": "scsi"}),
    ({"hw_vif_model": "VirtualE1000e"}, {}, {"vif_model": "e1000e"}),
    ({"hw_vif_multiqueue_enabled": "yes"}, {}, {"vif_queues": 4}),
    ({"hw_video_model": "qxl", "hw_video_ram": "32"}, {"hw_video:ram_max_mb": "64"},
     {"video_model": "qxl", "video_ram_mb": 32}),
    ({"hw_watchdog_action": "pause"}, {"hw:watchdog_action": "reset"}, {"watchdog_action": "pause"}),
    ({"hw_watchdog_action": "disabled"}, {}, {}),
    ({"hw_hide_hypervisor_id": "false"}, {"hide_hypervisor_id": "true"}, {"hide_hypervisor": True}),
    ({}, {"hw_rng:allowed": "no"}, {"rng": False}),
    ({}, {"hw_rng:rate_bytes": "1024", "hw_rng:rate_period": "500"}, {"rng_bytes": 1024, "rng_period_ms": 500}),
    ({"hw_cpu_model": "Haswell", "hw_cpu_model_extra_flags": "+aes, -avx2,pcid"}, {},
     {"cpu_mode": "custom", "cpu_model": "Haswell", "cpu_flags": {"aes": True, "avx2": False, "pcid": True}}),
    ({"os_type": "Windows", "img_config_drive": "mandatory"}, {}, {"windows": True, "config_drive": True}),
    ({"hw_cpu_cores": "2"}, {}, {"topology": Topology(sockets=2, cores=2, threads=1)}),
    ({"hw_cpu_max_sockets": "1"}, {}, {"topology": Topology(sockets=1, cores=4, threads=1)}),
    ({"hw_cpu_threads": "2"}, {"hw:cpu_sockets": "4"}, {"topology": Topology(sockets=2, cores=1, threads=2)}),
    ({}, {"quota:disk_read_bytes_sec": "10000000000", "quota:disk_total_iops_sec": "0",
          "quota:vif_inbound_average": "9",
          "quota:vif_inbound_peak": "10", "quota:vif_outbound_burst": "0"},
     {"disk_limits": {"read_bytes_sec": 10**10}, "vif_limits": {"inbound": {"average": 9, "peak": 10}}}),
    ({"hw_cpu_max_cores": "2"}, {"hw:cpu_max_cores": "4", "hw:cpu_cores": "4"},
     {"topology": Topology(sockets=4, cores=1, threads=1)}),
]  # fmt: skip
"""Properties, extra specs, and what a guest of four vCPUs has that others have not."""
WRONG: list[tuple[dict[str, str], dict[str, str], str, str]] = [
    *(({each.image: "!"}, {}, each.image, each.legal) for each in PROPERTIES if each.image and each.kind != "text"),
    *(({}, {each.flavor: "!"}, each.flavor, each.legal) for each in PROPERTIES if each.flavor),
    *(({name: "x"}, {}, name, reason) for name, reason in REFUSED.items() if ":" not in name),
    ({"hw_firmware_type": "bios", "os_secure_boot": "required"}, {}, "os_secure_boot", "hw_firmware_type=uefi"),
    ({"hw_machine_type": "pc"}, {"os:secure_boot": "required"}, "os:secure_boot", "hw_machine_type=q35"),
    ({"os_secure_boot": "required"}, {"os:secure_boot": "disabled"}, "os_secure_boot", "os:secure_boot=disabled"),
    ({}, {"quota:vif_inbound_burst": "1"}, "quota:vif_inbound_burst", "quota:vif_inbound_average"),
    ({}, {"quota:disk_total_iops_sec": "9", "quota:disk_write_iops_sec": "9"}, "quota:disk_total_iops_sec", "combined"),
    ({}, {"quota:cpu_quota": "999"}, "quota:cpu_quota", "from 1000"),
    ({}, {"quota:cpu_period": "1000001"}, "quota:cpu_period", "to 1000000"),
    ({}, {"quota:cpu_shares": "-5"}, "quota:cpu_shares", "from 1 to 10000"),
    ({"hw_serial_port_count": "5"}, {}, "hw_serial_port_count", "a number up to 4"),
    ({"hw_serial_port_count": "3"}, {"hw:serial_port_count": "2"}, "hw_serial_port_count", "the flavor allows 2"),
    ({"hw_firmware_stateless": "true"}, {}, "hw_firmware_stateless", "hw_firmware_type=uefi"),
    ({"hw_tpm_model": "tpm-crb"}, {}, "hw_tpm_model", "hw_tpm_version"),
    ({}, {"hw:tpm_model": "tpm-crb", "hw:tpm_version": "1.2"}, "hw:tpm_model", "2.0"),
    ({"hw_tpm_version": "1.2"}, {"hw:tpm_version": "2.0"}, "hw_tpm_version", "hw:tpm_version=2.0"),
    ({"hw_disk_bus": "ide", "hw_machine_type": "q35"}, {}, "hw_disk_bus", "sata"),
    ({"hw_disk_bus": "xen"}, {}, "hw_disk_bus", "other hypervisors"),
    ({"hw_vif_model": "e1000"}, {"hw:vif_multiqueue_enabled": "true"}, "hw:vif_multiqueue_enabled", "virtio"),
    ({"hw_video_ram": "32"}, {"hw_video:ram_max_mb": "16"}, "hw_video_ram", "16 MiB"),
    ({"hw_pointer_model": "usbtablet"}, {"hw:usb_model": "none"}, "hw_pointer_model", "hw_usb_model=none"),
    ({"hw_cpu_mode": "custom"}, {}, "hw_cpu_mode", "hw_cpu_model"),
    ({"hw_cpu_model_extra_flags": "aes;x"}, {}, "hw_cpu_model_extra_flags", "+aes"),
    ({"hw_cpu_max_sockets": "8"}, {"hw:cpu_max_sockets": "2"}, "hw_cpu_max_sockets", "2"),
    ({"hw_cpu_cores": "8", "hw_cpu_max_cores": "4"}, {}, "hw_cpu_cores", "4"),
    ({"hw_cpu_max_sockets": "1", "hw_cpu_max_cores": "1", "hw_cpu_max_threads": "1"}, {}, "hw_cpu_max_sockets",
     "4 vCPUs"),
]  # fmt: skip
TRAITS: list[tuple[dict[str, str], dict[str, str], set[str]]] = [
    ({"hw_disk_bus": "virtio", "hw_firmware_type": "bios", "hw_cdrom_bus": "sata", "os_type": "windows"}, {}, set()),
    ({"hw_firmware_type": "uefi"}, {}, {"COMPUTE_FIRMWARE_UEFI"}),
    ({}, {"os:secure_boot": "required"}, {"COMPUTE_FIRMWARE_UEFI", "COMPUTE_SECURITY_UEFI_SECURE_BOOT"}),
    ({}, {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
     {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"}),
    ({"hw_vif_model": "e1000", "hw_disk_bus": "sata"}, {}, {"COMPUTE_NET_VIF_MODEL_E1000", "COMPUTE_STORAGE_BUS_SATA"}),
    ({"hw_machine_type": "pc-q35-7.2"}, {}, {"CUSTOM_MACHINE_TYPE_PC_Q35_7_2"}),
    ({}, {"quota:cpu_shares": "9", "quota:vif_inbound_average": "9", "quota:disk_read_iops_sec": "9"},
     {"CUSTOM_CPU_LIMITS", "CUSTOM_VIF_LIMITS"}),
    ({"hw_video_model": "virtio", "hw_virtio_packed_ring": "on"}, {},
     {"COMPUTE_GRAPHICS_MODEL_VIRTIO", "COMPUTE_NET_VIRTIO_PACKED"}),
]  # fmt: skip


def test_hardware_is_read_from_image_and_flavor() -> None:
    def check(row: tuple[dict[str, str], dict[str, str], dict[str, Any]]) -> None:
        properties, specs, changed = row
        result = read(properties, specs, 4)
        assert {name: getattr(result, name) for name in Hardware.__struct_fields__
                if getattr(result, name) != getattr(DEFAULT, name)} == changed  # fmt: skip

    check_each(FOUND, check)


def test_wrong_and_contradictory_demands_name_property_value_and_the_legal_ones() -> None:
    def check(row: tuple[dict[str, str], dict[str, str], str, str]) -> None:
        properties, specs, name, words = row
        with pytest.raises(HardwareError) as caught:
            read(properties, specs, 4)
        assert caught.value.name == name
        assert caught.value.source == ("image" if name in properties else "flavor")
        assert f"{name}={caught.value.value}" in str(caught.value)
        assert words in str(caught.value)

    check_each(WRONG, check)


def test_hosts_need_traits_of_what_not_every_host_has() -> None:
    def check(row: tuple[dict[str, str], dict[str, str], set[str]]) -> None:
        properties, specs, traits = row
        assert read(properties, specs, 4).traits_needed == traits

    check_each(TRAITS, check)


def test_names_are_found_by_their_source() -> None:
    assert property_of("image", "hw_vif_model") is not None
    assert property_of("flavor", "hw_vif_model") is None
    assert property_of("flavor", "hide_hypervisor_id") is property_of("flavor", "hw:hide_hypervisor_id")


def test_simulated_hosts_have_all_that_can_be_asked_for() -> None:
    def check(row: tuple[dict[str, str], dict[str, str], set[str]]) -> None:
        assert row[2] <= {*every_trait(), "CUSTOM_MACHINE_TYPE_PC_Q35_7_2"}

    check_each(TRAITS, check)
    assert resource_audit(FakeDriver(), host="a", host_ip="", cached_images=[]).traits == [
        *every_trait(),
        RECEIVER_TRAIT,
    ]
