"""Device names: conversion of Amazon's names into the names that this cloud's guests use."""

import re

_OF_GUEST = re.compile(r"/dev/vd[a-z]")


def guest_name(name: str) -> str:
    """Return the name in the guest for a device name of EC2: ``/dev/sdf`` becomes ``/dev/vdf``."""
    short = name.removeprefix("/dev/")
    if short.startswith("xvd"):
        return f"/dev/vd{short.removeprefix('xvd')}"
    if short.startswith("sd"):
        return f"/dev/vd{short.removeprefix('sd').rstrip('0123456789')}"
    return f"/dev/{short}"


def is_guest_name(name: str) -> bool:
    """Whether a guest can have a disk with this name, ``/dev/vda`` to ``/dev/vdz``."""
    return _OF_GUEST.fullmatch(name) is not None
