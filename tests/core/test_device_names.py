"""Names of disks: by the bus that the server's image asks for."""

from __future__ import annotations

from provisioning.compute.disks import device_names
from provisioning.compute.models import BlockDevice, Instance
from tests.support.tables import check_each

FLAVOR = {"extra_specs": {}, "vcpus": 1, "ephemeral_gb": 1, "swap_mb": 0}
ROWS: list[tuple[dict[str, str], str, set[str], list[tuple[str, str]]]] = [
    ({}, "/dev/vda", {"hda", "vda", "vdb"}, [("/dev/vdc", ""), ("/dev/sda", "scsi"), ("/dev/vdd", "")]),
    ({"hw_disk_bus": "ide"}, "/dev/hda", {"hdd", "hda", "hdb"},
     [("/dev/hdc", "ide"), ("/dev/sda", "scsi"), ("/dev/vda", "")]),
    ({"hw_disk_bus": "sata", "hw_machine_type": "q35"}, "/dev/sda", {"sdf", "sda", "sdb"},
     [("/dev/sdc", "sata"), ("/dev/sdd", "scsi"), ("/dev/vda", "")]),
]  # fmt: skip
"""Properties, root disk, names that are taken, and name and bus of a volume, one on SCSI and a CD-ROM drive."""


def test_disks_are_named_by_the_bus_that_the_image_asks_for() -> None:
    def check(row: tuple[dict[str, str], str, set[str], list[tuple[str, str]]]) -> None:
        properties, root, names, volumes = row
        instance = Instance(image_properties=properties, flavor=FLAVOR)
        assert device_names.root_device(instance) == root
        hardware = device_names.hardware_of(properties, FLAVOR)
        taken = device_names.of_flavor(FLAVOR, [], hardware, local_root=True)
        assert taken == names
        requested = [{}, {"disk_bus": "scsi"}, {"device_type": "cdrom"}]
        devices = [
            BlockDevice(position=number, source_type="volume", destination_type="volume", **more)
            for number, more in enumerate(requested)
        ]
        device_names.choose(devices, taken, hardware)
        assert [(each.device_name, each.disk_bus) for each in devices] == volumes

    check_each(ROWS, check)
