"""Images of the catalogue that several people add at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from provisioning.catalogue.services import add
from provisioning.common.errors import ConflictError
from provisioning.images.models import Image
from tests.image.catalogue.publishing import Publisher, entry
from tests.support.cast import Person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.both_databases("locks")
def test_two_people_add_the_same_at_once(people: Any, folder: Publisher) -> None:
    folder.publish(entry())
    results: list[str] = []
    start = threading.Barrier(4)

    def work(person: Person) -> None:
        start.wait(300)
        try:
            add(person.context, "tiny", for_all=True)
            results.append("added")
        except ConflictError:
            results.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(people.operator,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(results) == ["added", "refused", "refused", "refused"]
    assert Image.objects.count() == 1
