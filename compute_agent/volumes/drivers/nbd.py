"""``nbd``: a pool of qcow2 files on this host's own disk. Other hosts reach its volumes by NBD. LOCATION is
a folder.
"""

from compute_agent.volumes.files.qcow2 import Qcow2Driver


class NbdDriver(Qcow2Driver):
    """The driver ``nbd``: only this host can access the files."""

    name = "nbd"


DRIVER = NbdDriver
