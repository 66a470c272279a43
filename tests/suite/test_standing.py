"""Fixtures that stand are built once for a module, and no test sees what another has changed."""

from __future__ import annotations

import pytest

from provisioning.identity.models import Project
from tests.support.cast import People, make_project
from tests.support.standing import standing

BUILT: list[str] = []
"""One entry for each time that the fixture's function ran."""


@pytest.fixture
@standing
def project(people: People) -> Project:
    BUILT.append(people.alice.project.name)
    return make_project("standing")


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_gets_rows_and_objects_as_they_were(project: Project, people: People, turn: int) -> None:
    assert BUILT == ["wonderland"]
    assert project.name == Project.objects.get(id=project.id).name == "standing"
    assert Project.objects.get(id=people.alice.project.id).enabled
    project.name = people.alice.project.name = "changed"
    Project.objects.filter(id=project.id).update(name="changed")
    Project.objects.update(enabled=False)


@pytest.fixture
@standing
def other(people: People) -> Project:
    return make_project("other")


@pytest.mark.usefixtures("other")
def test_a_test_that_needs_something_else_does_not_see_it() -> None:
    assert not Project.objects.filter(name="standing").exists()


def test_a_test_that_commits_builds_its_own(transactional_db: None, project: Project) -> None:
    assert len(BUILT) == 2
    assert Project.objects.get(id=project.id).name == "standing"
