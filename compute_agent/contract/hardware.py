"""The hardware of a guest, determined by its image's properties and its flavor's extra specs.

The portal validates launches and schedules with it; hosts create the guest's definition from it. As in Nova, image and
flavor must agree if both specify a value, unless stated otherwise here.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from compute_agent.contract import hardware_properties as known
from compute_agent.contract.build import Frozen
from compute_agent.contract.hardware_limits import CPU, CPU_TRAIT, VIF, VIF_TRAIT, limits_of
from compute_agent.contract.hardware_properties import (
    OLD_NAMES,
    REFUSED,
    HardwareError,
    Property,
    Source,
    property_of,
)

log = logging.getLogger(__name__)

SECURE_BOOT_TRAIT = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
STATELESS_TRAIT = "COMPUTE_SECURITY_STATELESS_FIRMWARE"
MOST_QUEUES = 256
"""Limit of a tap device of Linux."""
MOST_PARTS = 65536
"""The maximum number of sockets, cores or threads if none is specified."""
PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd"}
"""Bus → prefix of its disks' names."""
COLD_BUSES = ("ide", "sata")
"""Buses on which QEMU attaches and detaches no disk while the guest runs."""
_SEEDS, _SEED_BESIDE_IDE = {"ide": "hda", "sata": "sdf", "scsi": "sdo", "usb": "sdo"}, "hdd"
_FLAG = re.compile(r"[+-]?[a-z0-9_.-]{1,64}")


def every_trait() -> tuple[str, ...]:
    """Return the traits of a host that supports all hardware values listed in ``hardware_properties``, except versions
    of chipsets and CPU models.
    """
    traits = {SECURE_BOOT_TRAIT, STATELESS_TRAIT, known.PACKED.trait, CPU_TRAIT, VIF_TRAIT}
    traits |= {each.trait_of(value) for each in known.PROPERTIES for value in each.values}
    traits |= {
        f"{each.trait}_{value.upper()}"
        for each in (known.FIRMWARE, known.DISK_BUS, known.VIF_MODEL, known.VIDEO_MODEL)
        for value in each.everywhere
    }
    return tuple(sorted(traits - {""}))


class Topology(Frozen, frozen=True):
    """The vCPU topology of a guest. The product of its fields is the number of vCPUs."""

    sockets: int
    cores: int
    threads: int


class Hardware(Frozen, frozen=True):
    """The hardware of a guest, except its size."""

    firmware: Literal["bios", "uefi"] = "bios"
    firmware_stateless: bool = False
    secure_boot: Literal["disabled", "optional", "required"] = "disabled"
    """``optional``: the guest has Secure Boot if its host supports it."""
    tpm_version: str = ""  # empty: no TPM
    tpm_model: str = ""
    machine: str = "pc"
    disk_bus: str = "virtio"
    cdrom_bus: str = "ide"
    scsi_model: str = "virtio-scsi"
    vif_model: str = "virtio"
    vif_queues: int = 1
    packed_rings: bool = False
    video_model: str = "vga"
    video_ram_mb: int = 0  # 0: the model's own
    input_bus: str = ""  # of keyboard and tablet; empty: PS/2
    tablet: bool = False  # on USB
    sound_model: str = ""
    usb_model: str = ""  # empty: a controller only if needed
    cpu_mode: str = ""  # empty: the host's default
    cpu_model: str = ""
    cpu_flags: dict[str, bool] = {}  # feature → whether the guest has it
    topology: Topology | None = None
    pmu: bool | None = None
    hpet: bool | None = None
    hide_hypervisor: bool = False
    watchdog_action: str = ""  # empty: no watchdog
    rng: bool = True
    rng_bytes: int = 0  # 0: without limit
    rng_period_ms: int = 0
    guest_agent: bool = False
    require_quiesce: bool = False
    windows: bool = False
    boot_menu: bool = False
    command_line: str = ""  # empty: the host's own
    config_drive: bool = False
    disk_limits: dict[str, int] = {}  # of each local disk, by libvirt's names: read_bytes_sec …
    vif_limits: dict[str, dict[str, int]] = {}  # inbound, outbound → average and peak in kB/s, burst in kB
    cpu_limits: dict[str, int] = {}  # shares (a weight), period and quota of each vCPU in µs
    serial_ports: int = 1

    @property
    def q35(self) -> bool:
        return self.machine.startswith(("q35", "pc-q35"))

    @property
    def root_device(self) -> str:
        """The name of the root disk in the guest."""
        return f"{PREFIXES[self.disk_bus]}a"

    @property
    def seed_device(self) -> str:
        """The name of the CD-ROM drive with the seed. It is the last unit of a controller that other
        devices also use.
        """
        return _SEED_BESIDE_IDE if self.cdrom_bus == self.disk_bus == "ide" else _SEEDS[self.cdrom_bus]

    @property
    def traits_needed(self) -> frozenset[str]:
        """Traits that the guest's host must have. Values that every host supports need none."""
        return frozenset(trait for trait, _ in self.demands())

    def demands(self) -> Iterator[tuple[str, str]]:
        """Yield each required trait with the property that requires it, such as ``hw_vif_model=e1000``."""
        if self.secure_boot == "required":
            yield SECURE_BOOT_TRAIT, f"{known.SECURE_BOOT.image}=required"
        if self.firmware_stateless:
            yield STATELESS_TRAIT, f"{known.STATELESS.image}=true"
        if self.packed_rings:
            yield known.PACKED.trait, f"{known.PACKED.image}=true"
        for each, value in (
            (known.FIRMWARE, self.firmware),
            (known.TPM_VERSION, self.tpm_version),
            (known.TPM_MODEL, self.tpm_model),
            (known.MACHINE, self.machine),
            (known.DISK_BUS, self.disk_bus),
            (known.CDROM_BUS, self.cdrom_bus),
            (known.VIF_MODEL, self.vif_model),
            (known.VIDEO_MODEL, self.video_model),
            (known.SOUND, self.sound_model),
            (known.USB, self.usb_model),
            (known.CPU_MODE, self.cpu_mode),
            (known.CPU_MODEL, self.cpu_model),
        ):
            trait = each.trait_of(value)
            if trait:
                yield trait, f"{each.image}={value}"
        for part, limit in self.cpu_limits.items():
            yield CPU_TRAIT, f"{CPU}{part}={limit}"
        for way, parts in self.vif_limits.items():
            yield VIF_TRAIT, f"{VIF}{way}_average={parts['average']}"


