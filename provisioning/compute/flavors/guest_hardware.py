"""Checks that an image and a flavor are compatible, and their requirements on hosts.

Contradictions follow Nova's rules (``nova.virt.hardware``) and are errors (HTTP 400). A requirement that no host meets
is not a contradiction: the scheduler then finds no valid host, and reports the reason.
"""

from collections.abc import Iterator, Mapping, Sequence

from oslo_utils import strutils

from compute_agent.contract import hardware, hardware_limits
from compute_agent.contract.hardware_properties import FIRMWARE, HardwareError, Source, property_of
from provisioning.common.errors import InvalidInputError
from provisioning.common.values import guest_demands
from provisioning.common.values.guest_demands import FLAVOR, IMAGE, SpecifiedDemand
from provisioning.compute.models import Flavor
from provisioning.scheduler import HostNeed

FIELDS = {IMAGE: "imageRef", FLAVOR: "flavorRef"}
_OTHERS = {IMAGE: (FIELDS[FLAVOR],), FLAVOR: (FIELDS[IMAGE],)}
WORDS = {IMAGE: "image's property", FLAVOR: "flavor's extra spec"}
_TRAITS: Mapping[str, str] = {
    hardware.SECURE_BOOT_TRAIT: "Secure Boot",
    hardware.STATELESS_TRAIT: "firmware without variables",
    hardware_limits.CPU_TRAIT: "limits of processor time",
    hardware_limits.VIF_TRAIT: "limits of traffic",
    "COMPUTE_FIRMWARE_UEFI": "UEFI",
    "COMPUTE_NET_VIRTIO_PACKED": "packed rings of virtio devices",
    "COMPUTE_SECURITY_TPM_1_2": "a TPM 1.2",
    "COMPUTE_SECURITY_TPM_2_0": "a TPM 2.0",
}
"""Hardware trait → its name in reasons; other traits are shown by meaning and value."""
_CLASSES_OF_FLAVORS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}
"""Resource classes that the flavor determines."""
Texts = Mapping[str, object]


def check_demands(properties: Texts, flavor: Flavor | Texts) -> None:
    """Raise InvalidInputError, for ``imageRef`` or ``flavorRef``, when the image and the flavor contradict each other.

    ``properties`` are the properties of the image, or of the volume's image. ``flavor`` may be an instance's copy.
    """
    both = _Both(properties, flavor)
    for source in (FLAVOR, IMAGE):
        for each in both.demands[source]:
            if not each.demand.accepts(each.value):
                raise InvalidInputError(f"The {WORDS[source]} {each}.", field=FIELDS[source])
    if isinstance(both.hardware, HardwareError):
        error = both.hardware
        alone = _Both(properties, {}) if error.source == IMAGE else _Both({}, flavor)
        others = () if isinstance(alone.hardware, HardwareError) else _OTHERS[error.source]
        raise InvalidInputError(
            f"The {WORDS[error.source]} {error}.", field=FIELDS[error.source], others=others
        ) from error
    for name, reason in _contradictions(both, both.hardware):
        source = IMAGE if name in properties else FLAVOR
        value = (properties if source == IMAGE else both.specs).get(name)
        message = f"The {WORDS[source]} {name}={str(value)[:80]}: {reason}."
        raise InvalidInputError(message, field=FIELDS[source], others=_OTHERS[source])


def host_needs(properties: Texts, flavor: Texts) -> tuple[HostNeed, ...]:
    """Return the requirements on a host other than resources. Demands that a launch rejects are ignored."""
    both = _Both(properties, flavor)
    needs = [
        need
        for each in (*both.demands[IMAGE], *both.demands[FLAVOR])
        if each.demand.needs_host(each.value) and (need := _need(each, flavor)) is not None
    ]
    if not isinstance(both.hardware, HardwareError):
        needs += _of_hardware(both.hardware, properties, both.specs)
    return tuple(dict.fromkeys(needs))


def _of_flavor(flavor: Flavor | Texts) -> tuple[Texts, int]:
    if isinstance(flavor, Flavor):
        return flavor.extra_specs, flavor.vcpus
    specs, vcpus = flavor.get("extra_specs"), flavor.get("vcpus")
    return specs if isinstance(specs, Mapping) else {}, vcpus if isinstance(vcpus, int) else 1


def _need(spec: SpecifiedDemand, flavor: Texts) -> HostNeed | None:
    family, _, name = spec.name.partition(":")
    if family.startswith("trait"):
        return HostNeed(spec.text, f"the trait {name}", name, forbidden=spec.value == "forbidden")
    if family.startswith("resources"):
        own = flavor.get(_CLASSES_OF_FLAVORS.get(name, ""))
        return None if own is not None and str(own) == spec.value else HostNeed(spec.text, f"{spec.value} {name}")
    return HostNeed(spec.text, spec.demand.meaning)


