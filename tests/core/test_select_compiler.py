"""Our shortcuts in making a SELECT: the statement and the rows are those that Django's own compiler makes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.db.backends.postgresql import compiler as postgresql
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Lower
from django.db.models.sql import compiler as sqlite

from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.identity.models import User
from provisioning.network.models import Port, Subnet
from tests.support.clouds import Cloud

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases("sql")]

USERS = User.objects.values_list("name")
PORTS = Port.objects.filter(device_id=OuterRef("pk"))
QUERIES: dict[str, QuerySet[Any, Any]] = {
    "columns": Instance.objects.order_by("-created_at", "id"),
    "no order": Instance.objects.all(),
    "other tables": Instance.objects.select_related("host").order_by("host__name", "-id"),
    "prefetched": Subnet.objects.prefetch_related("network").order_by("network__name", "id"),
    "primary key": Instance.objects.order_by("-pk"),
    "F": Instance.objects.order_by(F("launched_at").desc(nulls_first=True), "id"),
    "plain F": Instance.objects.order_by(F("name"), "id"),
    "function": Instance.objects.order_by(Lower("name"), "id"),
    "annotation": Instance.objects.annotate(known=Exists(PORTS)).order_by("-known", "id"),
    "F of an annotation": Instance.objects.annotate(label=Lower("name")).order_by(F("label").asc(nulls_last=True)),
    "annotated and not by it": Instance.objects.annotate(known=Exists(PORTS)).order_by("name", "id"),
    "alias": Instance.objects.alias(label=Lower("name")).order_by("label", "id"),
    "constant": Instance.objects.annotate(one=Value(1)).order_by("one", "id"),
    "values": Instance.objects.values("name", "id").order_by("name"),
    "grouped": Instance.objects.values("project_id").annotate(many=Count("pk")).order_by("many", "project_id"),
    "renamed": Instance.objects.values(label=F("name")).order_by("label"),
    "distinct": Instance.objects.values_list("name").distinct().order_by("-name"),
    "distinct, by something else": Instance.objects.values_list("name").distinct().order_by("created_at"),
    "union": USERS.union(Host.objects.values_list("name")).order_by("name"),
    "reversed": Instance.objects.order_by("name", "id").reverse(),
    "subquery": Instance.objects.filter(pk__in=Instance.objects.order_by("name").values("pk")[:1]),
    "aggregate": Instance.objects.filter(pk__in=Port.objects.values("device_id")).order_by("id")[:5],
}


def test_a_select_is_the_one_that_django_makes(cloud: Cloud, alice: RequestContext) -> None:
    for each in ("one", "two"):
        cloud.launch(alice, name=each)
    wrong = {name: result for name, queryset in QUERIES.items() if (result := _differences(queryset))}
    assert not wrong


def test_a_condition_is_checked_without_a_table(db: None) -> None:
    """As forms do for the constraints of a model."""
    assert Q(name="one").check({"name": Value("one")})
    assert not Q(name="one").check({"name": Value("two")})


def _differences(queryset: QuerySet[Any, Any]) -> list[str]:
    """Name what our compiler makes otherwise than Django's own for the same database."""
    database = connections["default"]
    module: Any = sqlite if database.vendor == "sqlite" else postgresql
    ours = queryset.query.get_compiler("default")
    django = module.SQLCompiler(queryset.query.clone(), database, None)
    assert type(ours) is not type(django)
    differences = [] if ours.as_sql() == django.as_sql() else ["statement"]
    selected = [expression for expression, *_ in django.select]
    if ours.get_converters(selected) != django.get_converters(selected):
        return [*differences, "converters"]
    return differences if list(ours.results_iter()) == list(django.results_iter()) else [*differences, "rows"]
