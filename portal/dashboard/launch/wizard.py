"""The data of the wizard, collected for one request."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from django import forms

from portal.dashboard.frame.forms import ChoiceLabel
from portal.dashboard.launch.forms import ADVANCED, BOOT_FIELDS, DATA, END, OPENINGS, LaunchForm
from portal.dashboard.launch.quote import meters
from portal.dashboard.words import wording
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.launch.checks import MAX_COUNT
from provisioning.compute.launch.flavor_choices import FlavorChoice, FlavorRequest, flavor_choices
from provisioning.compute.launch.multipart import own_part
from provisioning.compute.models import Instance, KeyPair, ServerGroup
from provisioning.compute.records.names import disk_name, numbered
from provisioning.compute.selectors import Limits
from provisioning.compute.selectors.server_groups import server_groups_for
from provisioning.hosts.selectors import availability_zones
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.launches import selectors as launches
from provisioning.launches.cloud_config.builtin import BUILT_IN
from provisioning.launches.models import Snippet
from provisioning.launches.plans.plan import PLACEHOLDER, DataDisk, default_disk_name
from provisioning.network import selectors as network
from provisioning.network.models import Network, SecurityGroup
from provisioning.network.selectors.ways_out import reachable_external_networks
from provisioning.volumes import selectors as volumes
from provisioning.volumes.states import SnapshotStatus, VolumeStatus

NOTHING_FITS = (
    "No size can be launched now; each shows the reason. Delete instances, or ask an operator for a larger quota."
)
SHOWS_USER_DATA = "os_compute_api:os-extended-server-attributes"
OFFERED = 100
"""Maximum number of volumes, and of snapshots, that the wizard shows: the newest."""
NO_KEY = ChoiceLabel("No key", "You cannot log in by SSH unless the user data sets it up.")
NAMES_SHOWN = 3


@dataclass
class Wizard:
    """The form, and its lists of choices."""

    context: RequestContext
    form: LaunchForm
    images: list[Image]
    keys: list[KeyPair]
    networks: list[Network]
    groups: list[SecurityGroup]
    zones: list[str]
    server_groups: list[ServerGroup]
    limits: Limits
    bootable: list[tuple[str, str]] = field(default_factory=list)
    """Volumes and snapshots to boot from, each with the key of its choice."""
    flavors: list[FlavorChoice] = field(default_factory=list)
    outsides: list[Network] = field(default_factory=list)
    """External networks that routers connect to the chosen networks."""
    snippets: list[Snippet] = field(default_factory=list)

    def chosen(self, name: str) -> Any:
        """Return the value of a field: text, or a list of texts."""
        return self.form[name].value()

    @property
    def image(self) -> Image | None:
        return next((image for image in self.images if str(image.id) == self.chosen("image")), None)

    @property
    def flavor(self) -> FlavorChoice | None:
        return next((choice for choice in self.flavors if choice.flavor.flavorid == self.chosen("flavor")), None)

    @property
    def flavor_request(self) -> FlavorRequest:
        """The chosen number of servers, zone and server group."""
        key = self.chosen("server_group")
        group = next((group for group in self.server_groups if str(group.id) == key), None)
        return FlavorRequest(self.form.number, self.chosen("availability_zone") or "", group)

    @property
    def chosen_networks(self) -> list[Network]:
        return [net for net in self.networks if str(net.id) in (self.chosen("networks") or [])]

    @property
    def disk_open(self) -> bool:
        """Whether the disk section is expanded."""
        wrong = bool(BOOT_FIELDS & self.form.errors.keys())
        return wrong or bool(self.chosen("boot_from") or self.chosen("on_volume"))

    @property
    def data_open(self) -> bool:
        """Whether the section of data disks and the end is expanded."""
        return bool((DATA | END) & self.form.errors.keys() or self.chosen("disks") or self.chosen("lease_days"))

    @property
    def names(self) -> list[str]:
        """Return the first names of several servers, an ellipsis, and the last one."""
        number, name = self.form.number, str(self.chosen("name") or "").strip()
        if not name or (number == 1 and PLACEHOLDER not in name):
            return []
        every = [numbered(name, index, number, placeholder=PLACEHOLDER) for index in range(min(number, MAX_COUNT))]
        return every if len(every) <= NAMES_SHOWN else [*every[: NAMES_SHOWN - 1], "\N{HORIZONTAL ELLIPSIS}", every[-1]]

    @property
    def disks(self) -> Sequence[str]:
        """Return the data disks of the first instance in words; empty while they are invalid."""
        bound = self.form.is_bound and "disks" not in self.form.locked
        disks = self.form.cleaned_data.get("disks") if bound else self.form["disks"].value()
        rows = [each for each in disks or () if isinstance(each, DataDisk)]
        name, count = str(self.chosen("name") or "").strip(), self.form.number
        first = numbered(name, 0, count, placeholder=PLACEHOLDER)
        return [
            f"{bdi(disk_name(each.name or default_disk_name(position), first, 0, count, placeholder=PLACEHOLDER))}"
            f" {each.size_gb}{wording.JOINED}GiB" + (f" at {each.mount}" if each.mount else "")
            for position, each in enumerate(rows)
        ]

    @property
    def openings(self) -> str:
        """Return the services that are open to any address, in words."""
        titles = {key: str(label) for key, label in OPENINGS}
        chosen = self.chosen("openings") or []
        return ", ".join(title for key, title in titles.items() if key in chosen)

    @property
    def lease(self) -> str:
        """Return the end of the lease in words; empty for none."""
        chosen = self.chosen("lease_days")
        offered = dict(cast("forms.Select", self.form.fields["lease_days"].widget).choices)
        return str(offered.get(chosen, "")) if chosen else ""

    @property
    def log_in(self) -> str:
        """Return how users log in: ``key``, ``password``, ``user_data`` or, if nothing is set up, an empty text."""
        if self.chosen("key_name"):
            return "key"
        if self.chosen("password"):
            return "password"
        return "user_data" if self.chosen("user_data") or self.chosen("snippets") else ""

    @property
    def advanced_open(self) -> bool:
        """Whether the section *Advanced* is expanded."""
        filled_in = bool(ADVANCED & self.form.errors.keys() or self.form.fields["user_data"].help_text)
        return filled_in or (len(self.networks) > 1 and not self.chosen("networks"))

    def shown(self) -> Mapping[str, Any]:
        self._offer()
        if self.flavors and not self.chosen("flavor") and all(choice.reason for choice in self.flavors):
            self.form.replace_error("flavor", NOTHING_FITS)
        flavor = self.flavor
        return {
            "wizard": self,
            "form": self.form,
            "meters": meters(self.limits, flavor.flavor if flavor else None, self.form.number),
        }

    def _offer(self) -> None:
        form = self.form
        form.offer("image", [(str(image.id), _image_label(image, self.context)) for image in self.images])
        form.offer("boot_from", [("", "The image above"), *self.bootable])
        form.offer("flavor", [(choice.flavor.flavorid, _flavor_label(choice)) for choice in self.flavors])
        form.offer("key_name", key_choices(self.keys))
        form.offer("availability_zone", [("", "Any"), *((zone, zone) for zone in self.zones)])
        groups = [(str(group.id), f"{bdi(group.name)} ({group.policy})") for group in self.server_groups]
        form.offer("server_group", [("", "None"), *groups])
        form.offer("networks", network_choices(self.networks))
        if not self.networks:
            form.fields["networks"].help_text = "No network is available: the instance will have no address."
        form.offer("snippets", snippet_choices(self.snippets))
        if not self.outsides:
            form.fields[
                "reachable"
            ].help_text = (
                "No router connects the chosen networks to an external network: connect one under Routers first."
            )
        form.offer("security_groups", group_choices(self.groups))
        if not self.groups:
            form.fields["security_groups"].help_text = "The project's default group is used."


def open_wizard(context: RequestContext, form: LaunchForm) -> Wizard:
    """Collect the lists; an empty form gets default choices that can be launched unchanged."""
    wizard = Wizard(
        context=context,
        form=form,
        images=images.usable_images_for(context),
        keys=compute.key_pairs_for(context),
        networks=network.networks_to_choose(context),
        groups=network.security_groups_to_choose(context),
        zones=availability_zones(),
        server_groups=server_groups_for(context)
        if policy.allows(context, "os_compute_api:os-server-groups:index")
        else [],
        limits=compute.limits_for(context),
        bootable=_bootable(context),
        snippets=list(launches.snippets_for(context)) if policy.allows(context, "novella:snippets:list") else [],
    )
    if not form.is_bound:
        _choose(context, wizard)
    wizard.outsides = reachable_external_networks(
        context, [{"network_id": str(net.id)} for net in wizard.chosen_networks]
    )
    wizard.flavors = flavor_choices(context, wizard.image, wizard.limits, wizard.flavor_request)
    if not form.is_bound:
        fitting = [choice for choice in wizard.flavors if not choice.reason]
        best = next((choice for choice in fitting if choice.room), None) or next(iter(fitting), None)
        form.initial.setdefault("flavor", best.flavor.flavorid if best else "")
    return wizard


def _bootable(context: RequestContext) -> list[tuple[str, str]]:
    """Return the available volumes and the volume snapshots that an instance can boot from."""
    if not policy.allows(context, "volume:get_all"):
        return []
    free = volumes.visible_volumes(context).filter(bootable=True, status=VolumeStatus.AVAILABLE)
    taken = volumes.visible_snapshots(context).filter(volume__bootable=True, status=SnapshotStatus.AVAILABLE)
    return [
        *(
            (f"volume:{row.id}", f"Volume {bdi(row)} ({row.size_gb} GiB)")
            for row in free.order_by("-created_at")[:OFFERED]
        ),
        *(
            (f"snapshot:{row.id}", f"Snapshot {bdi(row)} ({row.size_gb} GiB), on a new volume")
            for row in taken.order_by("-created_at")[:OFFERED]
        ),
    ]


def key_choices(keys: list[KeyPair]) -> list[tuple[str, ChoiceLabel]]:
    """Return the choices of the key pair, with an option for no key pair."""
    return [*((key.name, ChoiceLabel(key.name, f"{key.fingerprint:.23}…")) for key in keys), ("", NO_KEY)]


def snippet_choices(snippets: Sequence[Snippet]) -> list[tuple[str, ChoiceLabel]]:
    """Return the project's snippets and the built-in ones."""
    own = [(str(each.id), ChoiceLabel(each.name, each.description)) for each in snippets]
    return [*own, *((key, ChoiceLabel(each.title, each.description, tag="built-in")) for key, each in BUILT_IN.items())]


