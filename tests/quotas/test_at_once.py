"""Many at once at the limit, in several processes of many threads, and processes that die: exact, and nothing refused
falsely.

On SQLite, which has one writer at a time, and on PostgreSQL.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection, connections, transaction

from provisioning.common.errors import NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import add_fixed_ip, attach_interface, remove_fixed_ip
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, KeyPair
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.network import services as network
from provisioning.network.models import Network, SecurityGroup, SecurityGroupRule
from provisioning.quotas.models import Reservation
from provisioning.quotas.selectors import detail_of, given_to_users, usage_in, usage_of
from provisioning.quotas.services.ledger import reserve
from provisioning.quotas.services.limits import set_limit, set_limits
from provisioning.quotas.services.repair import examine, repair
from tests.support import invariants
from tests.support.clouds import Cloud, context, stand
from tests.support.landing import first_of_each, rounds
from tests.support.ports import guest_addresses, guest_ports

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks"), pytest.mark.slow]
PROCESSES = 4
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0Ks0KqTPHDqyPZoQmJLoJUD6JsGRXSh9ARV3yZxvV"
ALICE = context("alice")
PROJECT, USER = ALICE.project_id or uuid.UUID(int=0), ALICE.user_id or uuid.UUID(int=0)


@pytest.fixture(autouse=True)
def _made(db: None) -> None:
    stand(PROJECT)


def in_process(work: Callable[[], Counter[str]]) -> Callable[[], Counter[str]]:
    """Start a process that does the work; returns how to wait for what it answers."""
    connections.close_all()  # two processes must not talk over one connection
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            with os.fdopen(writing, "w") as answer:
                json.dump(work(), answer)
        finally:
            os._exit(0)
    os.close(writing)

    def wait() -> Counter[str]:
        with os.fdopen(reading) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return Counter(json.loads(text or "{}"))

    return wait


def in_threads(numbers: range, work: Callable[[int], object]) -> Counter[str]:
    """Do the work once for each number, each in a thread; returns how often each answer came, errors by their class."""
    answers: list[str] = []
    start = threading.Barrier(len(numbers))

    def run(number: int) -> None:
        try:
            start.wait(300)
            work(number)
            answers.append("done")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
            answers.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return Counter(answers)


def at_once(count: int, work: Callable[[int], object]) -> Counter[str]:
    """Do the work once for each number below ``count``, spread over processes and threads."""
    share = count // PROCESSES
    parts = [range(first, first + share) for first in range(0, share * PROCESSES, share)]
    waiting = [in_process(lambda part=part: in_threads(part, work)) for part in parts]  # type: ignore[misc]
    return sum((wait() for wait in waiting), Counter())


def nothing_is_wrong() -> None:
    assert [str(finding) for finding in examine()] == []


@pytest.mark.deep
def test_two_hundred_launches_at_a_quota_of_ten() -> None:
    cloud = Cloud.make()
    set_limit(PROJECT, "instances", 10)
    answers = at_once(200, lambda number: cloud.launch(context("alice"), name=f"web-{number}"))
    assert answers == {"done": 10, "OverQuotaError": 190}
    assert Instance.objects.count() == 10
    assert detail_of(PROJECT)["instances"] == (10, 0, 10)
    assert detail_of(PROJECT)["ports"] == (500, 0, 10)
    nothing_is_wrong()
    cloud.add_host("kelvin", vcpus=100, memory_mb=1 << 20, disk_gb=10_000)
    cloud.run()
    assert detail_of(PROJECT)["instances"] == (10, 10, 0)
    nothing_is_wrong()
    servers = list(Instance.objects.values_list("id", flat=True))
    gone = at_once(20, lambda number: delete(context("alice"), servers[number % 10]))
    assert gone["done"] >= 10
    assert gone.keys() <= {"done", NotFoundError.__name__}
    cloud.run()
    invariants.check_empty()
    used = {name: amount for name, amount in usage_of(PROJECT).items() if amount}
    assert used == {"security_groups": 1, "security_group_rules": 4}
    nothing_is_wrong()


@rounds(20, 60)
def test_users_at_once_pass_neither_their_own_limits_nor_the_projects(rounds: int) -> None:
    cloud = Cloud.make()
    callers = [ALICE, context("carol", project="alice"), context("dave", project="alice")]
    set_limit(PROJECT, "instances", 10)
    for caller, resource, limit in ((callers[0], "cores", 3), (callers[1], "instances", 4), (callers[2], "ram", -1)):
        set_limits(PROJECT, {resource: limit}, user_id=caller.user_id, force=True)
    answers = at_once(rounds, lambda number: cloud.launch(callers[number % 2], name=f"web-{number}"))
    assert answers == {"done": 7, "OverQuotaError": rounds - 7}
    assert at_once(8, lambda _: cloud.launch(callers[2])) == {"done": 3, "OverQuotaError": 5}
    held = [usage_in(PROJECT, caller.user_id or USER)["instances"] for caller in callers]
    assert (held, usage_of(PROJECT)["instances"]) == ([3, 4, 3], 10)
    nothing_is_wrong()


def test_limits_of_users_set_at_once_stay_within_the_projects() -> None:
    users = [uuid.UUID(int=number) for number in range(8)]
    answers = at_once(8, lambda number: set_limits(PROJECT, {"cores": 6}, user_id=users[number]))
    assert answers == {"done": 3, "InvalidInputError": 5}
    assert given_to_users(PROJECT) == {"cores": 18}


def test_places_given_back_in_between_are_taken_again() -> None:
    """Launches and deletes at once around the limit: never more, and who is refused was refused at a full quota."""
    cloud = Cloud.make()
    set_limit(PROJECT, "instances", 4)

    def come_and_go(_: int) -> None:
        for _ in range(3):
            server = cloud.launch(context("alice"))
            assert usage_of(PROJECT)["instances"] <= 4
            delete(context("alice"), server.id)

    assert at_once(4, come_and_go) == {"done": 4}, "four at most are there at once: nobody may be refused"
    invariants.check_empty()
    nothing_is_wrong()


def test_key_pairs_at_the_limit_of_a_user() -> None:
    set_limit(PROJECT, "key_pairs", 5)
    answers = at_once(8, lambda number: create_key_pair(context("alice"), f"key-{number}", PUBLIC_KEY))
    assert answers == {"done": 5, "OverQuotaError": 3}
    assert KeyPair.objects.count() == usage_of(USER)["key_pairs"] == 5
    names = list(KeyPair.objects.values_list("name", flat=True))
    gone = at_once(12, lambda number: delete_key_pair(context("alice"), names[number % 5]))
    assert gone["done"] >= 5
    assert usage_of(USER)["key_pairs"] == KeyPair.objects.count() == 0
    nothing_is_wrong()


def test_one_name_at_once_is_one_key_pair() -> None:
    set_limit(PROJECT, "key_pairs", 2)
    answers = at_once(8, lambda _: create_key_pair(context("alice"), "laptop", PUBLIC_KEY))
    assert answers == {"done": 1, "ConflictError": 7}
    assert usage_of(USER)["key_pairs"] == 1
    nothing_is_wrong()


@pytest.mark.deep
def test_ports_at_the_limit() -> None:
    net = Cloud.make().network
    set_limit(PROJECT, "ports", 5)
    assert at_once(16, lambda _: network.create_port(PROJECT, net)) == {"done": 5, "OverQuotaError": 11}
    assert guest_ports().count() == usage_of(PROJECT)["ports"] == 5
    nothing_is_wrong()


GROWING: dict[str, Callable[[int], object]] = {
    "subnetpools": lambda number: network.create_subnet_pool(PROJECT, f"p{number}", ["10.0.0.0/16"]),
    "address_scopes": lambda number: network.create_address_scope(PROJECT, f"s{number}", 4),
    "address_groups": lambda number: network.create_address_group(PROJECT, f"a{number}", ["192.0.2.0/24"]),
    "rbac_policies": lambda number: network.create_rbac_policy(
        PROJECT, "network", Network.objects.get(), "access_as_shared", uuid.UUID(int=number).hex
    ),
}


@pytest.mark.parametrize("resource", first_of_each([(name,) for name in GROWING], lambda _: "all"))
def test_what_networks_are_made_of_at_the_limit(resource: str) -> None:
    network.create_network(PROJECT, "net")
    set_limit(PROJECT, resource, 3)
    assert at_once(8, GROWING[resource]) == {"done": 3, "OverQuotaError": 5}
    nothing_is_wrong()


def test_ports_and_launches_share_one_limit() -> None:
    cloud = Cloud.make()
    set_limit(PROJECT, "ports", 6)

    def take(number: int) -> None:
        if number % 2:
            network.create_port(PROJECT, cloud.network)
        else:
            cloud.launch(context("alice"))

    assert at_once(16, take) == {"done": 6, "OverQuotaError": 10}
    assert usage_of(PROJECT)["ports"] == 6
    nothing_is_wrong()


@pytest.mark.deep
def test_addresses_of_launches_ports_and_servers_share_one_limit() -> None:
    """However they are asked for at the same moment, and however they go: never one more than the limit."""
    cloud = Cloud.make()
    cloud.add_host("kelvin", vcpus=100, memory_mb=1 << 20, disk_gb=10_000)
    servers = [cloud.launch(context("alice")).id for _ in range(3)]
    cloud.run()
    own = network.create_port(PROJECT, cloud.network)
    attach_interface(context("alice"), servers[0], NetworkRequest(port_id=str(own.id)))
    cloud.run()
    for resource, limit in (("instances", -1), ("cores", -1), ("ram", -1), ("fixed_ips", 12)):
        set_limit(PROJECT, resource, limit)
    net = str(cloud.network.id)
    ways: list[Callable[[], object]] = [
        lambda: add_fixed_ip(context("alice"), servers[0], net),
        lambda: cloud.launch(context("alice")),
        lambda: add_fixed_ip(context("alice"), servers[1], net),
        lambda: network.create_port(PROJECT, cloud.network),
        lambda: add_fixed_ip(context("alice"), servers[2], net),
        lambda: attach_interface(context("alice"), servers[1], NetworkRequest()),
    ]
    answers = at_once(24, lambda number: ways[number % len(ways)]())
    assert answers == {"done": 8, "OverQuotaError": 16}
    assert usage_of(PROJECT)["fixed_ips"] == 12
    nothing_is_wrong()
    cloud.run()
    assert guest_addresses().count() == detail_of(PROJECT)["fixed_ips"].in_use == 12
    nothing_is_wrong()

    def go(number: int) -> None:
        kept = guest_addresses().filter(port__device_id=servers[number % 3]).order_by("id")
        remove_fixed_ip(context("alice"), servers[number % 3], kept[0].address)
        add_fixed_ip(context("alice"), servers[(number + 1) % 3], net)

    moved = at_once(12, go)
    assert moved.keys() <= {"done", "NotFoundError", "OverQuotaError", "InvalidInputError", "IndexError"}
    assert guest_addresses().count() == usage_of(PROJECT)["fixed_ips"] <= 12
    nothing_is_wrong()


def test_the_default_group_is_made_and_counted_once() -> None:
    assert at_once(16, lambda _: network.ensure_default_security_group(PROJECT)) == {"done": 16}
    assert SecurityGroup.objects.filter(project_id=PROJECT).count() == usage_of(PROJECT)["security_groups"] == 1
    assert SecurityGroupRule.objects.count() == usage_of(PROJECT)["security_group_rules"] == 4
    nothing_is_wrong()


def killed(work: Callable[[], object]) -> None:
    """Do the work in a process that is killed at its end, before it could tidy up."""

    def run() -> Counter[str]:
        work()
        os.kill(os.getpid(), signal.SIGKILL)
        return Counter()

    assert in_process(run)() == {}


def test_a_process_killed_inside_its_transaction_leaves_nothing() -> None:
    cloud = Cloud.make()

    def launch_half() -> None:
        with transaction.atomic():
            cloud.launch(context("alice"))
            os.kill(os.getpid(), signal.SIGKILL)

    killed(launch_half)
    assert not Instance.objects.exists()
    assert not Reservation.objects.filter(project_id=PROJECT).exists()
    assert usage_of(PROJECT)["instances"] == 0
    nothing_is_wrong()


def test_a_process_killed_between_reserve_and_commit_leaves_a_server_that_counts() -> None:
    cloud = Cloud.make()
    killed(lambda: cloud.launch(context("alice")))
    assert detail_of(PROJECT)["instances"] == (10, 0, 1)
    nothing_is_wrong()
    delete(context("alice"), Instance.objects.get().id)
    assert usage_of(PROJECT)["instances"] == usage_of(PROJECT)["ports"] == 0
    nothing_is_wrong()


def test_what_was_reserved_for_something_that_was_never_made_is_reported_and_mended() -> None:
    lost = uuid.uuid4()
    killed(lambda: reserve(PROJECT, lost, {"volumes": 1, "gigabytes": 20}))
    assert [finding.kind for finding in examine()] == ["orphan", "orphan"]
    assert {str(lost) in str(finding) for finding in examine()} == {True}
    assert len(repair()) == 2
    assert usage_of(PROJECT)["gigabytes"] == 0
    nothing_is_wrong()
