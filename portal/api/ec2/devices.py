"""Names of disks: clients ask for those of Amazon's guests, and get those of this cloud's."""

import re

_OF_GUEST = re.compile(r"/dev/vd[a-z]")


def guest_name(name: str) -> str:
    """Return the device's name in the guest: clients that ask for ``/dev/sdf`` get ``/dev/vdf``, as on EC2 itself."""
    short = name.removeprefix("/dev/")
    if short.startswith("xvd"):
        return f"/dev/vd{short.removeprefix('xvd')}"
    if short.startswith("sd"):
        return f"/dev/vd{short.removeprefix('sd').rstrip('0123456789')}"
    return f"/dev/{short}"


def is_guest_name(name: str) -> bool:
    """Whether a guest can have a disk of this name, ``/dev/vda`` to ``/dev/vdz``."""
    return _OF_GUEST.fullmatch(name) is not None