def network_choices(networks: list[Network]) -> list[tuple[str, ChoiceLabel]]:
    """Return the networks to choose from, with their ranges."""
    return [(str(net.id), _network_label(net)) for net in networks]


def group_choices(groups: list[SecurityGroup]) -> list[tuple[str, ChoiceLabel]]:
    """Return the security groups to choose from."""
    return [(str(each.id), ChoiceLabel(str(each), each.description)) for each in groups]


def _choose(context: RequestContext, wizard: Wizard) -> None:
    """Set the defaults of image, key and networks to the user's last choices.

    Without last choices, the defaults are the first image and key, and the oldest network; networks of the project come
    before shared networks. So a network that is created later does not change the default.
    """
    initial = wizard.form.initial
    again = wizard.form.again
    values = dict(initial) if wizard.form.copied else {}
    last = again or next(iter(compute.instances_for(context, user_id=context.user_id, limit=1)), None)
    image_ids, key_names = [image.id for image in wizard.images], [key.name for key in wizard.keys]
    if image_ids and initial.get("image") not in {str(image_id) for image_id in image_ids}:
        initial["image"] = str(last.image_id if last and last.image_id in image_ids else image_ids[0])
    initial["key_name"] = ""
    if key_names:
        initial["key_name"] = last.key_name if last and last.key_name in key_names else key_names[0]
    network_ids = [str(net.id) for net in wizard.networks if str(net.id) in initial.get("networks", ())]
    initial["networks"] = network_ids or _usual_networks(context, wizard.networks, last)
    initial["security_groups"] = [str(group.id) for group in wizard.groups if group.name == "default"]
    initial.update(values | ({} if "networks" in wizard.form.locked else {"networks": initial["networks"]}))
    if again is not None:
        initial.update(_of(again, wizard))


