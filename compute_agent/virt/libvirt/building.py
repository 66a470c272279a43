"""Creation of a guest's files, and removal of a guest with all its files."""

import shutil
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, boot_volume, is_cd
from compute_agent.virt.driver import BootFiles
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.libvirt import boot, disks, seed
from compute_agent.virt.libvirt.domain_xml import domain_name
from compute_agent.virt.libvirt.domains import Domains


class BuildOperations(Domains):
    """Disks, seeds, and removal of a guest."""

    def has_disk(self, uuid: str) -> bool:
        return self._paths.instance(uuid).root_disk.exists()

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        own_root = boot_volume(spec) is None
        if base is None and own_root:
            raise RetryableHostError("The host has no image to start from.", detail="create_disk without a base")
        self._power_off(spec.uuid)
        paths = self._folder(spec.uuid)
        boot.remove_rescue(paths)
        image = self._paths.lend(base) if base is not None and (own_root or is_cd(spec.image)) else None
        disks.create_disks(spec, image, paths, keep_ephemeral=keep_ephemeral)

    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        paths = self._folder(spec.uuid)
        boot.install(files, paths.real / paths.kernel.name, paths.real / paths.ramdisk.name)

    def create_seed(self, spec: InstanceSpec) -> None:
        seed.write_seed(spec, self._folder(spec.uuid))

    def destroy(self, uuid: str) -> None:
        self._power_off(uuid)
        self._undefine(uuid)
        self._states.forget(uuid)
        self._paths.emulator_log(domain_name(uuid)).unlink(missing_ok=True)
        self._tpm(uuid).remove()
        folder = self._paths.instance(uuid).folder
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RetryableHostError("The guest's disks could not be removed.", detail=str(error)) from error
