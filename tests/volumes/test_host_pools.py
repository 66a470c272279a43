"""Which hosts serve a pool, and what they are told: none gains anything by naming what another host has."""

from __future__ import annotations

import uuid

import pytest
from django.core.management import call_command

from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.messages import Command
from compute_agent.contract.volume import (
    ConnectVolumeRequest,
    DeleteVolumeRequest,
    VolumeSpec,
)
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.doctor.checks.volumes import pools as doctor_of_pools
from provisioning.hosts.models import Host
from provisioning.volumes.models import (
    PoolClaim,
    PoolHost,
    StoragePool,
    TypeEncryption,
    VolumeType,
)
from provisioning.volumes.pools import placement
from provisioning.volumes.records.keys import encryption_of
from provisioning.volumes.services import Delete, Extend, VolumeDeletion
from provisioning.volumes.services.catalogue.pools import admit_host, forget_pool, remove_host
from provisioning.volumes.services.connections import attachments
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.volumes.conftest import Town


@pytest.fixture
def evil(town: Town) -> ScriptedAgent:
    return town.cloud.add_host("evil")


def secret_type() -> None:
    TypeEncryption.objects.create(volume_type=VolumeType.objects.create(name="secret"), provider="luks")


def keys_in(commands: list[Command]) -> list[str]:
    """Return the keys that a host is told."""
    result = (getattr(command.body, "volume", None) for command in commands)
    return [each.encryption.key for each in result if isinstance(each, VolumeSpec) and each.encryption is not None]


def hosts_of(pool: ScriptedPool) -> set[str]:
    return set(PoolHost.objects.filter(pool_id=pool.id).values_list("host__name", flat=True))


def sentences() -> str:
    return "\n".join(each.sentence for each in doctor_of_pools())


# ----- who serves a pool ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_a_host_that_names_a_pool_gets_neither_the_pool_nor_a_key(
    town: Town, evil: ScriptedAgent, *, shared: bool
) -> None:
    secret_type()
    town.pool.shared = shared
    town.agent.measured()
    held, idle = town.make(volume_type="secret"), town.make(volume_type="secret")
    town.attach(held)
    claimed = evil.serve(ScriptedPool(id=town.pool.id, shared=True, free_gb=1, name="mine"))
    claimed.unserved = [str(held.id), str(idle.id)]
    for _ in range(2):
        evil.measured()
    assert evil.take() == []
    assert hosts_of(town.pool) == {"kelvin"}
    assert [str(each) for each in PoolClaim.objects.all()] == ["evil claims local"]
    assert "Host evil claims it" in sentences()
    Delete.begin(town.alice, idle.id, VolumeDeletion())
    assert evil.take() == []
    evil.pools.clear()
    evil.serve(ScriptedPool())
    assert not PoolClaim.objects.exists()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_a_pool_that_its_host_leaves_out_stays_its_own(town: Town, evil: ScriptedAgent, *, shared: bool) -> None:
    """As when an agent starts before the folder of the pool is mounted."""
    town.pool.shared = shared
    town.agent.measured()
    volume = town.make()
    other = ScriptedPool(name="other")
    town.agent.pools = {other.id: other}
    town.agent.measured()
    evil.serve(ScriptedPool(id=town.pool.id, shared=shared))
    assert hosts_of(town.pool) == {"kelvin"}
    assert "does not serve it now" in sentences()
    assert {view.id for view in placement.pool_views() if view.alive} == {uuid.UUID(other.id)}
    town.agent.serve(town.pool)
    assert hosts_of(town.pool) == {"kelvin"}
    assert town.attach(volume).status == "attached"


def test_the_secret_in_a_shared_pool_admits_its_hosts(town: Town, evil: ScriptedAgent) -> None:
    town.pool.shared = True
    town.agent.measured()
    nadel = town.cloud.add_host("nadel")
    nadel.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=""))
    assert hosts_of(town.pool) == {"kelvin", "nadel"}
    evil.pools[town.pool.id].secret = str(StoragePool.objects.get(id=town.pool.id).secret_digest)
    evil.measured()
    assert hosts_of(town.pool) == {"kelvin", "nadel"}


@pytest.mark.both_databases("constraints")
def test_a_pool_of_one_host_is_not_shared_by_the_secret(town: Town, evil: ScriptedAgent) -> None:
    """A copy of the pool has the secret, too."""
    evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    assert hosts_of(town.pool) == {"kelvin"}


