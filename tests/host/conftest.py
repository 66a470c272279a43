"""Fixtures of the tests that need the real things: root, namespaces, nftables, dnsmasq, QEMU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host import woken
from tests.host.lab import Lab, make_lab, remove_lab
from tests.host.small_guest import small_image
from tests.support.guest_image import GuestImage, guest_image
from tests.support.stale import sweep


@pytest.fixture(scope="session", autouse=True)
def _root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: real guests, bridges and namespaces")
    sweep()


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The guest image, built once."""
    return guest_image()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """The image of guests that boot nothing."""
    return small_image(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A machine of its own for each test module; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="nvt-"))
    lab = make_lab(folder / "state", f"nvt-{os.getpid()}-{abs(hash(request.node.nodeid)) % 10000}")
    yield lab
    remove_lab(lab, folder)


@pytest.fixture(scope="session")
def key() -> Path:
    """The ed25519 key of guests that wake (see woken.py); its public half has the suffix .pub."""
    return woken.key()
