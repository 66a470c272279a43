"""``dir``: a pool of qcow2 files in a directory that several hosts have mounted (NFS, CephFS). LOCATION is the
directory.

The file system must support locks between hosts (``flock``): one daemon on one host at a time has the lock of a volume,
and the lock is released when the daemon ends.
"""

from compute_agent.volumes.files.qcow2 import Qcow2Driver


class DirDriver(Qcow2Driver):
    """The driver ``dir``: every host that has mounted the directory can access the files."""

    name = "dir"
    shared = hands_over = True

    def lock_file(self, volume_id: str) -> int:
        return self.layers.lock_file(volume_id)

    def take_over(self, volume_id: str, new_id: str, descriptor: int) -> None:
        with self.layers.locked(volume_id):
            self.layers.lock_for_daemon(volume_id, self.settings.host, descriptor)
            self.layers.rename(volume_id, new_id)


DRIVER = DirDriver
