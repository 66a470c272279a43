"""Chaos runs with packets in which records are lost: what passes afterwards is what the records say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.test_chaos import folder, run
from tests.chaos.test_packets import _root
from tools.postgresql import PostgresqlError, programs

__all__ = ["_root", "folder"]
SQLITE, POSTGRESQL = "sqlite", "postgresql"
pytestmark = [pytest.mark.deep, pytest.mark.libvirt, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("loss", "database", "seed"),
    [("--restore", SQLITE, "32"), ("--restore", POSTGRESQL, "41"), ("--failover", POSTGRESQL, "22")],
)
def test_guests_have_what_the_records_say_after_a_loss(folder: Path, loss: str, database: str, seed: str) -> None:
    """Minutes: real processes, a loss in the middle, and hundreds of packets between running guests."""
    if database == POSTGRESQL:
        try:
            programs()
        except PostgresqlError as error:
            pytest.skip(str(error))
    options = ["--packets", "--volumes", loss, "--database", database, "--operations", "60", "--seed", seed]
    output = run(folder, *options, seconds=1500)
    assert f"Clean: seed {seed} on {database}" in output
    sent = re.search(r"Packets between (\d+) interfaces: (.*)\.", output)
    assert sent is not None, output
    assert int(sent[1]) >= 8, "guests run after the loss"
    for kind in ("metadata", "flows that pass", "flows that do not", "ways out", "from outside"):
        assert kind in sent[2], output
