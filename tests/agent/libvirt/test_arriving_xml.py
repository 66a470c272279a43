"""The XML of a guest that arrives: this host's own paths, and what the guest sees from the other host."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.libvirt import emulated_memory, volume_table
from compute_agent.virt.libvirt.arriving_xml import arriving_xml, file_of, sized_disks

OWN = """<domain type="qemu"><os><type arch="x86_64" machine="pc">hvm</type></os><cpu mode="host-model"/><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="/run/here/disk.qcow2"/>
 <target dev="vda" bus="virtio"/></disk>
<disk type="file" device="cdrom"><driver name="qemu" type="raw"/><source file="/run/here/seed.iso"/>
 <target dev="hda" bus="ide"/><readonly/></disk>
<controller type="usb" model="none"/>
<interface type="bridge"><mac address="fa:16:3e:00:00:01"/><source bridge="br-here"/></interface>
<interface type="bridge"><mac address="fa:16:3e:00:00:02"/><source bridge="br-here"/></interface>
</devices></domain>"""
OFFERED = """<domain type="kvm"><os><type arch="x86_64" machine="pc-i440fx-7.2">hvm</type>
 <nvram>/etc/shadow</nvram></os>
<cpu mode="custom" match="exact"><model fallback="forbid">Skylake-Server</model><feature policy="require" name="pcid"/>
 <evil path="/etc/shadow"/></cpu>
<devices><emulator>/tmp/evil</emulator>
<disk type="file" device="disk"><source file="/etc/shadow"/><target dev="vda" bus="virtio"/>
 <address type="pci" bus="0x00" slot="0x07" function="0x0"/></disk>
<disk type="file" device="disk"><source file="/etc/shadow"/><target dev="vdz" bus="virtio"/></disk>
<controller type="usb" index="0" model="none"/>
<controller type="pci" index="0" model="pci-root" file="/etc/shadow"/>
<interface type="bridge"><mac address="FA:16:3E:00:00:02"/><source bridge="br-there"/>
 <address type="pci" slot="0x09"/></interface>
<interface type="bridge"><mac address="fa:16:3e:00:00:01"/><source bridge="br-there"/></interface>
<hostdev mode="subsystem" type="pci"/>
</devices></domain>"""


def made(offered: str = OFFERED, own: str = OWN) -> ET.Element:
    return ET.fromstring(arriving_xml(own, offered))  # noqa: S314 - of the code under test


def test_nothing_of_the_other_host_itself_is_taken() -> None:
    text = arriving_xml(OWN, OFFERED)
    for foreign in ("/etc/shadow", "/tmp/evil", "br-there", "evil", "hostdev", "vdz", "kvm"):
        assert foreign not in text


def with_memory(xml: str) -> str:
    domain = ET.fromstring(xml)  # noqa: S314 - above
    emulated_memory.add(domain, 96)
    return ET.tostring(domain, encoding="unicode")


def test_a_guest_keeps_the_size_of_its_memory() -> None:
    """Emulated guests that were started by an older agent have a whole number of mebibytes."""
    own = with_memory(OWN)
    line = made(with_memory(OFFERED), own).find(emulated_memory.COMMAND_LINE)
    assert line is not None
    assert [each.get("value") for each in line][-2:] == ["-m", "98312k"]
    assert made(OFFERED, own).find(emulated_memory.COMMAND_LINE) is None
    assert made(with_memory(OFFERED).replace("98312k", "1k"), own).find("*[@value='1k']") is None


def test_what_the_guest_sees_is_taken() -> None:
    tree = made()
    machine, model = tree.find("os/type"), tree.find("cpu/model")
    assert machine is not None
    assert machine.get("machine") == "pc-i440fx-7.2"
    assert model is not None
    assert model.text == "Skylake-Server"
    [address] = tree.findall("devices/disk[1]/address")
    assert address.get("slot") == "0x07"
    assert {(each.get("type"), each.get("model")) for each in tree.findall("devices/controller")} == {
        ("usb", "none"), ("pci", "pci-root"),
    }  # fmt: skip


def test_a_volume_has_the_name_of_its_disk_in_the_guest() -> None:
    disk = '<disk type="network" device="disk"><target dev="{}" bus="virtio"/><serial>v1</serial>{}</disk></devices>'
    address = '<address type="pci" slot="0x0a"/>'
    own = OWN.replace("</devices>", disk.format("vdb", ""))
    [result] = made(OFFERED.replace("</devices>", disk.format("vdd", address)), own).findall("devices/disk[serial]")
    target, place = result.find("target"), result.find("address")
    assert target is not None
    assert place is not None
    assert (target.get("dev"), place.get("slot")) == ("vdd", "0x0a")


def volume(name: str, serial: str, attachment: str) -> str:
    return (
        f'<disk type="network" device="disk"><target dev="{name}" bus="virtio"/><serial>{serial}</serial>'
        f'<alias name="ua-{attachment}"/></disk></devices>'
    )


def test_a_swapped_volume_keeps_the_serial_number_that_the_guest_sees() -> None:
    """It is that of the first volume. The definition for the next start has the number of the new one."""
    noted = f'<v:volumes xmlns:v="{volume_table.NAMESPACE}"><volume target="vdd" id="new" attachment="a2"/></v:volumes>'
    offered = OFFERED.replace("<os>", f"<metadata>{noted}</metadata><os>", 1)
    offered = offered.replace("</devices>", volume("vdd", "old", "a1"))
    own = OWN.replace("<os>", "<metadata/><os>").replace("</devices>", volume("vdb", "new", "a2"))
    text = arriving_xml(own, offered)
    [(owner, disk)] = volume_table.owned(ET.fromstring(text))  # noqa: S314 - of the code under test
    assert owner == volume_table.Owner("new", "a2")
    assert (volume_table.target_of(disk), disk.findtext("serial")) == ("vdd", "old")
    defined = ET.fromstring(volume_table.settle(text))  # noqa: S314 - of the code under test
    [(owner, disk)] = volume_table.owned(defined)
    assert (owner, disk.findtext("serial")) == (volume_table.Owner("new", "a2"), "new")
    assert not defined.findall("metadata/*")


def test_interfaces_have_the_order_of_the_guest() -> None:
    result = [each.find("mac") for each in made().findall("devices/interface")]
    assert [mac.get("address") for mac in result if mac is not None] == ["fa:16:3e:00:00:02", "fa:16:3e:00:00:01"]


@pytest.mark.parametrize(
    "offered",
    [
        "",
        "<domain/>",
        "<domain>",
        '<!DOCTYPE a [<!ENTITY b "c">]>' + OFFERED,
        OFFERED.replace("pc-i440fx-7.2", "pc-q35-7.2"),
        OFFERED.replace("pc-i440fx-7.2", "pc-i440fx-7.2,accel=/x"),
        OFFERED + " " * (1 << 20),
    ],
)
def test_other_offers_are_refused(offered: str) -> None:
    with pytest.raises(UnsupportedError):
        arriving_xml(OWN, offered)


def test_writable_files_are_copied() -> None:
    assert sized_disks(OWN) == ["vda"]
    assert file_of(OWN, "vda") == ("/run/here/disk.qcow2", "qcow2")
    with pytest.raises(UnsupportedError):
        file_of(OWN, "vdb")
