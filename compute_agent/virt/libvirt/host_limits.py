"""Limits of guests that depend on the host: CPU time and traffic."""

import logging
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache

from compute_agent.contract.hardware import Hardware
from compute_agent.contract.hardware_limits import CPU_TRAIT, VIF_TRAIT
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.processes.programs import SYSTEM_PATH

log = logging.getLogger(__name__)

_AS_LIBVIRT = """\
qdisc add dev lo root handle 1: htb default 1
class add dev lo parent 1: classid 1:1 htb rate 1mbit
qdisc add dev lo parent 1:1 handle 2: sfq perturb 10
filter add dev lo parent 1:0 protocol all prio 1 handle 1 fw flowid 1
qdisc add dev lo ingress
filter add dev lo parent ffff: protocol all u32 match u32 0 0 police rate 1mbit burst 10kb mtu 64kb drop flowid :1
"""
"""libvirt's requests to ``tc`` for an interface with a ``<bandwidth>`` (virNetDevBandwidthSet)."""
_SECONDS = 10.0


def traits(groups: Sequence[str]) -> Iterator[str]:
    """Yield the traits of supported limits. ``groups``: the cgroup controllers that guests can use."""
    if "cpu" in groups:
        yield CPU_TRAIT
    if limits_traffic():
        yield VIF_TRAIT


def check(hardware: Hardware, groups: Sequence[str]) -> None:
    """Raise UnsupportedError for limits that this host cannot set."""
    if hardware.cpu_limits and "cpu" not in groups:
        raise UnsupportedError("The host cannot limit processor time: guests have no control groups here.")
    if hardware.vif_limits and not limits_traffic():
        raise UnsupportedError("The host cannot limit the traffic of interfaces: its kernel lacks traffic control.")


@cache
def limits_traffic() -> bool:
    """Return whether libvirt can limit the traffic of interfaces; tested once."""
    return tries_traffic_control()


def tries_traffic_control() -> bool:
    """Return whether the kernel supports libvirt's traffic control, tested in a separate network namespace."""
    words = ["unshare", "--net", "tc", "-batch", "-"]
    try:
        done = subprocess.run(  # noqa: S603
            words, input=_AS_LIBVIRT, capture_output=True, text=True, cwd="/", timeout=_SECONDS, check=False,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("The traffic of guests cannot be limited here: %s", error)
        return False
    if done.returncode != 0:
        log.info("The traffic of guests cannot be limited here: %s", done.stderr.strip().replace("\n", "; "))
    return done.returncode == 0