def _of(instance: Instance, wizard: Wizard) -> dict[str, Any]:
    """Return the form's values for a launch like this instance's, without its flavor and deleted resources."""
    network_ids = {str(each.get("network_id")) for each in instance.requested_networks}
    chosen = _choices_of(instance, wizard)
    chosen_groups = chosen.pop("security_groups")
    groups = [str(group.id) for group in wizard.groups if str(group.id) in chosen_groups]
    result: dict[str, Any] = {
        "name": instance.name,
        "key_name": instance.key_name if instance.key_name in {key.name for key in wizard.keys} else "",
        "networks": [str(net.id) for net in wizard.networks if str(net.id) in network_ids] or None,
        "security_groups": groups or None,
        "availability_zone": instance.availability_zone if instance.availability_zone in wizard.zones else "",
        "server_group": str(instance.server_group_id or ""),
        "user_data": _user_data_of(instance, wizard),
        "metadata": "\n".join(f"{key}={value}" for key, value in instance.metadata.items()),
        "tags": ", ".join(instance.tags),
        "description": instance.description or "",
        "config_drive": instance.config_drive,
        **chosen,
    }
    return {name: value for name, value in result.items() if value is not None}


def _choices_of(instance: Instance, wizard: Wizard) -> dict[str, Any]:
    """Return the choices of an instance's launch that are not in the columns of the instance."""
    lease = launches.lease_of(instance.id)
    result = {**launches.choices_of(wizard.context, instance), "lease_days": str(lease.days) if lease else ""}
    if result.get("image") not in {str(image.id) for image in wizard.images}:
        result.pop("image", None)
    return result


