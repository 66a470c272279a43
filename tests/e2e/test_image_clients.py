"""Metadata definitions as the unmodified ``openstack`` command line and openstacksdk use them."""

from __future__ import annotations

from typing import Any

import pytest
from openstack.image.v2 import _proxy as image_proxy

from tests.e2e.sdk_proxies import Spy, connect, methods
from tests.support.command_line import batch, refused
from tests.support.one_machine import OneMachine

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NAME = "Acme::Disk"


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """One column of a list, whose names begin with capital letters in some commands."""
    return [{key.lower(): value for key, value in row.items()}[name] for row in rows]


@pytest.mark.deep
def test_metadata_definitions_by_command(cloud: OneMachine) -> None:
    made, listed, shown = batch(
        cloud,
        f"image metadef namespace create --display-name Disks --public --protected {NAME}",
        "image metadef namespace list --visibility public",
        f"image metadef namespace show {NAME}",
    )
    assert {NAME, "OS::Compute::CPUPinning", "Novella::Image"} <= {row["namespace"] for row in listed}
    assert (made["namespace"], shown["display_name"], shown["protected"]) == (NAME, "Disks", True)
    assert "protected" in refused(cloud, f"image metadef namespace delete {NAME}")
    given, kinds, meant, properties, one, _, objects, tagged = batch(
        cloud,
        f"image metadef namespace set --unprotected --public --tag ssd {NAME}",
        f"image metadef property create --name speed --title Speed --type string --schema {{}} {NAME}",
        f"image metadef property set --title Pace {NAME} speed",
        f"image metadef resource type association create {NAME} OS::Glance::Image",
        "image metadef resource type list -f json",
        f"image metadef resource type association list {NAME} -f json",
        f"image metadef property list {NAME}",
        f"image metadef property show {NAME} speed",
        f"image metadef object create --namespace {NAME} size",
        f"image metadef object update --name room {NAME} size",
        f"image metadef object list {NAME}",
        f"image metadef namespace show {NAME}",
    )
    assert given["title"] == "Speed"
    assert "OS::Glance::Image" in column(kinds, "name")
    assert column(meant, "name") == ["OS::Glance::Image"]
    assert column(properties, "title") == [one["title"]] == ["Pace"]
    assert column(objects, "name") == ["room"]
    assert "ssd" in str(tagged["tags"])
    batch(
        cloud,
        f"image metadef namespace unset --all-tags {NAME}",
        f"image metadef resource type association delete {NAME} OS::Glance::Image",
        f"image metadef property delete {NAME} speed",
        f"image metadef object delete {NAME} room",
        f"image metadef namespace delete {NAME}",
    )
    assert "was not found" in refused(cloud, f"image metadef namespace show {NAME}")


def test_metadata_definitions_by_the_sdk(cloud: OneMachine) -> None:
    image = Spy(connect(cloud).image)
    made = image.create_metadef_namespace(namespace=NAME, visibility="public")
    assert image.get_metadef_namespace(NAME).owner == made.owner
    assert NAME in {each.namespace for each in image.metadef_namespaces(limit=3)}, "page by page"
    image.update_metadef_namespace(NAME, display_name="Disks")
    image.add_tag_to_metadef_namespace(NAME, "ssd")
    image.add_tag_to_metadef_namespace(NAME, "hdd")
    image.remove_tag_from_metadef_namespace(NAME, "hdd")
    image.remove_tags_from_metadef_namespace(NAME)
    contents(image)
    for name in ("namespace", "resource_type", "object", "property", "tag"):
        plural = "properties" if name == "property" else f"{name}s"
        for each in (name, plural):
            assert getattr(image, f"get_metadef_{each}_schema")().properties
    image.delete_metadef_namespace(NAME)
    assert {name for name in methods(image_proxy.Proxy) - image.used if "metadef" in name} == set()


def contents(image: Any) -> None:
    image.create_metadef_object(NAME, name="size", properties={"gib": {"title": "GiB", "type": "integer"}})
    assert image.get_metadef_object("size", NAME).properties["gib"]["type"] == "integer"
    assert [each.name for each in image.metadef_objects(NAME)] == ["size"]
    image.update_metadef_object("size", NAME, name="room", description="d")
    image.delete_metadef_object("room", NAME)
    image.delete_all_metadef_objects(NAME)
    image.create_metadef_resource_type_association(NAME, name="OS::Glance::Image", prefix="acme_")
    assert "OS::Glance::Image" in {each.name for each in image.metadef_resource_types()}
    assert [each.prefix for each in image.metadef_resource_type_associations(NAME)] == ["acme_"]
    image.create_metadef_property(NAME, name="speed", title="Speed", type="string", enum=["slow", "fast"])
    assert [each.name for each in image.metadef_properties(NAME)] == ["speed"]
    assert image.get_metadef_property("speed", NAME).title == "Speed"
    image.update_metadef_property("speed", NAME, name="speed", title="Pace", type="string")
    image.delete_metadef_property("speed", NAME)
    image.delete_all_metadef_properties(NAME)
    image.delete_metadef_resource_type_association("OS::Glance::Image", NAME)
