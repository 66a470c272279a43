"""Which exports a running domain has open, by libvirt's own description."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from compute_agent.virt.libvirt.volume_table import NAMESPACE, exports_in

DISK = """<disk type='network'><source protocol='nbd' name='{name}'/>{more}<target dev='{dev}'/>
<serial>{serial}</serial><alias name='ua-{serial}'/></disk>"""
COPY = "<mirror type='network' job='copy'><source protocol='nbd' name='v2.a2.1'/></mirror>"
FILE = "<disk type='file'><source file='/x'/><target dev='vda'/></disk>"
TAKEN = f"<n:volumes xmlns:n='{NAMESPACE}'><volume target='vdc' id='' attachment=''/></n:volumes>"


def domain(metadata: str = "") -> ET.Element:
    first = DISK.format(name="v1.a1.1", dev="vdb", serial="v1", more=COPY)
    second = DISK.format(name="v3.a3.1", dev="vdc", serial="v3", more="")
    devices = f"<devices>{first}{second}{FILE}</devices>"
    return ET.fromstring(f"<domain><metadata>{metadata}</metadata>{devices}</domain>")  # noqa: S314 - our own text


def test_disks_and_the_targets_of_copies_are_open_and_what_was_taken_by_force_is_not() -> None:
    assert exports_in(domain()) == {"v1.a1.1", "v2.a2.1", "v3.a3.1"}
    assert exports_in(domain(TAKEN)) == {"v1.a1.1", "v2.a2.1"}
