"""Attachment and detachment of interfaces, in the running guest and in its definition."""

import xml.etree.ElementTree as ET
from functools import partial
from typing import Any

import libvirt

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.hardware import DEFAULT, Hardware
from compute_agent.virt.libvirt.connection import if_defined, translated
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.libvirt.hardware_xml import interface_xml
from compute_agent.virt.libvirt.unplugging import LETS_GO_WITHIN, unplug
from compute_agent.virt.libvirt.volume_table import DEFINED, RUNS, tree_of

_LIVE, _CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG


def attach(domain: Any, port: PortRef, hardware: Hardware = DEFAULT) -> None:
    """Attach the interface to the running guest and to its definition, unless it is attached."""
    with translated("plug the interface into the guest"):
        flags = _CONFIG if _find(domain, port, DEFINED) is None else 0
        if domain.isActive() and _find(domain, port, RUNS) is None:
            flags |= _LIVE
        if flags:
            domain.attachDeviceFlags(interface_xml(port, hardware), flags)


def detach(domain: Any, port: PortRef, patience: float = LETS_GO_WITHIN) -> None:
    """Detach the interface from the running guest, then from its definition.

    Raises UnsupportedError for a paused guest, RetryableHostError if the guest does not release the interface within
    ``patience`` seconds; the guest then keeps the interface.
    """
    with translated("unplug the interface from the guest"):
        unplug(domain, lambda: _find(domain, port, RUNS), "an interface", patience)
        interface = _find(domain, port, DEFINED)
        if interface is not None:
            domain.detachDeviceFlags(interface, _CONFIG)


def _find(domain: Any, port: PortRef, which: int) -> str | None:
    """Return the XML of the interface in the running guest or in its definition; None if it is not attached."""
    tree = ET.fromstring(domain.XMLDesc(which))  # noqa: S314 - libvirt's own output
    for interface in tree.findall("./devices/interface"):
        address = interface.find("mac")
        if address is not None and address.get("address", "").lower() == port.mac_address.lower():
            return ET.tostring(interface, encoding="unicode")
    return None


def _addresses_in(tree: ET.Element) -> list[str]:
    """Return the MAC addresses of a domain's interfaces."""
    return [mac.get("address", "").lower() for mac in tree.iterfind("./devices/interface/mac")]


class InterfaceOperations(Domains):
    """Attachment and detachment of interfaces."""

    def interfaces(self) -> dict[str, list[str]]:
        with translated("list the guests' interfaces"):
            seen = [(mark.uuid, if_defined(partial(tree_of, domain, RUNS))) for domain, mark in self._marked()]
        return {uuid: _addresses_in(tree) for uuid, tree in seen if tree is not None}

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        attach(self._domain(spec.uuid), port, guest_hardware(spec))

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        domain = self._find(spec.uuid)
        if domain is not None:
            detach(domain, port)
