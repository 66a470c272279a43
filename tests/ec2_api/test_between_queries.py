"""What others change between two queries of a description makes an answer old, and no internal error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from botocore.exceptions import ClientError
from django.db import connection, transaction

from provisioning.network.models import FloatingIP, Port
from provisioning.network.services import create_port
from tests.ec2_api.test_instances import launched
from tests.support.cast import People
from tests.support.clouds import Cloud

MOST_QUERIES = 40
LOOKS = (
    "describe_instances",
    "describe_network_interfaces",
    "describe_addresses",
    "describe_security_groups",
)


@contextmanager
def before_query(number: int, change: Callable[[], object]) -> Iterator[list[str]]:
    """Do something before the query of this number; the list has the queries of all others."""
    queries: list[str] = []
    changing = False

    def hook(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal changing
        if not changing:
            queries.append(sql)
            if len(queries) == number:
                changing = True
                change()
                changing = False
        return execute(sql, params, many, context)

    with connection.execute_wrapper(hook):
        yield queries


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["in turn", "every"])
def test_what_comes_or_goes_meanwhile(alice: Any, people: People, cloud: Cloud, every: bool) -> None:
    launched(alice, cloud)
    own = people.alice.project_id
    (plugged,) = Port.objects.filter(device_owner__startswith="compute:")
    loose, outside = (create_port(own, plugged.network) for _ in range(2))
    floating = FloatingIP.objects.create(project_id=own, network=plugged.network, address="192.0.2.9", port=outside)
    used = {"device_id": plugged.device_id, "device_owner": plugged.device_owner, "device_index": 1}
    led = {"fixed_port": plugged, "fixed_address": plugged.fixed_ips.get().address}
    changes: dict[str, Callable[[], object]] = {
        "an interface comes": lambda: Port.objects.filter(pk=loose.pk).update(**used),
        "an interface goes": lambda: Port.objects.filter(pk=plugged.pk).delete(),
        "a group goes": lambda: plugged.security_groups.clear(),
        "an address leads there": lambda: FloatingIP.objects.filter(pk=floating.pk).update(**led),
    }
    broken = []
    for look, (words, change) in (product if every else zip)(LOOKS, changes.items()):
        number, queries = 0, [""] * MOST_QUERIES
        while number < len(queries):
            number += 1
            with transaction.atomic(), before_query(number, change) as queries:
                try:
                    getattr(alice, look)()
                except ClientError as error:
                    broken.append(f"{look}, {words} before query {number}: {error.response['Error']['Code']}")
                transaction.set_rollback(True)
    assert broken == []
