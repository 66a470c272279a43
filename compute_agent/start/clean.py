"""``novella-agent clean``: removes the guests, networks and files of an agent that no longer runs."""

import contextlib
import logging
import shutil
from pathlib import Path
from typing import Any

from compute_agent.link.credential import FILE_NAME
from compute_agent.link.errors import HostUnfitError, StartError
from compute_agent.settings import AgentSettings
from compute_agent.start.assembly import STORE_NAME, load
from compute_agent.start.machine import LOCK_NAME, enter, lock
from compute_agent.start.options import Options
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

CLEANERS = ("compute_agent.virt.libvirt.cleanup", "compute_agent.start.volume_cleanup", "compute_agent.network.cleanup")


def clean(options: Options) -> None:
    """Remove everything that the agents with these state folders created: guests, networks, folders.

    Raises StartError if such an agent still runs, or if a folder is not an agent's.
    """
    for settings in options.hosts:
        if settings.state_dir.exists():
            _clean_host(settings)
        else:
            log.info("There is nothing in %s.", settings.state_dir)


def _clean_host(settings: AgentSettings) -> None:
    _check_is_ours(settings.state_dir)
    lock(settings.state_dir)
    if settings.machine_netns is not None:
        with contextlib.suppress(HostUnfitError):  # a deleted namespace needs no cleanup
            enter(settings.machine_netns)
    if not settings.simulated and not (settings.state_dir / "fake-hypervisor.jsonl").exists():
        for name in CLEANERS:
            _call_cleaner(name, settings)
    shutil.rmtree(settings.state_dir)
    log.info("Removed %s.", settings.state_dir)


def _call_cleaner(name: str, settings: AgentSettings) -> None:
    try:
        cleaner: Any = load(name)
    except HostUnfitError as error:
        log.warning("Without its packages no guest can have been created: %s", error)
        return
    try:
        for line in cleaner.remove_everything(settings):
            log.info("Removed %s.", line)
    except HostError as error:
        raise HostUnfitError(f"Not everything could be removed: {error.message} {error.detail}") from error


def _check_is_ours(state_dir: Path) -> None:
    """Reject a non-empty folder without any of an agent's files."""
    marks = (LOCK_NAME, STORE_NAME, FILE_NAME)
    if any(state_dir.iterdir()) and not any((state_dir / mark).exists() for mark in marks):
        raise StartError(f"{state_dir} is not the state folder of an agent; it is left alone.")
