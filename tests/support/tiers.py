"""Two tiers: ``bin/test`` runs all but the tests that are marked ``deep`` here, ``bin/test --deep`` all of them.

``tests/conftest.py`` loads this module as a plugin.  A test belongs to the deep tier when it costs minutes, and a
shorter one fails too when what it is about breaks.
"""

from __future__ import annotations

import pytest

DEEP = (
    "tests/chaos/test_chaos.py",
    "tests/dashboard/test_seen_in_chromium.py",
    "tests/chaos/test_packets_after_losses.py",
    "tests/e2e/test_boot_from_volume.py",
    "tests/e2e/test_foreign_images.py",
    "tests/e2e/test_forms.py",
    "tests/e2e/test_gigabyte_image.py",
    "tests/e2e/test_images_of_servers.py",
    "tests/e2e/test_root_disks.py",
    "tests/e2e/test_several_hosts.py",
    "tests/e2e/test_volume_types.py",
    "tests/e2e/test_volumes_between_hosts.py",
    "tests/e2e/test_volumes_on_ceph.py",
    "tests/fuzz/test_ec2.py",
    "tests/fuzz/test_every_operation.py",
    "tests/host/test_volumes_between_hosts.py",
    "tests/setup/test_put_back.py",
)
"""Files whose tests take minutes each: long journeys on real guests, all pages in Chromium, what is slow on Ceph,
fuzzing."""
TWICE = {"slow", "postgresql"}
"""Marks of tests that compute long and run on a second database."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before ``-m`` is looked at."""
    for item in items:
        if item.nodeid.startswith(DEEP) or {mark.name for mark in item.iter_markers()} >= TWICE:
            item.add_marker("deep")
