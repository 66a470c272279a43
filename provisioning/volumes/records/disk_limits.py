"""The names, values and valid combinations of disk limits in QoS specs."""

from collections.abc import Mapping

KINDS = ("total", "read", "write")
LIMITS = ("bytes_sec", "iops_sec")
SIZE = "size_iops_sec"
IOTUNE = frozenset(
    f"{kind}_{limit}{burst}" for kind in KINDS for limit in LIMITS for burst in ("", "_max", "_max_length")
) | {SIZE}
"""The names of disk limits in libvirt, which Cinder's QoS specs also use."""
PER_GB = frozenset(f"{kind}_{limit}_per_gb" for kind in KINDS for limit in LIMITS)
NAMES = IOTUNE | PER_GB | {f"{name}_min" for name in PER_GB}
LARGEST = 10**15
"""Maximum value that QEMU accepts."""


def number_in(value: object) -> int | None:
    """Return the integer from 0 to LARGEST in a text, or None."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        return None
    return int(text) if int(text) <= LARGEST else None


def limits_in(specs: Mapping[str, object], size_gb: int) -> dict[str, int]:
    """Return the limits of a disk of this size by libvirt's names; invalid values are omitted.

    ``total_iops_sec_per_gb`` is multiplied by the size and is at least ``total_iops_sec_per_gb_min``, as in Cinder.
    """
    read = {name: number_in(value) for name, value in specs.items()}
    numbers = {name: value for name, value in read.items() if value is not None}
    result = {name: value for name, value in numbers.items() if name in IOTUNE}
    for name in PER_GB & numbers.keys():
        limit = max(numbers[name] * size_gb, numbers.get(f"{name}_min", 0))
        result[name.removesuffix("_per_gb")] = min(limit, LARGEST)
    return result


def kept(limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits without any that contradict others, because QEMU would then reject all of them.

    A total limit replaces read and write limits. A burst requires a limit that is not above it, and a burst length
    requires a burst.
    """
    result = dict(limits)
    for limit in LIMITS:
        if result.get(f"total_{limit}"):
            result.pop(f"read_{limit}", None)
            result.pop(f"write_{limit}", None)
        for kind in KINDS:
            name = f"{kind}_{limit}"
            usual, burst, length = (result.get(f"{name}{end}", 0) for end in ("", "_max", "_max_length"))
            if burst and not 0 < usual <= burst:
                del result[f"{name}_max"]
                burst = 0
            if length and not 0 < burst * length <= LARGEST:
                del result[f"{name}_max_length"]
    if not any(result.get(f"{kind}_iops_sec") for kind in KINDS):
        result.pop(SIZE, None)
    return result
