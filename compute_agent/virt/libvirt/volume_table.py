"""The volumes of a domain's disks, in the running domain or its definition.

A volume's disk has the volume's id as serial number, and the attachment's id in its alias. A disk is identified by its
attachment: while a volume is migrated between pools it has two attachments, and the guest is switched from one to the
other. Serial number and alias of a running guest's disk cannot be changed. Therefore swapped and forcibly detached
volumes are recorded in a metadata element of the running domain.
"""

import copy
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import libvirt

from compute_agent.contract.build import GuestDisk
from compute_agent.contract.volume import ROOT

NAMESPACE = "https://novella.example/xmlns/volumes/1"
KEY = "novella-volumes"
ALIAS = "ua-"
"""The prefix that libvirt requires for aliases that are not its own."""
RUNS, DEFINED = 0, libvirt.VIR_DOMAIN_XML_INACTIVE


@dataclass(frozen=True)
class Owner:
    """The volume of a disk, and its attachment. Without a volume, the guest still has the disk, but its data was
    detached by force.
    """

    volume: str
    attachment: str = ""

    @classmethod
    def of(cls, disk: GuestDisk) -> "Owner":
        """Return the volume and the attachment of ``disk``."""
        return cls(disk.id, disk.attachment_id)

    def is_for(self, disk: GuestDisk) -> bool:
        """Return whether this is the attachment of ``disk``, or its volume if an attachment is unknown."""
        return self.is_same(Owner.of(disk))

    def is_same(self, other: "Owner") -> bool:
        """Return whether both are the same attachment, or the same volume if an attachment is unknown. A guest has one
        root disk in a pool; its id contains the host's name.
        """
        if self.attachment and other.attachment:
            return self.attachment == other.attachment
        return self.volume == other.volume or (self.volume.startswith(ROOT) and other.volume.startswith(ROOT))


NOBODY = Owner("")


def tree_of(domain: Any, which: int) -> ET.Element:
    """Return the domain's XML: ``RUNS`` or ``DEFINED``."""
    return ET.fromstring(domain.XMLDesc(which))  # noqa: S314 - libvirt's own output


def find(tree: ET.Element, disk: GuestDisk) -> ET.Element | None:
    """Return the disk of a volume's attachment in a domain; None if the domain does not have it."""
    return next((element for owner, element in owned(tree) if owner.is_for(disk)), None)


def volumes_in(tree: ET.Element) -> dict[str, ET.Element]:
    """Return volume id → disk element, for the volumes of a domain."""
    return {owner.volume: element for owner, element in owned(tree)}


def attachments_in(tree: ET.Element) -> dict[str, str]:
    """Return volume id → attachment id, for the volumes of a domain whose attachment is known."""
    return {owner.volume: owner.attachment for owner, _ in owned(tree) if owner.attachment}


def exports_in(tree: ET.Element) -> set[str]:
    """Return the names of the exports that a domain's disks use, and of exports to which a disk is being copied.

    A forcibly detached disk has no export.
    """
    disks = [disk for _, disk in owned(tree)]
    sources = [each for disk in disks for path in ("source", "mirror/source") for each in disk.findall(path)]
    return {name for source in sources if (name := source.get("name"))}


def owned(tree: ET.Element) -> list[tuple[Owner, ET.Element]]:
    """Return the disks of a domain that are volumes, each with its owner."""
    noted = _noted(tree)
    disks = tree.findall("./devices/disk[@type='network']")
    pairs = [(noted.get(target_of(disk)) or _owner(disk), disk) for disk in disks]
    return [(owner, disk) for owner, disk in pairs if owner.volume]


def _owner(disk: ET.Element) -> Owner:
    alias = disk.find("alias")
    name = alias.get("name", "") if alias is not None else ""
    return Owner(disk.findtext("serial", ""), name.removeprefix(ALIAS) if name.startswith(ALIAS) else "")


def target_of(disk: ET.Element) -> str:
    """Return the disk's name in the domain."""
    target = disk.find("target")
    return target.get("dev", "") if target is not None else ""


def names_in(*trees: ET.Element) -> set[str]:
    """Return the names of all disks of the trees."""
    return {target_of(disk) for tree in trees for disk in tree.iterfind("./devices/disk")}


def note(domain: Any, target: str, owner: Owner | None) -> None:
    """Record the owner of a disk of the running domain. None removes the record: serial number and alias
    apply again.
    """
    noted = _noted(tree_of(domain, RUNS))
    if noted.get(target) == owner:
        return
    noted.pop(target, None)
    if owner is not None:
        noted[target] = owner
    text = ET.tostring(_notes("volumes", noted), encoding="unicode") if noted else None
    flags = libvirt.VIR_DOMAIN_AFFECT_LIVE
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, KEY, NAMESPACE, flags)


def note_in(tree: ET.Element, noted: Mapping[str, Owner]) -> None:
    """Record owners of disks, by the disks' names, in the XML of a domain that is not created yet."""
    metadata = tree.find("metadata")
    if noted and metadata is not None:
        metadata.append(_notes(f"{{{NAMESPACE}}}volumes", noted))


def settle(xml: str) -> str:
    """Return the XML of a running domain as a definition: serial number and alias of each disk are its owner's."""
    tree = ET.fromstring(xml)  # noqa: S314 - libvirt's own output
    for owner, disk in owned(tree):
        serial, alias = disk.find("serial"), disk.find("alias")
        if serial is not None:
            serial.text = owner.volume
        if alias is not None and owner.attachment:
            alias.set("name", ALIAS + owner.attachment)
    for metadata in tree.findall("metadata"):
        for each in metadata.findall(f"{{{NAMESPACE}}}volumes"):
            metadata.remove(each)
    return ET.tostring(tree, encoding="unicode")


def _notes(tag: str, noted: Mapping[str, Owner]) -> ET.Element:
    element = ET.Element(tag)
    for name, found in sorted(noted.items()):
        ET.SubElement(element, "volume", target=name, id=found.volume, attachment=found.attachment)
    return element


def follow_definition(domain: Any) -> None:
    """Update the volumes in a guest's saved memory to those of its definition.

    Volumes may have been switched to other exports while the guest ran, without libvirt's knowledge.
    """
    saved = ET.fromstring(domain.managedSaveGetXMLDesc())  # noqa: S314 - libvirt's own output
    defined, changed = volumes_in(tree_of(domain, DEFINED)), False
    for volume, disk in volumes_in(saved).items():
        old, new = disk.find("source"), defined[volume].find("source") if volume in defined else None
        if old is None or new is None or place_of(old) == place_of(new):
            continue
        at = list(disk).index(old)
        disk.remove(old)
        disk.insert(at, copy.deepcopy(new))
        changed = True
    if changed:
        domain.managedSaveDefineXML(ET.tostring(saved, encoding="unicode"))


def place_of(source: ET.Element) -> tuple[str, str]:
    """Return the export of a disk's source, and its socket or address."""
    host = source.find("host")
    where = dict(host.attrib) if host is not None else {}
    return source.get("name", ""), where.get("socket") or f"{where.get('name', '')}:{where.get('port', '')}"


def _noted(tree: ET.Element) -> dict[str, Owner]:
    elements = tree.iterfind(f"./metadata/{{{NAMESPACE}}}volumes/*")
    return {each.get("target", ""): Owner(each.get("id", ""), each.get("attachment", "")) for each in elements}