def _user_data_of(instance: Instance, wizard: Wizard) -> str | None:
    """Return the user data of the instance if the API would show it to the caller, or if the caller launched the
    instance; otherwise None, with a note at the field.
    """
    if not instance.user_data:
        return None
    field = wizard.form.fields["user_data"]
    if instance.user_id != wizard.context.user_id and not policy.allows(wizard.context, SHOWS_USER_DATA):
        field.help_text = "Another person launched it: its user data is not copied."
        return None
    try:
        return base64.b64decode(own_part(instance.user_data)).decode()
    except ValueError:
        field.help_text = "Its user data is not text and is not copied."
        return None


def _usual_networks(context: RequestContext, networks: list[Network], last: Instance | None) -> list[str]:
    if last is not None:
        used = {each.network_id for each in network.addresses_of([last.id]).get(last.id, [])}
        if chosen := [str(net.id) for net in networks if net.id in used]:
            return chosen
    own = [net for net in networks if net.project_id == context.project_id]
    oldest = min(own or networks, key=lambda net: (net.created_at, str(net.id)), default=None)
    return [str(oldest.id)] if oldest is not None else []


def _image_label(image: Image, context: RequestContext) -> ChoiceLabel:
    needs = [wording.mebibytes(image.min_ram)] if image.min_ram else []
    needs += [f"{image.min_disk}{wording.JOINED}GiB disk"] if image.min_disk else []
    size = "-" if image.size is None else wording.size_in_bytes(image.size)
    facts = [size, image.disk_format or "", f"needs {', '.join(needs)}" if needs else ""]
    tag = "yours" if image.project_id == context.project_id else ""
    return ChoiceLabel(image.name or str(image.id), " · ".join(filter(None, facts)), tag=tag)


def _flavor_label(choice: FlavorChoice) -> ChoiceLabel:
    css_class = "unfit" if choice.reason else ""
    return ChoiceLabel(
        choice.flavor.name, css_class=css_class, template="dashboard/launch/_flavor.html", subject=choice
    )


def _network_label(net: Network) -> ChoiceLabel:
    words = [subnet.cidr for subnet in net.subnets.all()] + ["shared"] * net.shared_with_caller
    return ChoiceLabel(str(net), " · ".join(words))
