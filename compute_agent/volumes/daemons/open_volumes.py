"""Work on volumes through storage daemons: the daemon that serves the volume, or a daemon for this work only."""

import contextlib
import logging
import os
import time
from collections.abc import Iterator

from compute_agent.contract.volume import VolumeSpec
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, StoppedError
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.qmp import Qmp
from compute_agent.volumes.driver import VolumeDriver
from compute_agent.volumes.watch import PoolWatch

log = logging.getLogger(__name__)

MERGE_SECONDS = 20.0
"""Seconds for which a volume's layers are merged or copied without a break: commands may need the volume."""


class OpenVolumes:
    """Works on volumes of one host through daemons. The caller holds the volume's lock (``Daemons.locked``)."""

    def __init__(self, daemons: Daemons) -> None:
        self._daemons = daemons

    @contextlib.contextmanager
    def opened(self, driver: VolumeDriver, volume_id: str) -> Iterator[Qmp | None]:
        """Yield the volume's daemon, which is started again if it has died; None if the volume is not served."""
        description = self._daemons.description(volume_id)
        if description is not None:
            self._daemons.repair(driver, description)
        with self._daemons.opened(volume_id) as daemon:
            yield daemon

    @contextlib.contextmanager
    def alone(self, driver: VolumeDriver, volume: VolumeSpec) -> Iterator[Qmp]:
        """Yield a daemon that is started only for this work: it opens a volume that no client uses, and exports
        nothing.
        """
        held = driver.hold(volume.id)
        try:
            with self._daemons.at_work(f"merge-{volume.id}", driver.opening(volume), held) as daemon:
                yield daemon
        finally:
            for descriptor in held:
                os.close(descriptor)

    def merge(self, driver: VolumeDriver, volume: VolumeSpec, stopped: Stopped) -> None:
        """Merge the unneeded layers of a closed volume, for a limited time. The rest is merged by a later call."""
        until = time.monotonic() + MERGE_SECONDS
        try:
            if driver.can_merge(volume.id):
                with self.alone(driver, volume) as daemon:
                    driver.merge(volume, daemon, lambda: stopped() or time.monotonic() > until)
        except HostError as error:
            log.info("Layers of volume %s cannot be removed yet: %s %s", volume.id, error.message, error.detail)

    def flatten(self, driver: VolumeDriver, volume: VolumeSpec, stopped: Stopped, *, everything: bool = False) -> None:
        """Copy into the volume the data that it reads from other volumes (``VolumeDriver.flatten``), whether it is open
        or not.
        """
        with self.opened(driver, volume.id) as daemon:
            if daemon is not None or driver.flattens_alone:
                driver.flatten(volume, daemon, stopped, everything=everything)
                return
        with self.alone(driver, volume) as daemon:
            driver.flatten(volume, daemon, stopped, everything=everything)

    def flatten_lone(self, watch: PoolWatch) -> None:
        """Flatten the volumes of a pool that are the only readers of several deleted volumes, each for a limited time.

        The work stops early when a command needs the volume, and the next check continues it. A volume that cannot be
        opened waits for a later check: it is open on another host, or it is closed and encrypted, and its key is
        unknown here.
        """
        watch.crowded = False
        for volume_id in watch.driver.crowded():
            try:
                with self._daemons.locked(volume_id, wait=False) as taken:
                    if taken:
                        self._flatten_for_a_while(watch.driver, watch.id, volume_id)
                watch.crowded = True
            except StoppedError:
                watch.crowded = True
            except HostError as error:
                log.info("Volume %s still needs data of deleted volumes: %s %s", volume_id, error.message, error.detail)

    def _flatten_for_a_while(self, driver: VolumeDriver, pool_id: str, volume_id: str) -> None:
        until = time.monotonic() + MERGE_SECONDS
        description = self._daemons.description(volume_id)
        volume = VolumeSpec(id=volume_id, pool_id=pool_id, size_gb=0) if description is None else description.volume
        self.flatten(driver, volume, lambda: self._daemons.awaited(volume_id) or time.monotonic() > until)
