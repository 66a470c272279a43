"""Processors in hosts' reports, limited to names that libvirt uses."""

import re

from compute_agent.contract.cpu import Cpu

MOST_FEATURES = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def plausible(cpu: Cpu) -> Cpu:
    """Return a reported processor without names that no libvirt reports."""
    features = sorted({name for name in cpu.features[:MOST_FEATURES] if _NAME.fullmatch(name)})
    model, vendor = (text if _NAME.fullmatch(text) else "" for text in (cpu.model, cpu.vendor))
    return Cpu(model, vendor, features)
