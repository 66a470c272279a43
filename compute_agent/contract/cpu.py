"""Processors of guests, in messages."""

from compute_agent.contract.build import Frozen


class Cpu(Frozen, frozen=True):
    """A processor as guests see it, in libvirt's names: the closest model, the vendor, and all features, sorted.

    Model and vendor are empty if libvirt does not name them.
    """

    model: str
    vendor: str
    features: list[str]


class RunningCpu(Frozen, frozen=True):
    """The processor that these running guests were started with."""

    cpu: Cpu
    guests: list[str]  # ids


MOST_CPUS = 100
"""Limit of different processors in one audit."""
