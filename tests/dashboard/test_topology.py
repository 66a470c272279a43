"""The picture of the networks: where everything lies, what it says, and that it follows the cloud."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from django.test import Client

from portal.dashboard.live import render
from portal.dashboard.topology import views
from portal.dashboard.topology.picture import (
    BOX_HEIGHT,
    BOX_WIDTH,
    COLUMN,
    MARGIN,
    MOST_COLUMNS,
    Device,
    lay_out,
)
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import Router
from tests.dashboard.conftest import SignedIn
from tests.network.delivery.conftest import leg
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing


@dataclass
class Net:
    """A network to lay out."""

    id: str
    external: bool = False


def devices(*legs: str) -> list[Device]:
    return [Device(number, f"d{number}", {net: ["a"] for net in on}) for number, on in enumerate(legs)]


def test_no_line_crosses_a_box_and_no_boxes_overlap() -> None:
    (picture,) = lay_out([Net("a"), Net("b"), Net("c"), Net("d")], devices("a", "ac", "b", "bd", "d", "c", "bc", "a"))
    boxes = {(box.x, box.y) for box in picture.boxes}
    assert len(boxes) == len(picture.boxes) == 8
    for box in picture.boxes:
        for other in picture.boxes:
            for line in other.lines:
                crosses = line.x1 < box.x + BOX_WIDTH and box.x < line.x2 and box.y < line.y < box.y + BOX_HEIGHT
                assert not crosses, (box.item, other.item)
    assert all(box.x + BOX_WIDTH < picture.width and box.y + BOX_HEIGHT < picture.height for box in picture.boxes)


def test_rows_are_used_again_where_there_is_room() -> None:
    (picture,) = lay_out([Net("a"), Net("b"), Net("c")], devices("a", "b", "c"))
    assert len({box.y for box in picture.boxes}) == 1


def test_a_line_for_each_leg_and_a_short_name() -> None:
    device = Device("x", "n" * 60, {"a": ["10.0.0.5", "10.0.0.6"], "b": ["10.1.0.5"]})
    ((box,),) = [picture.boxes for picture in lay_out([Net("a"), Net("b")], [device])]
    assert [line.text for line in box.lines] == ["10.0.0.5", "10.0.0.6", "10.1.0.5"]
    assert len({line.y for line in box.lines[:2]}) == 2
    assert len(box.name) < 25


def test_networks_that_a_router_joins_stand_together_and_no_band_is_wider_than_a_page() -> None:
    nets = [Net("out", external=True), Net("far", external=True), *(Net(each) for each in "abcdefghijklm")]
    joined = ("adgj", "behk", "cfi", "m")
    routers = [
        Device(row, f"r{row}", {"out": ["x"], **{key: ["y"] for key in keys}}) for row, keys in enumerate(joined)
    ]
    lonely = [Device("gateway", "gateway", {"out": ["x"]}), Device("nowhere", "nowhere", {})]
    pictures = lay_out(nets, [*routers, *lonely])
    shown = [[bar.item.id for bar in picture.bars] for picture in pictures]
    assert shown == [["out", "far", *"adgj"], ["out", *"cfi"], ["out", *"behk"], ["out", *"ml"], []]
    assert [[box.item for box in picture.boxes] for picture in pictures] == [[0, "gateway"], [2], [1], [3], ["nowhere"]]
    assert {picture.width for picture in pictures} == {(MOST_COLUMNS + 1) * COLUMN + 2 * MARGIN}


def test_an_instance_on_networks_of_two_routers_tears_neither_apart() -> None:
    nets = [Net("out", external=True), *(Net(each) for each in "abcdefgh")]
    routers = [Device(keys, keys, dict.fromkeys(["out", *keys], ("x",))) for keys in ("aceg", "bdfh")]
    pictures = lay_out(nets, [*routers, Device("both", "both", dict.fromkeys("ch", ("x",)))])
    assert [{bar.item.id for bar in picture.bars} for picture in pictures] == [
        set("aceg") | {"out"},
        set("bdfh") | {"out"},
    ]


def test_a_router_on_networks_of_two_bands_is_in_both_and_says_so() -> None:
    nets = [Net(each) for each in "abcdefghi"]
    pictures = lay_out(nets, [Device("r", "r", {each: ["x"] for each in "abcdefghi"})])
    boxes = [box for picture in pictures for box in picture.boxes]
    assert len(pictures) == 2
    assert [len(box.lines) + box.elsewhere for box in boxes] == [9, 9]


@pytest.fixture
@standing
def router(cloud: Cloud, alice: Person) -> Router:
    router = Router.objects.create(project_id=alice.project_id, name="way out")
    leg(router, cloud.network, "10.20.0.1")
    return router


def test_networks_routers_and_instances_are_there_with_their_addresses(
    at_alice: Client, alice: Person, cloud: Cloud, router: Router
) -> None:
    instance = cloud.running(alice.context, name="<web>")
    shown = at_alice.get("/network-map/").content.decode()
    assert f'href="/instances/{instance.id}/"' in shown
    assert "Instance &lt;web&gt;: Active, 10.20.0." in shown
    assert "way out: Router, Active, 10.20.0.1" in shown
    assert "10.20.0.0/24" in shown
    assert f"/instances/launch/?network={cloud.network.id}" in shown
    assert f'href="/networks/{cloud.network.id}/"' in shown
    assert f'href="/routers/{router.id}/"' in shown
    assert len(re.findall(r"<line ", shown)) == 2


def test_another_project_s_networks_and_routers_are_not_there(
    signed_in: object, charlie: Person, alice: Person, cloud: Cloud, router: Router
) -> None:
    private = services.create_network(alice.project_id, "alice-only")
    services.create_subnet(private, "10.77.0.0/24")
    shown = signed_in(charlie).get("/network-map/").content.decode()  # type: ignore[operator]
    assert "net" in shown
    assert "alice-only" not in shown
    assert "way out" not in shown


@pytest.mark.slow
def test_a_network_that_is_shared_by_name_is_there_to_launch_on(
    signed_in: SignedIn, charlie: Person, alice: Person, cloud: Cloud
) -> None:
    given = services.create_network(alice.project_id, "given")
    services.create_subnet(given, "10.77.0.0/24")
    outside = services.create_network(alice.project_id, "outside", external=True)
    before = events.latest_id()
    services.create_rbac_policy(alice.project_id, "network", given, "access_as_shared", charlie.project_id.hex)
    launch = f"/instances/launch/?network={given.id}"
    drawn = render("topology", events.since([f"project:{charlie.project_id}"], before), charlie.context)
    client = signed_in(charlie)
    for shown in (client.get("/network-map/").content.decode(), drawn):
        assert launch in shown
        assert "given, shared: 10.77.0.0/24" in shown
        assert str(outside.id) not in shown
    form = client.get(launch).context["form"]
    assert form["networks"].value() == [str(given.id)]
    labels = dict(form.fields["networks"].widget.choices)
    assert labels[str(given.id)].sub == "10.77.0.0/24 · shared"


def test_the_picture_follows_instances_and_networks(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    before = events.latest_id()
    services.create_network(alice.project_id, "fresh")
    html = render("topology", events.since([f"project:{alice.project_id}"], before), alice.context)
    assert html.lstrip().startswith('<section id="topology"')
    assert "fresh" in html
    assert 'data-live-page="topology"' in at_alice.get("/network-map/").content.decode()
    assert render("instances", events.since([f"project:{alice.project_id}"], before), alice.context) == ""


@pytest.mark.slow
def test_the_wizard_begins_on_the_network_that_was_clicked(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    own = services.create_network(alice.project_id, "own")
    services.create_subnet(own, "10.78.0.0/24")
    wizard = at_alice.get(f"/instances/launch/?network={cloud.network.id}").context["form"]
    assert wizard["networks"].value() == [str(cloud.network.id)]
    for other in ("", "?network=none"):
        assert at_alice.get(f"/instances/launch/{other}").context["form"]["networks"].value() == [str(own.id)]


@pytest.mark.slow
def test_the_instances_of_a_crowded_network_are_one_box_that_opens(
    at_alice: Client, alice: Person, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "FOLDED", 1)
    instances = [cloud.running(alice.context, name=name) for name in ("one", "two")]
    rows = [f'href="/instances/{instance.id}/"' for instance in instances]
    folded = at_alice.get("/network-map/").content.decode()
    opener = f"/network-map/?open={cloud.network.id}#net-{cloud.network.id}"
    assert "2 instances on net: 2 active" in folded
    assert f'href="{opener}"' in folded
    assert not any(row in folded for row in rows)
    page = at_alice.get(opener)
    assert all(row in page.content.decode() for row in rows)
    assert f'id="net-{cloud.network.id}"' in page.content.decode()
    before = events.latest_id()
    services.create_network(alice.project_id, "fresh")
    log = events.since([f"project:{alice.project_id}"], before)
    drawn = render(page.context["shell"]["live_page"], log, alice.context)
    assert all(row in drawn for row in rows)
    assert "fresh" in drawn
