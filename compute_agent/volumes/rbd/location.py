"""The location of a pool of a Ceph cluster, and the client that connects to it: ``POOL?conf=FILE&id=NAME``.

The client's key is in the file that the configuration names (``keyring`` of ``[client.NAME]``), by default in
/etc/ceph/ceph.client.NAME.keyring.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

DEFAULT_CONF = Path("/etc/ceph/ceph.conf")
DEFAULT_CLIENT = "novella"
OPTIONS = ("conf", "id")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class CephLocation:
    """A pool, the path of the cluster's configuration, and the name of the client that has access."""

    pool: str
    conf: Path = DEFAULT_CONF
    client: str = DEFAULT_CLIENT
    """The client's name, without the prefix ``client.``."""

    @property
    def arguments(self) -> list[str]:
        """The common arguments of Ceph's programs."""
        return ["--conf", str(self.conf), "--id", self.client]

    def node(self, image: str) -> dict[str, str]:
        """Return the options with which QEMU's programs open an image (``BlockdevOptionsRbd``)."""
        return {"driver": "rbd", "pool": self.pool, "image": image, "conf": str(self.conf), "user": self.client}


def parse(text: str) -> CephLocation:
    """Parse the location of a ``--volume-pool``. Raises ValueError with a sentence."""
    pool, _, query = text.partition("?")
    if not _NAME.fullmatch(pool):
        raise ValueError(f"{pool!r} is not the name of a Ceph pool")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in OPTIONS:
            raise ValueError(f"{name!r} is not one of {', '.join(OPTIONS)}")
        if name != "id" and not value.startswith("/"):
            raise ValueError(f"{name}={value} is not the whole path of a file")
    client = options.get("id", DEFAULT_CLIENT).removeprefix("client.")
    if not _NAME.fullmatch(client):
        raise ValueError(f"{client!r} is not the name of a Ceph client")
    return CephLocation(pool, Path(options.get("conf", DEFAULT_CONF)), client)