def _of_hardware(requested: hardware.Hardware, properties: Texts, specs: Texts) -> Iterator[HostNeed]:
    """Yield a requirement for each trait, named as in the image or flavor."""
    for trait, text in requested.demands():
        name, _, value = text.partition("=")
        known = property_of(IMAGE, name)
        if name not in properties and known is not None and known.flavor in specs:
            text = f"{known.flavor}={value}"
        elif name == FIRMWARE.image and name not in properties and requested.secure_boot == "required":
            text = "os_secure_boot=required" if "os_secure_boot" in properties else "os:secure_boot=required"
        meaning = known.meaning if known is not None else name
        yield HostNeed(text, _TRAITS.get(trait, f"{meaning} {value}"), trait)


# ----- contradictions -------------------------------------------------------------------------------------------------


class _Both:
    """Image properties and flavor extra specs, looked up by their name without prefix, and the demands in them."""

    hardware: hardware.Hardware | HardwareError
    """The error for invalid or contradictory properties of the hardware."""

    def __init__(self, properties: Texts, flavor: Flavor | Texts) -> None:
        self.properties = properties
        self.specs, vcpus = _of_flavor(flavor)
        self.demands: Mapping[Source, Sequence[SpecifiedDemand]] = {
            IMAGE: list(guest_demands.specified(IMAGE, properties)),
            FLAVOR: list(guest_demands.specified(FLAVOR, self.specs)),
        }
        try:
            self.hardware = hardware.read(properties, self.specs, vcpus)
        except HardwareError as error:
            self.hardware = error

    def image(self, name: str) -> str:
        return str(self.properties.get(f"hw_{name}") or "").strip()

    def flavor(self, name: str) -> str:
        return str(self.specs.get(f"hw:{name}") or "").strip()

    def either(self, name: str) -> str:
        return self.flavor(name) or self.image(name)

    def is_on(self, name: str) -> bool:
        return any(strutils.bool_from_string(value, default=False) for value in (self.flavor(name), self.image(name)))

    def full(self, name: str) -> str:
        """Return the full name of the property in the image, or else in the flavor."""
        return f"hw_{name}" if self.image(name) else f"hw:{name}"


_SWITCHES = ("mem_encryption", "locked_memory", "ephemeral_encryption", "cpu_realtime")
_AGREE = ("mem_encryption_model", "ephemeral_encryption_format")
_LOOSE = {"", "shared"}


def _contradictions(both: _Both, requested: hardware.Hardware) -> Iterator[tuple[str, str]]:
    """Yield names of contradicting properties with the reasons, in Nova's order."""
    for name in (*_SWITCHES, *_AGREE):
        if both.image(name) and both.flavor(name) and not _same(name, both):
            yield f"hw_{name}", f"the flavor contradicts with hw:{name}={both.flavor(name)}"
    if both.is_on("mem_encryption") and requested.firmware != "uefi":
        yield both.full("mem_encryption"), "needs hw_firmware_type=uefi"
    if both.is_on("locked_memory") and not both.either("mem_page_size"):
        yield both.full("locked_memory"), "needs a mem_page_size"
    pages = both.flavor("mem_page_size")
    if both.image("mem_page_size") and pages not in {"any", "large"}:
        yield "hw_mem_page_size", "the flavor must have hw:mem_page_size any or large for it"
    if both.image("numa_nodes") and both.flavor("numa_nodes"):
        yield "hw_numa_nodes", "the flavor has hw:numa_nodes, which images must not change"
    yield from _of_processors(both)


def _same(name: str, both: _Both) -> bool:
    if name in _SWITCHES:
        return strutils.bool_from_string(both.image(name)) is strutils.bool_from_string(both.flavor(name))
    return both.image(name) == both.flavor(name)


def _of_processors(both: _Both) -> Iterator[tuple[str, str]]:
    flavor, image = both.flavor("cpu_policy"), both.image("cpu_policy")
    if (flavor, image) in {("mixed", "dedicated"), ("shared", "dedicated"), ("shared", "mixed")}:
        yield "hw_cpu_policy", f"the flavor has hw:cpu_policy={flavor}, which images must not change"
    policy = flavor or image
    threads = both.either("cpu_thread_policy")
    if threads and both.image("cpu_thread_policy") and both.flavor("cpu_thread_policy") not in {"", "prefer", threads}:
        yield "hw_cpu_thread_policy", "the flavor contradicts with hw:cpu_thread_policy"
    explicit = [name for name in both.specs if name.startswith("resources") and name.endswith((":PCPU", ":VCPU"))]
    if policy and explicit:
        yield explicit[0], "cannot be combined with a cpu_policy"
    if policy in _LOOSE and not any(name.endswith(":PCPU") for name in explicit):
        for name, required in (("cpu_thread_policy", bool(threads)), ("cpu_realtime", both.is_on("cpu_realtime"))):
            if required:
                yield both.full(name), "needs cpu_policy=dedicated or mixed"
        if both.either("emulator_threads_policy") == "isolate":
            yield both.full("emulator_threads_policy"), "needs cpu_policy=dedicated or mixed"
        if both.either("cpu_dedicated_mask"):
            yield both.full("cpu_dedicated_mask"), "needs cpu_policy=mixed"
