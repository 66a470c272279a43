"""Two workers that bring hosts to one subject at once tell each host once, and neither fails."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from compute_agent.contract.network import NETWORK
from provisioning.common.context import RequestContext
from provisioning.hosts.models import HostCommand
from provisioning.network.delivery import documents, sending
from provisioning.network.models import Delivery, DeliveryMark
from provisioning.network.records.marks import mark
from tests.support.clouds import Cloud


@pytest.mark.both_databases("locks")
@pytest.mark.django_db(transaction=True)
def test_a_subject_that_two_workers_begin_with(alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud.make()
    cloud.add_host("one", documents=True)
    cloud.running(alice, flavor_ref="2")
    Delivery.objects.all().delete()
    HostCommand.objects.all().delete()
    real = documents.of
    failed: list[Exception] = []
    threads: list[threading.Thread] = []

    def other() -> None:
        try:
            sending.bring(NETWORK, cloud.network.id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test names it
            failed.append(error)
        finally:
            connection.close()

    def meanwhile(kind: str, key: uuid.UUID) -> Any:
        result = real(kind, key)
        if not threads:
            threads.append(threading.Thread(target=other))
            threads[0].start()
            threads[0].join(1)  # it ends on PostgreSQL, and waits on SQLite
        return result

    monkeypatch.setattr(documents, "of", meanwhile)
    sending.bring(NETWORK, cloud.network.id)
    threads[0].join(300)
    assert not failed
    delivery = Delivery.objects.get(kind=NETWORK, subject_id=cloud.network.id)
    assert [command.id for command in HostCommand.objects.all()] == [delivery.command_id]


@pytest.mark.parametrize("database", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
@pytest.mark.django_db(transaction=True)
def test_no_job_takes_a_mark_away_before_a_change_can_be_seen(database: str, alice: RequestContext) -> None:
    """Else the job looks at the records without the change, and nobody looks again."""
    Cloud.make().add_host("one", documents=True)
    key = uuid.uuid4()
    mark(NETWORK, [key])
    refused: list[Exception] = []

    def job() -> None:
        try:
            with transaction.atomic():
                list(DeliveryMark.objects.select_for_update(nowait=True).filter(subject_id=key))
                DeliveryMark.objects.filter(subject_id=key).delete()
        except OperationalError as error:
            refused.append(error)
        finally:
            connection.close()

    with transaction.atomic():
        mark(NETWORK, [key])
        worker = threading.Thread(target=job)
        worker.start()
        worker.join(300)
        assert len(refused) == 1
    job()
    assert len(refused) == 1
    assert not DeliveryMark.objects.filter(subject_id=key).exists()
