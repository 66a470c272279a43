"""The traits of a host: the hardware that its libvirt, QEMU, firmware and swtpm support for guests."""

import logging
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import Any

import libvirt

from compute_agent.contract import hardware_properties as known
from compute_agent.contract.hardware import SECURE_BOOT_TRAIT, STATELESS_TRAIT
from compute_agent.virt.libvirt import cpus, host_limits, tpm
from compute_agent.virt.libvirt import firmware as firmwares
from compute_agent.virt.libvirt.cpus import ARCHITECTURE
from compute_agent.virt.libvirt.firmware import Firmware

log = logging.getLogger(__name__)

CPU = "HW_CPU_X86"
FEATURES = {
    "3dnow": "3DNOW", "abm": "ABM", "aes": "AESNI", "amx-bf16": "AMXBF16", "amx-int8": "AMXINT8", "amx-tile": "AMXTILE",
    "avx": "AVX", "avx2": "AVX2", "avx512bw": "AVX512BW", "avx512cd": "AVX512CD", "avx512dq": "AVX512DQ",
    "avx512er": "AVX512ER", "avx512f": "AVX512F", "avx512pf": "AVX512PF", "avx512vl": "AVX512VL",
    "avx512vnni": "AVX512VNNI", "avx512vbmi": "AVX512VBMI", "avx512ifma": "AVX512IFMA", "avx512vbmi2": "AVX512VBMI2",
    "avx512bitalg": "AVX512BITALG", "vaes": "AVX512VAES", "gfni": "AVX512GFNI", "vpclmulqdq": "AVX512VPCLMULQDQ",
    "avx512-vpopcntdq": "AVX512VPOPCNTDQ", "bmi1": "BMI", "bmi2": "BMI2", "pclmuldq": "CLMUL", "f16c": "F16C",
    "fma": "FMA3", "fma4": "FMA4", "mmx": "MMX", "mpx": "MPX", "sha-ni": "SHA", "sse": "SSE", "sse2": "SSE2",
    "pni": "SSE3", "sse4.1": "SSE41", "sse4.2": "SSE42", "sse4a": "SSE4A", "ssse3": "SSSE3", "svm": "SVM AMD_SVM",
    "tbm": "TBM", "vmx": "VMX INTEL_VMX", "xop": "XOP",
}  # fmt: skip
"""libvirt's names of CPU features → suffixes of their traits."""
MODERN_QEMU = 8_000_000
"""The version that added the network card igb."""


class Traits:
    """The traits of this host. They are computed again when firmware or swtpm is installed or removed."""

    def __init__(self, virt_type: str, groups: Sequence[str] = ()) -> None:
        """``groups``: the cgroup controllers that guests can use."""
        self._virt_type, self._groups = virt_type, groups
        self._seen: object = None
        self._found: tuple[str, ...] = ()

    def of(self, connection: Any) -> tuple[str, ...]:
        now = (firmwares.known(), tpm.installed())
        if self._seen != now:
            more = host_limits.traits(self._groups)
            self._found, self._seen = tuple(sorted({*traits_of(connection, self._virt_type), *more})), now
        return self._found


def traits_of(connection: Any, virt_type: str) -> tuple[str, ...]:
    """Return the traits of a host, sorted. Traits that cannot be determined are omitted."""
    traits = {CPU.removesuffix("_CPU_X86") + "_ARCH_X86_64", "COMPUTE_FIRMWARE_BIOS", known.PACKED.trait}
    try:
        pc, q35 = (_capabilities(connection, machine, virt_type) for machine in ("pc", "q35"))
        firmware = firmwares.known()
        traits |= set(_firmware(firmware))
        traits |= set(_devices(pc, q35, connection.getVersion()))
        traits |= set(_machines(connection.getCapabilities()))
        traits |= set(_processor(connection, q35, virt_type))
    except (libvirt.libvirtError, ET.ParseError) as error:
        log.warning("libvirt does not report all capabilities of this host: %s", error)
    return tuple(sorted(traits - {""}))


def _capabilities(connection: Any, machine: str, virt_type: str) -> ET.Element:
    text = connection.getDomainCapabilities(None, ARCHITECTURE, machine, virt_type, 0)
    return ET.fromstring(text)  # noqa: S314 - libvirt's own output


def _values(tree: ET.Element, path: str, enum: str) -> list[str]:
    """Return the values of an enumeration, if the part is supported."""
    part = tree.find(path)
    if part is None or part.get("supported") != "yes":
        return []
    return [value.text or "" for value in part.findall(f"enum[@name='{enum}']/value")]


def _firmware(firmware: Sequence[Firmware]) -> Iterator[str]:
    if any(not each.smm for each in firmware):
        yield known.FIRMWARE.trait_of("uefi")
        yield STATELESS_TRAIT
    if any(each.secure_boot for each in firmware):
        yield SECURE_BOOT_TRAIT


def _devices(pc: ET.Element, q35: ET.Element, version: int) -> Iterator[str]:
    for bus in {*_values(pc, "devices/disk", "bus"), *_values(q35, "devices/disk", "bus")} & {*known.DISK_BUS.values}:
        yield f"{known.DISK_BUS.trait}_{bus.upper()}"
    for model in {*_values(q35, "devices/video", "modelType")} & {*known.VIDEO_MODEL.values}:
        yield f"{known.VIDEO_MODEL.trait}_{model.upper()}"
    for model in known.VIF_MODEL.values:
        if model != "igb" or version >= MODERN_QEMU:
            yield f"{known.VIF_MODEL.trait}_{model.upper()}"
    yield from (known.SOUND.trait_of(model) for model in known.SOUND.values)
    yield from (known.USB.trait_of(model) for model in ("nec-xhci", "qemu-xhci"))
    backends = _values(q35, "devices/tpm", "backendModel")
    if "external" in backends and tpm.installed():
        yield from (known.TPM_MODEL.trait_of(model) for model in _values(q35, "devices/tpm", "model"))
        yield from (known.TPM_VERSION.trait_of(each) for each in known.TPM_VERSION.values)


def _machines(capabilities: str) -> Iterator[str]:
    guests = ET.fromstring(capabilities).findall("guest/arch[@name='x86_64']/machine")  # noqa: S314 - libvirt's own
    for machine in guests:
        name = (machine.text or "").strip()
        if name.startswith(("pc-i440fx-", "pc-q35-")):
            yield known.MACHINE.trait_of(name)


def _processor(connection: Any, tree: ET.Element, virt_type: str) -> Iterator[str]:
    for mode in tree.findall("cpu/mode[@supported='yes']"):
        yield known.CPU_MODE.trait_of(mode.get("name", ""))
    for model in tree.findall("cpu/mode[@name='custom']/model[@usable='yes']"):
        yield known.CPU_MODEL.trait_of((model.text or "").strip())
    if (os.cpu_count() or 1) > 1 and virt_type == "kvm" and _has_threads(connection):
        yield "HW_CPU_HYPERTHREADING"
    offered = cpus.offered_features(connection, tree, virt_type)
    for feature in offered.features if offered is not None else ():
        for name in FEATURES.get(feature, "").split():
            yield f"{CPU}_{name}"


def _has_threads(connection: Any) -> bool:
    return bool(connection.getInfo()[7] > 1)
