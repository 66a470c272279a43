"""Two requests at the same moment: one wins, the other is told so, and nothing breaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.identity.models import Domain, Group, Project, User
from provisioning.identity.services.domains import create_domain, update_domain
from provisioning.identity.services.groups import add_to_group, create_group, update_group
from provisioning.identity.services.projects import create_project, update_project
from provisioning.identity.services.users import create_user, update_user
from tests.support.cast import People, make_domain, make_project, make_user


@pytest.mark.parametrize("make", [create_project, create_user, create_group])
def test_a_name_taken_between_look_and_write_is_a_conflict(people: People, make: Callable[..., object]) -> None:
    """No service looks first: the constraint speaks, and its error becomes a sentence."""
    domain = make_domain()
    make(domain, "twice")
    with pytest.raises(ConflictError, match="twice already"):
        make(domain, "twice")
    make(domain, "once")


def test_a_domain_taken_between_look_and_write_is_a_conflict(people: People) -> None:
    with pytest.raises(ConflictError, match="Default already"):
        create_domain("Default")
    with pytest.raises(ConflictError):
        create_domain("New", domain_id="default")


def test_what_went_between_look_and_change_is_not_found(people: People) -> None:
    domain = make_domain("other", "Other")
    rows = [
        (make_project("p", domain), update_project),
        (make_user("u", domain=domain), update_user),
        (create_group(domain, "g"), update_group),
        (create_domain("d"), update_domain),
    ]
    for record, _ in rows:
        type(record)._default_manager.filter(pk=record.pk).delete()
    for record, update in rows:
        changes: list[dict[str, object]] = [{"description": "x"}, {"extra": {"a": 1}}]
        for change in changes:
            with pytest.raises(NotFoundError):
                update(record, **change)


def test_additional_fields_of_two_changes_are_both_kept(people: People) -> None:
    for record, update in (
        (make_project("p"), update_project),
        (make_user("u"), update_user),
    ):
        stale = type(record)._default_manager.get(pk=record.pk)
        update(record, extra={"a": 1})
        update(stale, extra={"b": 2})
        assert type(record)._default_manager.get(pk=record.pk).extra == {"a": 1, "b": 2}


@pytest.mark.django_db(transaction=True)
def test_a_record_for_what_went_meanwhile_is_a_conflict() -> None:
    domain = make_domain("other", "Other")
    user, group = make_user("u", domain=domain), create_group(domain, "g")
    User.objects.filter(id=user.id).delete()
    with pytest.raises(ConflictError):
        add_to_group(group, user)
    Group.objects.filter(id=group.id).delete()
    Domain.objects.filter(id="other").delete()
    for make in (create_project, create_user, create_group):
        with pytest.raises(ConflictError):
            make(domain, "late")
    assert not Project.objects.exists()
