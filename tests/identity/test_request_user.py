"""Who a page's request is from, for code that waits and for code that does not."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from portal.common.sign_in import _set_caller
from provisioning.identity.models import User
from tests.support.cast import People, Person


def request_of(person: Person) -> HttpRequest:
    request = HttpRequest()
    _set_caller(request, person.context)
    return request


@pytest.mark.django_db(transaction=True)
def test_both_ways_say_who_operates_the_cloud(people: People) -> None:
    for person, operates in ((people.operator, True), (people.alice, False)):
        request = request_of(person)
        result = async_to_sync(request.auser)()
        assert (result.pk, result.is_staff) == (request.user.pk, operates)
        assert request.user.is_staff is operates


@pytest.mark.django_db(transaction=True)
def test_a_user_who_is_gone_is_nobody_in_both_ways(people: People) -> None:
    request = request_of(people.bob)
    User.objects.filter(id=people.bob.user.id).delete()
    assert isinstance(async_to_sync(request.auser)(), AnonymousUser)
    assert request.user.is_anonymous
