"""The memory of emulated guests, in a size with which QEMU before 9.0 migrates them without losing writes.

Without KVM, QEMU forgets to reset its address caches when it reads which pages are dirty, if the number of pages is
divisible by 64: the guest may then write to a page that was already sent, and QEMU does not send it again. Two more
pages prevent that. libvirt has only whole mebibytes; therefore these are arguments for QEMU.
"""

import xml.etree.ElementTree as ET

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
COMMAND_LINE = f"{{{QEMU}}}commandline"
BACKEND = "novella.ram"
MORE_KIB = 8

ET.register_namespace("qemu", QEMU)


def add(domain: ET.Element, memory_mb: int) -> None:
    """Give an emulated guest a little more memory than a whole number of mebibytes."""
    kib = memory_mb * 1024 + MORE_KIB
    words = ["-object", f"memory-backend-ram,id={BACKEND},size={kib}k", "-machine", f"memory-backend={BACKEND}"]
    line = ET.SubElement(domain, COMMAND_LINE)
    for word in [*words, "-m", f"{kib}k"]:
        ET.SubElement(line, f"{{{QEMU}}}arg", value=word)


def follow(mine: ET.Element, other: ET.Element) -> None:
    """Remove the additional memory, unless the running guest on the other host has it; guests that older agents have
    started do not.
    """
    line = mine.find(COMMAND_LINE)
    if line is not None and other.find(COMMAND_LINE) is None:
        mine.remove(line)
