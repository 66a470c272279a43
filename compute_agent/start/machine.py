"""Preparation of the machine before the process has threads: state folders, locks, network namespace, KVM."""

import fcntl
import functools
import os
from pathlib import Path
from typing import Any

from compute_agent.link.dial import SocketOpener, here
from compute_agent.link.errors import HostUnfitError, StartError, StateInUseError
from compute_agent.settings import AgentSettings
from compute_agent.start.assembly import Machine, load
from compute_agent.start.options import Options

LOCK_NAME = "agent.lock"


def lock(state_dir: Path) -> None:
    """Lock the folder for this process until it ends.  Raises StateInUseError if another agent uses it."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"The state folder {state_dir} cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StateInUseError(f"Another agent works in {state_dir}; stop it first.") from error
    # The descriptor stays open: the kernel releases the lock when the process ends for any reason.


def enter(name: str) -> None:
    """Enter the namespace of ``machine_netns``, which must exist.  Raises HostUnfitError."""
    namespace: Any = load("compute_agent.network.kernel.namespace")
    if name not in namespace.listed(name):
        raise HostUnfitError(f"There is no network namespace {name} (--machine-netns).")
    namespace.enter(name)


def prepare(options: Options) -> Machine:
    """Prepare the machine in this order: 1. locks, 2. network namespace, 3. KVM.  Raises StartError."""
    for settings in options.hosts:
        lock(settings.state_dir)
    settings = options.hosts[0]
    if settings.simulated:
        return Machine(here, "")
    try:
        opener = enter_network(settings)
        kvm: Any = load("compute_agent.virt.libvirt.kvm")
        return Machine(opener, kvm.prepare(settings))
    except ValueError as error:
        raise HostUnfitError(f"This machine cannot be prepared for guests: {error}.") from error
    except PermissionError as error:
        raise HostUnfitError("The libvirt driver needs root: it creates bridges, taps and guests.") from error
    except OSError as error:
        raise HostUnfitError(f"This machine cannot be prepared for guests: {error}.") from error


def enter_network(settings: AgentSettings) -> SocketOpener:
    """Enter the network namespaces of the settings. Return a function that opens sockets to the portal in the namespace
    in which the agent was started.

    Raises HostUnfitError, OSError.
    """
    if settings.netns is None and settings.machine_netns is None:
        return here
    namespace: Any = load("compute_agent.network.kernel.namespace")
    opener = functools.partial(namespace.open_in, namespace.current())
    if settings.machine_netns is not None:
        enter(settings.machine_netns)
    if settings.netns is not None:
        namespace.enter(settings.netns)
    return opener