def test_the_disks_of_a_pool_move_to_another_machine(town: Town, evil: ScriptedAgent) -> None:
    town.make()
    town.pool.clients.clear()
    PoolHost.objects.filter(pool_id=town.pool.id).delete()  # as when its host is forgotten
    evil.serve(ScriptedPool(id=town.pool.id))
    assert hosts_of(town.pool) == set()
    town.cloud.add_host("nadel").serve(ScriptedPool(id=town.pool.id, secret=town.pool.secret))
    assert hosts_of(town.pool) == {"nadel"}


def test_hosts_from_before_there_were_secrets_stay_admitted(town: Town) -> None:
    """The records of an older version: two hosts of a shared pool, neither of which has named a secret."""
    nadel, town.pool.shared = town.cloud.add_host("nadel"), True
    secret, town.pool.secret = town.pool.secret, ""
    town.agent.measured()
    StoragePool.objects.update(secret_digest="")
    PoolHost.objects.create(pool_id=town.pool.id, host=nadel.host, last_seen_at=nadel.host.created_at)
    second = nadel.serve(ScriptedPool(id=town.pool.id, shared=True, secret=""))
    late = town.cloud.add_host("late")
    late.serve(ScriptedPool(id=town.pool.id, shared=True, secret=secret))
    assert hosts_of(town.pool) == {"kelvin", "nadel"}
    second.secret = secret
    nadel.measured()
    late.measured()
    assert hosts_of(town.pool) == {"kelvin", "nadel", "late"}


@pytest.mark.slow
def test_an_operator_admits_and_removes_hosts(town: Town, evil: ScriptedAgent) -> None:
    volume = town.make()
    attachment = town.attach(volume)
    pool, spare = StoragePool.objects.get(), town.cloud.add_host("spare")
    spare.serve(ScriptedPool(id=town.pool.id))
    for refused in (lambda: admit_host(pool, spare.host), lambda: remove_host(pool, town.host)):
        with pytest.raises(ConflictError):
            refused()
    with pytest.raises(NotFoundError):
        remove_host(pool, evil.host)
    attachments.release(attachment.id)
    town.agent.work()
    call_command("storage_pools", str(pool.id), "--admit", "spare")
    assert (hosts_of(town.pool), PoolClaim.objects.exists()) == ({"spare"}, False)
    town.agent.measured()
    assert hosts_of(town.pool) == {"spare"}
    assert [claim.host.name for claim in PoolClaim.objects.all()] == ["kelvin"]
    call_command("storage_pools", str(pool.id), "--remove", "spare")
    assert hosts_of(town.pool) == set()


def test_a_pool_is_forgotten_when_no_host_serves_it(town: Town) -> None:
    pool = StoragePool.objects.get()
    with pytest.raises(ConflictError):
        forget_pool(pool)
    town.agent.pools.clear()
    town.agent.serve(ScriptedPool(name="other"))
    forget_pool(pool)
    assert StoragePool.objects.get().name == "other"


def test_a_host_enters_no_more_pools_than_it_may_serve(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.volumes.pools.pools.MOST_POOLS", 3)
    for _ in range(5):
        town.agent.pools.clear()
        town.agent.serve(ScriptedPool())
    assert StoragePool.objects.count() == 3


# ----- what is said of a shared pool ----------------------------------------------------------------------------------


def test_a_host_of_a_shared_pool_speaks_for_itself_alone(town: Town, evil: ScriptedAgent) -> None:
    town.pool.shared = True
    town.agent.measured()
    before = StoragePool.objects.values("name", "driver", "shared", "free_gb", "total_gb", "capabilities", "warning")
    known = before.get()
    report = ScriptedPool(
        id=town.pool.id, shared=True, secret=town.pool.secret, name="best", driver="rbd", free_gb=1e6, total_gb=1e6,
        capabilities={"fast": "true"}, warning="No power.",
    )  # fmt: skip
    evil.serve(report)
    assert before.get() == known
    assert "Host evil reports: No power." in sentences()
    report.secret = "another"
    evil.measured()
    nadel = town.cloud.add_host("nadel")
    nadel.serve(ScriptedPool(id=town.pool.id, shared=True, secret="another"))
    assert hosts_of(town.pool) == {"kelvin", "evil"}
    report.shared = False
    evil.measured()
    assert before.get() == known
    Host.objects.filter(name="kelvin").update(forced_down=True)
    evil.measured()
    assert before.get()["free_gb"] == 1e6  # the next one is heard while the first does not answer


# ----- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_host_of_a_shared_pool_gets_keys_of_what_it_serves_only(town: Town, evil: ScriptedAgent) -> None:
    secret_type()
    town.pool.shared = True
    town.agent.measured()
    held, idle, mine = (town.make(volume_type="secret") for _ in range(3))
    town.attach(held)
    pool = evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    attachments.connect(attachments.reserve(town.alice, mine.id, uuid.uuid4()), evil.host)
    evil.work()
    pool.unserved = [str(held.id), str(idle.id), str(mine.id)]
    evil.measured()
    commands = evil.take()
    assert keys_in(commands) == [encryption_of(mine).key]  # type: ignore[union-attr]
    assert {command.subject_id for command in commands} == {str(held.id), str(idle.id), str(mine.id)}


@pytest.mark.slow
def test_a_host_that_ends_a_daemon_or_deletes_a_volume_needs_no_key(town: Town) -> None:
    secret_type()
    volume = town.make(volume_type="secret")
    attachment = town.attach(volume)
    attachments.release(attachment.id)
    (closing,) = town.agent.take()
    assert isinstance(closing.body, ConnectVolumeRequest)
    town.agent.carry_out(closing)
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    (deleting,) = town.agent.take()
    assert isinstance(deleting.body, DeleteVolumeRequest)
    assert keys_in([closing, deleting]) == []


@pytest.mark.slow
def test_the_daemon_of_a_shared_pool_runs_on_a_host_of_the_pool(town: Town, evil: ScriptedAgent) -> None:
    """A guest on another host opens the volume over TLS, and that host gets no key."""
    secret_type()
    town.pool.shared = True
    town.agent.measured()
    volume = town.make(volume_type="secret")
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, evil.host)
    assert evil.take() == []
    town.agent.work()
    assert town.disk(attachment).connection.tls_hostname == tls_hostname(str(town.host.id))


