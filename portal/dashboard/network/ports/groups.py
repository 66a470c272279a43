"""The pages of one port: their base, and its security groups."""

import uuid
from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedListField
from portal.dashboard.network import wording
from portal.dashboard.records.refusals import RecordForm
from portal.dashboard.records.views import RecordPage, SheetPage
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import read_id
from provisioning.network import selectors, services
from provisioning.network.models import Port, SecurityGroup
from provisioning.network.records.owners import COMPUTE

MOST_NAMED = 6
"""Maximum number of flows in the description of a group."""


class PortPage(RecordPage[Port]):
    """Base of the pages of one of the project's ports."""

    section = "instances"
    back_to = "dashboard:instances"

    def look_up(self, identity: uuid.UUID) -> Port:
        return selectors.port_for(self.context, identity)

    def back(self) -> str:
        """Return to the port's instance, otherwise to its network."""
        port = self.record
        if port.device_id and port.device_owner.startswith(COMPUTE):
            return reverse("dashboard:instance_network", args=[port.device_id])
        return reverse("dashboard:network", args=[port.network_id])


def label_of(port: Port) -> str:
    """Return a label of a port: its addresses, otherwise its name or id."""
    return ", ".join(row.address for row in port.fixed_ips.all()) or port.name or str(port.id)


class GroupsForm(RecordForm):
    """Checkboxes of security groups."""

    focuses = False

    security_groups = OfferedListField(
        label="Security groups", required=False, help_text="Without a group all traffic is blocked."
    )

    def __init__(self, data: QueryDict | None, port: Port, groups: Sequence[SecurityGroup]) -> None:
        ticked = [str(group.id) for group in port.security_groups.all()]
        super().__init__(data, initial={"security_groups": ticked})
        self.groups = groups
        self.offer("security_groups", group_choices(groups))

    def clean_security_groups(self) -> list[SecurityGroup]:
        return chosen_groups(self.groups, self.cleaned_data["security_groups"])


def chosen_groups(offered: Sequence[SecurityGroup], ids: Sequence[str]) -> list[SecurityGroup]:
    """Return the offered groups with these ids. Raises ValidationError for any other id."""
    group_ids = {read_id(text) for text in ids}
    result = [group for group in offered if group.id in group_ids]
    if len(result) < len(group_ids):
        raise ValidationError("One of the groups no longer exists.")
    return result


def group_choices(groups: Sequence[SecurityGroup]) -> list[tuple[str, ChoiceLabel]]:
    """Return groups to choose from, with the traffic that they allow."""
    return [(str(group.id), ChoiceLabel(str(group), _lets_in(group))) for group in groups]


def _lets_in(group: SecurityGroup) -> str:
    rules = [rule for rule in group.rules.all() if rule.direction == "ingress"]
    own = any(rule.remote_group_id == group.id for rule in rules)
    others = dict.fromkeys(
        wording.what(rule).replace("ICMPv6", "ICMP") for rule in rules if rule.remote_group_id != group.id
    )
    left = len(others) - MOST_NAMED
    named = [*others] if left < 2 else [*list(others)[:MOST_NAMED], f"{left} more"]
    words = [*named, *(["everything from its members"] if own else [])]
    return f"Allows {wording.listed(words)}" if words else "No inbound rules"


class PortGroups(SheetPage, PortPage):
    """The form for the security groups of a port; the change is sent to the port's host immediately."""

    edits = True
    rule = "update_port"
    submit = "Save"

    def form(self, data: QueryDict | None = None) -> Form:
        return GroupsForm(data, self.record, selectors.security_groups_to_choose(self.context))

    def save(self, form: Form) -> HttpResponse:
        services.update_port(self.record, {}, groups=form.cleaned_data["security_groups"])
        return self.go(self.back(), message="The security groups were updated.")

    def calls(self, form: Form) -> Sequence[Call]:
        groups = [str(each.id) for each in form.cleaned_data["security_groups"]]
        return edit(copied.PORT_EDIT, {"port": str(self.record.id)}, {"security_groups": groups})

    def title(self) -> str:
        return f"Security groups of {bdi(label_of(self.record))}"

    def about(self) -> str:
        return "Traffic is allowed if any of them allows it. Changes apply immediately, also to running instances."
