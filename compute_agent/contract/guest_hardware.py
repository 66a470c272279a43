"""The current hardware of a guest: the hardware of its own image, or of the image that rescues it."""

from msgspec.structs import replace

from compute_agent.contract import hardware_properties as known
from compute_agent.contract.build import FlavorRef, ImageRef, InstanceSpec, is_cd
from compute_agent.contract.hardware import Hardware, lenient

_RESCUE = frozenset({known.RESCUE_DEVICE.image, known.RESCUE_BUS.image})


def guest_hardware(spec: InstanceSpec) -> Hardware:
    """Return the current hardware of a guest.

    In an ordinary rescue, this is the hardware of the rescue image, which must be able to boot, with the guest's own
    TPM. In a stable rescue, it is the guest's own hardware, but the rescue image decides on the channel of the guest
    agent.
    """
    own = _of(spec.image, spec.flavor)
    if spec.rescue is None:
        return own
    rescue = _of(spec.rescue.image, spec.flavor)
    if is_stable(spec):
        return replace(own, guest_agent=rescue.guest_agent, require_quiesce=False)
    return replace(rescue, tpm_version=own.tpm_version, tpm_model=own.tpm_model, require_quiesce=False)


def is_stable(spec: InstanceSpec) -> bool:
    """Return whether the rescue is stable: the rescue image is a CD, or has a property for the device or bus of the
    rescue disk. The other disks of the guest then keep their names and order.
    """
    if spec.rescue is None:
        return False
    return is_cd(spec.rescue.image) or bool(_RESCUE & spec.rescue.image.properties.keys())


def _of(image: ImageRef, flavor: FlavorRef) -> Hardware:
    return lenient(image.properties, flavor.extra_specs, flavor.vcpus)
