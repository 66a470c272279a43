"""Every declared resource of all APIs comes back as it was sent, is updated and deleted, and belongs to its project.

A new resource needs a row in ``ROWS`` of ``resources.py``, or a place in ``NOT_CREATED``.
"""

from __future__ import annotations

from typing import Any

import pytest

from portal.api.compute.dialect import MICROVERSIONS
from portal.api.volume.dialect import MICROVERSIONS as VOLUME_MICROVERSIONS
from tests.api.resources import CHANGED_ELSEWHERE, NOT_CREATED, ROWS, Examined, World, declared
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def test_each_has_a_row() -> None:
    assert declared().keys() == ROWS.keys() | NOT_CREATED


@pytest.mark.slow
@each_row("of", [*ROWS])
def test_it_comes_back_as_it_was_sent(world: World, of: tuple[str, str]) -> None:
    it = Examined(of, world)
    answer = it.create(it.body | {"colour": "white"})
    if not it.any_names:
        assert answer.status_code == 400, "an unknown attribute is accepted"
        answer = it.create(it.body)
    assert answer.status_code in {200, 201, 202}, answer.content
    world.agent.work()
    key = it.key_in(answer)
    own = f"{it.path.partition('?')[0]}/{key}"

    shown, lists = it.show(own), (it.path, f"{it.path}/detail") if it.resource.short else (it.path,)
    sent = {name: value for name, value in it.body.items() if name not in it.row.not_shown}
    assert {name: shown.get(name) for name in sent} == sent
    assert not it.extra or shown["colour"] == "white"
    for where in lists:
        [entry] = it.entries(where, key)
        assert {name: shown.get(name) for name in entry} == entry, where
    if it.row.caller == "alice":
        assert it.stranger.get(own).status_code in {403, 404}, "another project sees it"
        assert not it.entries(it.path.partition("?")[0], key, it.stranger), "another project lists it"

    assert bool(it.changes) == (it.resource.update is not None and of not in CHANGED_ELSEWHERE)
    if it.changes:
        answer = it.update(own, it.changes)
        assert answer.status_code in {200, 202}, answer.content
        assert _stable(it.show(own)) == _stable(shown | it.changes)

    if it.resource.delete is not None:
        assert it.api.delete(own).status_code in {200, 202, 204}
        world.agent.work()
        assert (it.api.get(own).status_code, it.api.delete(own).status_code) == (404, 404)
        assert not any(it.entries(where, key) for where in lists)


def _stable(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in {"updated_at", "revision_number"}}


@pytest.mark.slow
@each_row("of", [of for of in ROWS if of[0] == "identity"])
def test_fixed_attributes_may_be_repeated_and_not_changed(world: World, of: tuple[str, str]) -> None:
    it = Examined(of, world)
    own = f"{it.path.partition('?')[0]}/{it.key_in(it.create(it.body))}"
    shown, known = it.show(own), it.resource.attributes
    assert own.endswith(shown["links"]["self"].rpartition("/")[2])
    if it.resource.update is None:
        return
    repeated = {each.name: shown[each.name] for each in known if (each.put or each.fixed) and each.name in shown}
    assert it.update(own, repeated).json() == {it.resource.name: shown}
    for each in known:
        if each.fixed:
            other = not shown[each.name] if isinstance(shown[each.name], bool) else "f" * 32
            assert it.update(own, {each.name: other}).status_code in {400, 403}, each.name
    answer = it.update(own, repeated | {"shape": "round"})
    assert answer.status_code == (200 if it.extra else 400)
    assert not it.extra or answer.json() == {it.resource.name: shown | {"shape": "round"}}


def test_a_microversion_has_each_attribute_once() -> None:
    spans = {"compute": MICROVERSIONS, "volume": VOLUME_MICROVERSIONS}
    versioned = [(service, resource) for (service, _), resource in declared().items() if service in spans]
    for service, resource in versioned:
        (major, first), (_, last) = spans[service].minimum, spans[service].maximum
        for minor in range(first, last + 1):
            there = [each for each in resource.attributes if each.is_at((major, minor))]
            for names in ([a.name for a in there if a.shown], [a.name for a in there if a.post]):
                assert len(names) == len(set(names)), (service, resource.name, minor)