DEFAULT = Hardware()
"""The hardware of a guest whose image and flavor specify none."""


def lenient(properties: Mapping[str, object], extra_specs: Mapping[str, object], vcpus: int) -> Hardware:
    """Like ``read``, but ignores invalid values. Launches reject them, but older guests may have some."""
    values: dict[Source, dict[str, object]] = {"image": dict(properties), "flavor": dict(extra_specs)}
    while True:
        try:
            return read(values["image"], values["flavor"], vcpus)
        except HardwareError as error:
            log.warning("A guest is defined without %s", error)
            names = OLD_NAMES[error.source]
            wrong = [name for name in values[error.source] if names.get(name, name) == error.name]
            if not wrong:
                raise
            for name in wrong:
                del values[error.source][name]


def read(properties: Mapping[str, object], extra_specs: Mapping[str, object], vcpus: int) -> Hardware:
    """Return the hardware of a guest; unknown names are ignored.

    Raises HardwareError for an invalid value, for contradictions of image and flavor, and for invalid combinations.
    """
    requested = _RequestedHardware(properties, extra_specs)
    if not requested.image and not requested.flavor:
        return DEFAULT
    firmware = _firmware(requested)
    rest = (
        _disks(requested, firmware)
        | _network(requested, vcpus)
        | _desk(requested)
        | _cpu(requested, vcpus)
        | _rest(requested)
    )
    return msgspec.convert(firmware | rest, Hardware)


class _RequestedHardware:
    """The hardware properties of an image and a flavor, as name → value in normalized spelling."""

    def __init__(self, properties: Mapping[str, object], extra_specs: Mapping[str, object]) -> None:
        self.image = dict(_values("image", properties))
        self.flavor = dict(_values("flavor", extra_specs))

    def one(self, known_property: Property) -> str:
        """Return the value that the image or the flavor specifies; empty if neither does. Raises HardwareError if image
        and flavor specify different values.
        """
        image, flavor = self.image.get(known_property.image, ""), self.flavor.get(known_property.flavor, "")
        if image and flavor and image != flavor:
            raise HardwareError(
                known_property.image, image, f"the flavor contradicts with {known_property.flavor}={flavor}"
            )
        return flavor or image

    def image_first(self, known_property: Property) -> str:
        return self.image.get(known_property.image) or self.flavor.get(known_property.flavor, "")

    def switch(self, known_property: Property) -> bool | None:
        text = self.one(known_property)
        return text == "true" if text else None

    def number(self, known_property: Property, source: Source) -> int:
        return int((self.image if source == "image" else self.flavor).get(known_property.name_in(source), "0"))

    def refuse(self, known_property: Property, reason: str) -> HardwareError:
        source: Source = "image" if known_property.image in self.image else "flavor"
        name = known_property.name_in(source)
        return HardwareError(name, (self.image if source == "image" else self.flavor).get(name, ""), reason, source)


