"""A host opens no volume but the one that a connection is for, whatever a storage host has reported of it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.virt.driver import never
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.virt.machine.volume_connections import ConnectionRefusedByHostError, check
from compute_agent.volumes.daemons import exports
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import Pool
from tests.agent.volumes.test_drivers import FILES

SOCKETS = Path("/run/novella-test/exports")
DATA, CLIENT, OTHER = (str(uuid.uuid4()) for _ in range(3))
HERE = VolumeConnection(export=f"{DATA}.{CLIENT}.1", socket=f"{SOCKETS}/{DATA}.sock")
REMOTE = VolumeConnection(export=HERE.export, address="192.0.2.7", port=10809, tls=True, tls_hostname="h7")


@pytest.mark.parametrize("several", [False, True])
def test_the_names_that_daemons_give_their_exports_pass(*, several: bool) -> None:
    volume = VolumeSpec(id=DATA, pool_id="", size_gb=1, multiattach=several)
    clients = [VolumeClient(attachment_id=CLIENT, host_id=OTHER, local=True)]
    export = exports.Export(name=exports.name_of(volume, clients, 3), size=0)
    (name,) = exports.served(exports.Description(volume=volume, clients=clients, exports=[export]))
    for connection in (HERE, REMOTE):
        check(replace(connection, export=name), client_id=CLIENT, sockets=SOCKETS)


@pytest.mark.parametrize(
    "connection",
    [
        replace(HERE, export=f"{DATA}.{OTHER}.1"),
        replace(HERE, export=f"{DATA}.1"),
        replace(HERE, export=""),
        replace(HERE, export=CLIENT),
        replace(HERE, socket=f"{SOCKETS}/{OTHER}.sock"),
        replace(HERE, socket=f"{SOCKETS}/../exports/{DATA}.sock"),
        replace(HERE, socket="/run/libvirt/libvirt-sock"),
        replace(HERE, export=f"../{DATA}.{CLIENT}.1", socket=f"{SOCKETS}/../{DATA}.sock"),
        replace(REMOTE, tls=False),
        replace(REMOTE, tls_hostname=""),
        replace(REMOTE, address=""),
        replace(REMOTE, port=0),
        replace(REMOTE, export=f"{OTHER}.{OTHER}.1"),
    ],
)
def test_any_other_place_is_refused(connection: VolumeConnection) -> None:
    with pytest.raises(ConnectionRefusedByHostError):
        check(connection, client_id=CLIENT, sockets=SOCKETS)


def test_a_guests_own_root_disk_is_known_by_its_own_name() -> None:
    disk = replace(HERE, export=f"root-{DATA}.{CLIENT}.1", socket=f"{SOCKETS}/root-{DATA}.sock")
    check(disk, client_id="", data_id=f"root-{DATA}", sockets=SOCKETS)
    with pytest.raises(ConnectionRefusedByHostError):
        check(HERE, client_id="", data_id=OTHER, sockets=SOCKETS)


@pytest.mark.slow
@FILES
def test_a_copy_reads_only_what_is_exported_for_it(pool: Pool) -> None:
    """The daemons of a host serve other volumes, too: a copy that names one of them gets nothing."""
    victim = pool.spec()
    pool.driver.create(victim)
    pool.write(victim, 0xAB)
    volumes = Volumes([pool.driver], pool.daemons, Outside(FakeImageCache()))
    volumes.states()
    open_to = VolumeClient(attachment_id=str(uuid.uuid4()), host_id="", local=True)
    origin = volumes.connect(victim, [open_to])
    assert origin is not None
    fresh = pool.spec()
    with pytest.raises(ConnectionRefusedByHostError):
        volumes.fetch(fresh, origin, never)
    assert fresh.id not in pool.driver.names()
    volumes.connect(victim, [])
    origin = volumes.connect(victim, [replace(open_to, attachment_id=fresh.id)])
    assert origin is not None
    volumes.fetch(fresh, origin, never)
    volumes.connect(victim, [])
    assert pool.reads(fresh, 0xAB)
