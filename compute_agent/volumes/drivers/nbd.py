"""``nbd``: a pool of qcow2 files on this host's own disk, which other hosts reach by NBD.  LOCATION is a folder."""

from compute_agent.volumes.qcow2 import Qcow2Driver


class NbdDriver(Qcow2Driver):
    """Only this host reaches the files."""

    name = "nbd"


DRIVER = NbdDriver
