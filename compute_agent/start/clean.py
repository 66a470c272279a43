"""``novella-agent clean``: removes the guests, networks and files of an agent that no longer runs."""

import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from compute_agent.link.credential import FILE_NAME
from compute_agent.link.errors import HostUnfitError, StartError
from compute_agent.settings import AgentSettings
from compute_agent.start import guests_folder
from compute_agent.start.assembly import STORE_NAME
from compute_agent.start.machine import LOCK_NAME, enter, libraries, lock
from compute_agent.start.options import Options
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

RemoveEverything = Callable[[AgentSettings], list[str]]
"""Removes one kind of resources. Returns a line for each."""


def clean(options: Options) -> None:
    """Remove everything that the agents with these state folders created: guests, networks, folders.

    Raises StartError if such an agent still runs, if a folder is not an agent's, or if its guests are another host's.
    """
    for settings in options.hosts:
        if settings.state_dir.exists():
            _clean_host(settings)
        else:
            log.info("There is nothing in %s.", settings.state_dir)


def _clean_host(settings: AgentSettings) -> None:
    _check_is_ours(settings.state_dir)
    lock(settings.state_dir)
    guests_folder.check(settings.state_dir)
    if settings.machine_netns is not None:
        with contextlib.suppress(HostUnfitError):  # a deleted namespace needs no cleanup
            enter(settings.machine_netns)
    if not settings.simulated and not (settings.state_dir / "fake-hypervisor.jsonl").exists():
        for cleaner in (_of_guests, _of_volumes, _of_networks):
            _call_cleaner(cleaner, settings)
    shutil.rmtree(settings.state_dir)
    log.info("Removed %s.", settings.state_dir)


def _of_guests() -> RemoveEverything:
    from compute_agent.virt.libvirt.cleanup import remove_everything  # noqa: PLC0415 - simulated hosts lack its libraries

    return remove_everything


def _of_volumes() -> RemoveEverything:
    from compute_agent.start.volume_cleanup import remove_everything  # noqa: PLC0415 - simulated hosts lack its libraries

    return remove_everything


def _of_networks() -> RemoveEverything:
    from compute_agent.network.cleanup import remove_everything  # noqa: PLC0415 - simulated hosts lack its libraries

    return remove_everything


def _call_cleaner(cleaner: Callable[[], RemoveEverything], settings: AgentSettings) -> None:
    try:
        with libraries():
            remove_everything = cleaner()
    except HostUnfitError as error:
        log.warning("Without its packages no guest can have been created: %s", error)
        return
    try:
        for line in remove_everything(settings):
            log.info("Removed %s.", line)
    except HostError as error:
        raise HostUnfitError(f"Not everything could be removed: {error.message} {error.detail}") from error


def _check_is_ours(state_dir: Path) -> None:
    """Reject a non-empty folder without any of an agent's files."""
    marks = (LOCK_NAME, STORE_NAME, FILE_NAME)
    if any(state_dir.iterdir()) and not any((state_dir / mark).exists() for mark in marks):
        raise StartError(f"{state_dir} is not the state folder of an agent; it is left alone.")
