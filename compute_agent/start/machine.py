"""Preparation of the machine before the process has threads: state folders, locks, network namespace, KVM."""

import fcntl
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compute_agent.link.dial import SocketOpener, here
from compute_agent.link.errors import HostUnfitError, StartError, StateInUseError
from compute_agent.settings import AgentSettings
from compute_agent.start import guests_folder
from compute_agent.start.options import Options

LOCK_NAME = "agent.lock"


@dataclass(frozen=True)
class Machine:
    """The machine, as ``prepare`` returns it."""

    opener: SocketOpener
    """Opens sockets to the portal."""
    virt_type: str
    """``kvm`` or ``qemu``; empty for simulated hosts."""


@contextmanager
def libraries() -> Iterator[None]:
    """Import a module for real hypervisors in this context.

    Raises HostUnfitError if its libraries are not installed.
    """
    try:
        yield
    except ImportError as error:
        raise HostUnfitError(f"The libvirt driver needs the Python package {error.name!r}; install it.") from error


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
    with libraries():
        from compute_agent.network.kernel import namespace  # noqa: PLC0415 - simulated hosts lack its libraries
    if name not in namespace.listed(name):
        raise HostUnfitError(f"There is no network namespace {name} (--machine-netns).")
    namespace.enter(name)


def prepare(options: Options) -> Machine:
    """Prepare the machine in this order: 1. locks, 2. the folder of guests, 3. network namespace, 4. KVM.  Raises
    StartError.
    """
    for settings in options.hosts:
        lock(settings.state_dir)
    settings = options.hosts[0]
    if settings.simulated:
        return Machine(here, "")
    try:
        guests_folder.claim(settings.state_dir)
        opener = enter_network(settings)
        with libraries():
            from compute_agent.virt.libvirt import kvm  # noqa: PLC0415 - simulated hosts lack its libraries
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
    with libraries():
        from compute_agent.network.kernel import namespace  # noqa: PLC0415 - simulated hosts lack its libraries
    opener = functools.partial(namespace.open_in, namespace.current())
    if settings.machine_netns is not None:
        enter(settings.machine_netns)
    if settings.netns is not None:
        namespace.enter(settings.netns)
    return opener
