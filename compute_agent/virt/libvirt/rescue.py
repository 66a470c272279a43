"""Boots a guest temporarily from another disk."""

from pathlib import Path

from compute_agent.contract.build import InstanceSpec, boot_volume
from compute_agent.virt.driver import BootFiles
from compute_agent.virt.errors import InstanceNotFoundError, RetryableHostError
from compute_agent.virt.libvirt import boot, disks, seed
from compute_agent.virt.libvirt.domains import Domains


class RescueOperations(Domains):
    """The driver's operations that begin and end the rescue of a guest."""

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        if base is None:
            raise RetryableHostError("The host has no image to start from.", detail="rescue without a base")
        paths = self._paths.instance(spec.uuid)
        if not (paths.folder if boot_volume(spec) else paths.root_disk).exists():
            raise InstanceNotFoundError("The guest has no disk to be rescued.")
        self._power_off(spec.uuid)
        boot.remove_rescue_variables(paths)
        disks.create_rescue_disk(self._paths.lend(base), paths)
        boot.install(files, paths.real / paths.rescue_kernel.name, paths.real / paths.rescue_ramdisk.name)
        seed.write_seed(spec, paths, paths.rescue_seed)
        self.define(spec, attempt)

    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        self.define(spec, attempt)
        boot.remove_rescue(self._folder(spec.uuid))