def _values(source: Source, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        text = "" if value is None else str(value)
        if not text.strip():
            continue
        if name in REFUSED:
            raise HardwareError(name, text, REFUSED[name], source)
        found = property_of(source, name)
        if found is not None:
            yield found.name_in(source), found.read(text, source)


def _firmware(requested: _RequestedHardware) -> dict[str, object]:
    """Read the firmware. Required Secure Boot implies UEFI and the chipset q35, unless other values are specified."""
    firmware, machine = requested.one(known.FIRMWARE), requested.one(known.MACHINE)
    secure, stateless = requested.one(known.SECURE_BOOT) or "disabled", requested.switch(known.STATELESS) or False
    q35 = machine.startswith(("q35", "pc-q35"))
    if secure == "required":
        if firmware == "bios":
            raise requested.refuse(known.SECURE_BOOT, f"needs {known.FIRMWARE.image}=uefi")
        if machine and not q35:
            raise requested.refuse(known.SECURE_BOOT, f"needs {known.MACHINE.image}=q35")
        firmware, machine = "uefi", machine or "q35"
    elif secure == "optional" and (firmware != "uefi" or (machine and not q35)):
        secure = "disabled"
    if stateless and firmware != "uefi":
        raise requested.refuse(known.STATELESS, f"needs {known.FIRMWARE.image}=uefi")
    if stateless and secure == "required":
        raise requested.refuse(known.STATELESS, "the keys of Secure Boot are stored in the firmware's variables")
    version, model = requested.one(known.TPM_VERSION), requested.one(known.TPM_MODEL)
    if model and not version:
        raise requested.refuse(known.TPM_MODEL, f"needs {known.TPM_VERSION.image}")
    if model == "tpm-crb" and version != "2.0":
        raise requested.refuse(known.TPM_MODEL, f"needs {known.TPM_VERSION.image}=2.0")
    return {
        "firmware": firmware or "bios",
        "firmware_stateless": stateless,
        "secure_boot": secure if not stateless else "disabled",
        "machine": machine or ("q35" if secure == "optional" and firmware == "uefi" else "pc"),
        "tpm_version": version,
        "tpm_model": model or ("tpm-tis" if version else ""),
    }


def _disks(requested: _RequestedHardware, firmware: Mapping[str, object]) -> dict[str, object]:
    q35 = str(firmware["machine"]).startswith(("q35", "pc-q35"))
    for known_property in (known.DISK_BUS, known.CDROM_BUS):
        if q35 and requested.one(known_property) == "ide":
            raise requested.refuse(
                known_property, f"the chipset q35 has no IDE; needs {known.MACHINE.image}=pc, or sata"
            )
    return {
        "disk_bus": requested.one(known.DISK_BUS) or "virtio",
        "cdrom_bus": requested.one(known.CDROM_BUS) or ("sata" if q35 else "ide"),
        "scsi_model": requested.one(known.SCSI_MODEL) or "virtio-scsi",
    }


def _network(requested: _RequestedHardware, vcpus: int) -> dict[str, object]:
    model, queues = requested.one(known.VIF_MODEL) or "virtio", requested.switch(known.MULTIQUEUE)
    if queues and model != "virtio":
        raise requested.refuse(known.MULTIQUEUE, f"needs {known.VIF_MODEL.image}=virtio")
    return {
        "vif_model": model,
        "vif_queues": min(vcpus, MOST_QUEUES) if queues else 1,
        "packed_rings": requested.switch(known.PACKED) or False,
    }


def _desk(requested: _RequestedHardware) -> dict[str, object]:
    """Read graphics, sound and input devices."""
    ram, most = requested.number(known.VIDEO_RAM, "image"), requested.number(known.VIDEO_MAX, "flavor")
    if ram > most:
        reason = f"the flavor allows {most} MiB ({known.VIDEO_MAX.flavor})"
        raise HardwareError(known.VIDEO_RAM.image, str(ram), reason)
    bus, tablet, usb = requested.one(known.INPUT_BUS), requested.one(known.POINTER) != "", requested.one(known.USB)
    if usb == "none":
        for known_property in (known.INPUT_BUS, known.POINTER, known.SOUND, known.DISK_BUS, known.CDROM_BUS):
            if requested.one(known_property).startswith("usb"):
                raise requested.refuse(known_property, f"contradicts {known.USB.image}=none")
    return {
        "video_model": requested.one(known.VIDEO_MODEL) or "vga",
        "video_ram_mb": ram,
        "input_bus": bus,
        "tablet": tablet,
        "sound_model": requested.one(known.SOUND),
        "usb_model": usb,
    }


def _cpu(requested: _RequestedHardware, vcpus: int) -> dict[str, object]:
    mode, model = requested.one(known.CPU_MODE), requested.image.get(known.CPU_MODEL.image, "")
    if mode == "custom" and not model:
        raise requested.refuse(known.CPU_MODE, f"needs {known.CPU_MODEL.image}")
    if model and mode not in {"", "custom"}:
        raise requested.refuse(known.CPU_MODEL, f"needs {known.CPU_MODE.image}=custom")
    hidden = (requested.image.get(known.HIDE.image), requested.flavor.get(known.HIDE.flavor))
    return {
        "cpu_mode": mode or ("custom" if model else ""),
        "cpu_model": model,
        "cpu_flags": dict(_flags(requested)),
        "topology": _topology(requested, vcpus),
        "pmu": requested.switch(known.PMU),
        "hpet": requested.switch(known.HPET),
        "hide_hypervisor": "true" in hidden,
    }


def _flags(requested: _RequestedHardware) -> Iterator[tuple[str, bool]]:
    text = requested.image.get(known.CPU_FLAGS.image, "").lower()
    for flag in filter(None, (each.strip() for each in text.split(","))):
        if not _FLAG.fullmatch(flag):
            raise requested.refuse(known.CPU_FLAGS, "must be names of CPU features, such as +aes,-avx2")
        yield flag.lstrip("+-"), not flag.startswith("-")


def _topology(requested: _RequestedHardware, vcpus: int) -> Topology | None:
    """Return the topology that is closest to the preferred one within the limits; None if image and flavor specify
    none.

    The image may only specify stricter limits than the flavor. Sockets are preferred to cores, and cores to threads.
    """
    named = known.TOPOLOGY
    if not any(each.image in requested.image or each.flavor in requested.flavor for each in named):
        return None
    limits = []
    for each in named[3:]:
        image, flavor = requested.number(each, "image"), requested.number(each, "flavor")
        if flavor and image > flavor:
            raise HardwareError(each.image, str(image), f"the flavor allows {flavor} ({each.flavor})")
        limits.append(image or flavor or MOST_PARTS)
    from_image = [requested.number(each, "image") for each in named[:3]]
    from_flavor = [requested.number(each, "flavor") for each in named[:3]]
    for each, preferred, limit in zip(named, from_image, limits, strict=False):
        if preferred > limit:
            raise HardwareError(each.image, str(preferred), f"at most {limit} are allowed")
    if any(preferred > limit for preferred, limit in zip(from_flavor, limits, strict=True)):
        from_flavor = [0, 0, 0]
    preferred_parts = from_image if any(from_image) else from_flavor
    possible = [
        Topology(sockets=sockets, cores=cores, threads=vcpus // sockets // cores)
        for sockets in range(1, min(vcpus, limits[0]) + 1) if vcpus % sockets == 0
        for cores in range(1, min(vcpus // sockets, limits[1]) + 1) if vcpus // sockets % cores == 0
        if vcpus // sockets // cores <= limits[2]
    ]  # fmt: skip
    if not possible:
        raise requested.refuse(
            next(each for each in named[3:] if each.image in requested.image or each.flavor in requested.flavor),
            f"{vcpus} vCPUs are not possible within these limits",
        )

    def rank(found: Topology) -> tuple[int, int, int]:
        parts = (found.sockets, found.cores, found.threads)
        agreed = sum(1 for part, preferred in zip(parts, preferred_parts, strict=True) if part == preferred)
        return agreed, found.sockets * found.cores, found.sockets

    return max(possible, key=rank)


def _rest(requested: _RequestedHardware) -> dict[str, object]:
    watchdog, agent = requested.image_first(known.WATCHDOG), requested.switch(known.AGENT) or False
    bytes_, period = requested.number(known.RNG_BYTES, "flavor"), requested.number(known.RNG_PERIOD, "flavor")
    return {
        "watchdog_action": "" if watchdog == "disabled" else watchdog,
        "boot_menu": requested.image_first(known.BOOT_MENU) == "true",
        "rng": requested.flavor.get(known.RNG_ALLOWED.flavor, "true") == "true",
        "rng_bytes": bytes_,
        "rng_period_ms": period if bytes_ else 0,
        "guest_agent": agent,
        "require_quiesce": requested.switch(known.QUIESCE) or False,
        "windows": requested.one(known.OS_TYPE) == "windows",
        "command_line": requested.image.get(known.COMMAND_LINE.image, ""),
        "config_drive": requested.one(known.CONFIG_DRIVE) == "mandatory",
        "serial_ports": _serial_ports(requested),
        **limits_of(requested.flavor),
    }


def _serial_ports(requested: _RequestedHardware) -> int:
    """Return the number of serial ports. The image's number must not exceed the flavor's."""
    image, flavor = requested.number(known.SERIAL_PORTS, "image"), requested.number(known.SERIAL_PORTS, "flavor")
    if flavor and image > flavor:
        reason = f"the flavor allows {flavor} ({known.SERIAL_PORTS.flavor})"
        raise HardwareError(known.SERIAL_PORTS.image, str(image), reason)
    return image or flavor or 1
