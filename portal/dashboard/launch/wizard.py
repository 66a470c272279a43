"""Everything the wizard shows, gathered at once: it opens with one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.dashboard.launch import names
from portal.dashboard.launch.forms import ADVANCED, NO_NETWORK, Choices
from portal.dashboard.launch.quote import meters
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.launch.flavor_choices import FlavorChoice, Wanted, flavor_choices
from provisioning.compute.models import KeyPair, ServerGroup
from provisioning.compute.selectors import Limits
from provisioning.compute.selectors.server_groups import server_groups_for
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.network import selectors as network
from provisioning.network.models import Network, SecurityGroup

NOTHING_FITS = "No size can be launched now: each says why. Delete instances, or ask an operator for a larger quota."


@dataclass
class Wizard:
    """The lists to choose from, the choices, and what is wrong with them (field → sentence)."""

    choices: Choices
    images: list[Image]
    keys: list[KeyPair]
    networks: list[Network]
    groups: list[SecurityGroup]
    zones: list[str]
    server_groups: list[ServerGroup]
    limits: Limits
    flavors: list[FlavorChoice] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def image(self) -> Image | None:
        """The chosen image."""
        return next((image for image in self.images if str(image.id) == self.choices.image), None)

    @property
    def flavor(self) -> FlavorChoice | None:
        """The chosen size."""
        return next((choice for choice in self.flavors if choice.flavor.flavorid == self.choices.flavor), None)

    @property
    def wanted(self) -> Wanted:
        """What the choices say of the place."""
        group = next((group for group in self.server_groups if str(group.id) == self.choices.server_group), None)
        return Wanted(self.choices.number, self.choices.availability_zone, group)

    @property
    def chosen_networks(self) -> list[Network]:
        """The chosen networks."""
        return [net for net in self.networks if str(net.id) in self.choices.networks]

    @property
    def advanced_open(self) -> bool:
        """Whether something under *Advanced* wants to be seen."""
        return bool(ADVANCED & self.errors.keys()) or (len(self.networks) > 1 and not self.choices.networks)

    @property
    def first_error(self) -> str:
        """The field where the cursor goes."""
        return next(iter(self.errors), "")

    def shown(self) -> Mapping[str, Any]:
        """Return what the templates need."""
        flavor = self.flavor
        if self.flavors and not self.choices.flavor and all(choice.reason for choice in self.flavors):
            self.errors = {"flavor": NOTHING_FITS}
        return {
            "wizard": self,
            "choices": self.choices,
            "errors": self.errors,
            "no_network": NO_NETWORK,
            "meters": meters(self.limits, flavor.flavor if flavor else None, self.choices.number),
        }


def open_wizard(context: RequestContext, choices: Choices | None = None) -> Wizard:
    """Gather the lists; without choices, choose what suits most people: something that can be launched as it stands."""
    wizard = Wizard(
        choices=choices or Choices(name=names.suggest()),
        images=images.usable_images_for(context),
        keys=compute.key_pairs_for(context),
        networks=list(network.usable_networks_for(context).prefetch_related("subnets")),
        groups=list(network.security_groups_for(context).order_by("name")),
        zones=compute.availability_zones(),
        server_groups=server_groups_for(context) if policy.allows(context, "compute:server_groups:list") else [],
        limits=compute.limits_for(context),
    )
    if choices is None:
        _choose(context, wizard)
    wizard.flavors = flavor_choices(context, wizard.image, wizard.limits, wizard.wanted)
    if choices is None:
        fitting = [choice for choice in wizard.flavors if not choice.reason]
        best = next((choice for choice in fitting if choice.room), None) or next(iter(fitting), None)
        wizard.choices.flavor = best.flavor.flavorid if best else ""
    return wizard


def _choose(context: RequestContext, wizard: Wizard) -> None:
    """Choose image and key as this person did last, else the first; networks of the project's own before shared."""
    choices = wizard.choices
    last = next(iter(compute.instances_for(context, user_id=context.user_id, limit=1)), None)
    image_ids, key_names = [image.id for image in wizard.images], [key.name for key in wizard.keys]
    if image_ids:
        choices.image = str(last.image_id if last and last.image_id in image_ids else image_ids[0])
    if key_names:
        choices.key_name = last.key_name if last and last.key_name in key_names else key_names[0]
    own = [net for net in wizard.networks if net.project_id == context.project_id]
    choices.networks = [str(net.id) for net in (own or wizard.networks)[:1]]
    choices.security_groups = [str(group.id) for group in wizard.groups if group.name == "default"]
