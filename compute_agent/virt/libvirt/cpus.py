"""The processors that the host offers to guests, and the processors of running guests.

libvirt compares processors by features. It writes a processor as the closest model it knows and the differences from
it, so both are expanded to the list of all features before they are compared.
"""

import logging
import threading
import xml.etree.ElementTree as ET
from collections.abc import Collection
from typing import Any

import libvirt

from compute_agent.contract.cpu import Cpu

log = logging.getLogger(__name__)

ARCHITECTURE = "x86_64"
WHOLE_HOST = ("host-passthrough", "maximum")
"""Modes in which a guest has all features of the host, except disabled ones. libvirt does not expand these modes."""


class Cpus:
    """The processors of this host and its guests. libvirt is asked once for each version and each start of a guest."""

    def __init__(self, virt_type: str) -> None:
        self._virt_type = virt_type
        self._lock = threading.Lock()
        self._seen: object = None
        self._host: Cpu | None = None
        self._guests: dict[str, tuple[int, Cpu | None]] = {}

    def of_host(self, connection: Any) -> Cpu | None:
        """Return the processor that guests can get; None if libvirt does not report it."""
        with self._lock:
            version = (connection.getVersion(), connection.getLibVersion())
            if self._seen != version:
                self._host, self._seen = _offered(connection, self._virt_type), version
            return self._host

    def of_guests(self, connection: Any, domains: Collection[Any]) -> dict[str, Cpu]:
        """Return the uuid and the processor of each of these running domains. Raises libvirtError."""
        host = self.of_host(connection)
        result: dict[str, tuple[int, Cpu | None]] = {}
        for domain in domains:
            uuid, start = domain.UUIDString(), domain.ID()
            known = self._guests.get(uuid)
            result[uuid] = known if known and known[0] == start else (start, self._read(connection, domain, host))
        self._guests = result
        return {uuid: cpu for uuid, (_, cpu) in result.items() if cpu is not None}

    def _read(self, connection: Any, domain: Any, host: Cpu | None) -> Cpu | None:
        element = ET.fromstring(domain.XMLDesc(0)).find("cpu")  # noqa: S314 - libvirt's own output
        if element is None:
            return None
        if element.get("mode") in WHOLE_HOST:
            without = {each.get("name") for each in element.findall("feature[@policy='disable']")}
            return host and Cpu(host.model, host.vendor, [name for name in host.features if name not in without])
        return _expanded_or_none(connection, element, self._virt_type)


def offered_features(connection: Any, capabilities: ET.Element, virt_type: str) -> Cpu | None:
    """Return the processor in the domain capabilities; None if they have none. Raises libvirtError."""
    host = capabilities.find("cpu/mode[@name='host-model'][@supported='yes']")
    if host is None:
        return None
    cpu = ET.Element("cpu")
    cpu.extend(list(host))
    return _expanded(connection, cpu, virt_type)


def _offered(connection: Any, virt_type: str) -> Cpu | None:
    try:
        text = connection.getDomainCapabilities(None, ARCHITECTURE, None, virt_type, 0)
        return offered_features(connection, ET.fromstring(text), virt_type)  # noqa: S314 - libvirt's own output
    except (libvirt.libvirtError, ET.ParseError) as error:
        log.warning("libvirt does not report the processor of guests on this host: %s", error)
        return None


def _expanded_or_none(connection: Any, cpu: ET.Element, virt_type: str) -> Cpu | None:
    try:
        return _expanded(connection, cpu, virt_type)
    except (libvirt.libvirtError, ET.ParseError) as error:
        log.warning("libvirt does not expand the processor of a guest: %s", error)
        return None


def _expanded(connection: Any, cpu: ET.Element, virt_type: str) -> Cpu:
    flags = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    text = connection.baselineHypervisorCPU(
        None, ARCHITECTURE, None, virt_type, [ET.tostring(cpu, encoding="unicode")], flags
    )
    whole = ET.fromstring(text)  # noqa: S314 - libvirt's own output
    features = {each.get("name", "") for each in whole.findall("feature[@policy='require']")}
    vendor = whole.findtext("vendor") or cpu.findtext("vendor") or ""
    return Cpu((whole.findtext("model") or "").strip(), vendor.strip(), sorted(features - {""}))