@pytest.mark.slow
def test_a_host_that_was_removed_from_a_pool_ends_nothing_there(town: Town, evil: ScriptedAgent) -> None:
    town.pool.shared = True
    town.agent.measured()
    evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    volume = town.make()
    Host.objects.filter(id=town.host.id).update(forced_down=True)
    Extend.begin(town.alice, volume.id, 2)
    Host.objects.filter(id=town.host.id).update(forced_down=False)
    remove_host(StoragePool.objects.get(id=town.pool.id), evil.host)
    evil.work()
    assert (town.fresh(volume).status, town.fresh(volume).size_gb) == ("extending", 1)


# ----- pools that are announced later ---------------------------------------------------------------------------------


def in_doubt() -> list[str]:
    """Return the names of the pools that wait for an operator; nothing is placed in them."""
    result = list(StoragePool.objects.exclude(doubt="").order_by("name"))
    assert {pool.id for pool in result} & {view.id for view in placement.pool_views() if view.enabled} == set()
    return [pool.name for pool in result]


def test_the_first_pools_of_hosts_may_have_one_name(town: Town, evil: ScriptedAgent) -> None:
    evil.pools = {pool.id: pool for pool in (ScriptedPool(), ScriptedPool(name="fast"))}
    evil.measured()
    assert in_doubt() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "driver", "doubted"),
    [("gold", "fake", True), ("other", "rbd", True), ("rbd", "fake", True), ("other", "fake", False)],
)
def test_a_later_pool_in_the_way_of_another_one_waits_for_an_operator(
    town: Town, evil: ScriptedAgent, name: str, driver: str, *, doubted: bool
) -> None:
    """Volume types choose pools by name and by driver."""
    town.agent.serve(ScriptedPool(name="gold", driver="rbd", shared=True))
    StoragePool.objects.update(enabled=True, doubt="")
    evil.serve(ScriptedPool(name="own"))
    late = ScriptedPool(name=name, driver=driver)
    evil.serve(late)
    assert in_doubt() == ([name] if doubted else [])
    assert (f"storage_pools {late.id} --enable" in sentences()) is doubted
    call_command("storage_pools", late.id, "--enable")
    evil.measured()
    assert in_doubt() == []
    assert "--enable" not in sentences()


def test_an_empty_folder_in_the_place_of_a_pool_waits_for_an_operator(town: Town) -> None:
    """As when an agent whose state folder is lost starts before the pool is mounted."""
    new = ScriptedPool()
    town.agent.pools = {new.id: new}
    town.agent.measured()
    assert in_doubt() == ["local"]
    assert "may not be mounted" in sentences()


def test_a_pool_takes_neither_the_name_of_another_one_nor_another_driver(town: Town, evil: ScriptedAgent) -> None:
    mine = evil.serve(ScriptedPool(name="mine"))
    for name, kept in (("local", "mine"), ("renamed", "renamed")):
        mine.name, mine.driver = name, "rbd"
        evil.measured()
        pool = StoragePool.objects.get(id=mine.id)
        assert (pool.name, pool.driver) == (kept, "fake")
        assert bool(pool.warning) is (kept != name)
