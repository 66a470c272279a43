"""``dir``: a pool of qcow2 files in a directory that several hosts have mounted (NFS, CephFS). LOCATION is the
directory.

The file system must support locks between hosts (``flock``): one daemon on one host at a time has the lock of a volume,
and the lock is released when the daemon ends.
"""

from compute_agent.volumes.files.qcow2 import Qcow2Driver


class DirDriver(Qcow2Driver):
    """The driver ``dir``: every host that has mounted the directory can access the files."""

    name = "dir"
    shared = True


DRIVER = DirDriver
