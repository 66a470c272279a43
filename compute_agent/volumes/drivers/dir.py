"""``dir``: a pool of qcow2 files in a directory that several hosts have mounted (NFS, CephFS).  LOCATION is the folder.

The file system must keep locks of different hosts apart (``flock``): of each volume one host's daemon at a time has the
lock, and loses it when it ends.
"""

from compute_agent.volumes.qcow2 import Qcow2Driver


class DirDriver(Qcow2Driver):
    """Every host that has the directory mounted reaches the files."""

    name = "dir"
    shared = True


DRIVER = DirDriver
