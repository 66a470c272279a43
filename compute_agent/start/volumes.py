"""Assembles the volume pools of a host's settings."""

from compute_agent.settings import AgentSettings
from compute_agent.virt.processes import storage_account
from compute_agent.virt.processes.rights import Rights
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings, VolumeDriver
from compute_agent.volumes.files.qcow2 import Qcow2Driver
from compute_agent.volumes.services import Outside, Volumes

FOLDER, RESTORES, SERVED, KNOWN = "volumes", "restores", "served-volumes", "known-pools"


def make_volumes(settings: AgentSettings, daemons: Daemons, outside: Outside) -> Volumes | None:
    """Create the volumes of a host; None if it has no pool. A pool without a location is stored in the state folder."""
    made = [make_driver(settings, name) for name in settings.volume_pools]
    return Volumes(made, daemons, outside) if made else None


def make_driver(settings: AgentSettings, name: str) -> VolumeDriver:
    """Create the driver of one pool of the settings."""
    driver, _, location = settings.volume_pools[name].partition(":")
    if not location or location.startswith("?"):  # options of a simulated pool
        location = f"{settings.state_dir / FOLDER}{location}"
    account, remembered = storage_account.choose(settings.storage_user), settings.state_dir / KNOWN / name
    return drivers.make(PoolSettings(name, driver, location, settings.host, account=account, remembered=remembered))


def rights_of(settings: AgentSettings) -> Rights:
    """Return the rights of a host's storage daemons, with access to the folders of its pools."""
    chosen = storage_account.choose(settings.storage_user)
    made = [make_driver(settings, name) for name in settings.volume_pools] if chosen is not None else []
    return Rights(chosen, [each.layers.folder.absolute() for each in made if isinstance(each, Qcow2Driver)])
