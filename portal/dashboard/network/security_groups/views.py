"""Security groups: the list, the detail page, and the actions."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import network as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.lists.views import ListPage
from portal.dashboard.network import wording
from portal.dashboard.network.security_groups.forms import TEMPLATES, GroupForm, RuleForm
from portal.dashboard.network.security_groups.listing import SECURITY_GROUPS, page_parts
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.records.views import Crumbs, DetailPage, RecordPage, SheetPage, name_of, owners_of
from portal.dashboard.words.names import bdi
from provisioning.common.values.ids import NOBODY
from provisioning.network import selectors, services
from provisioning.network.models import SecurityGroup, SecurityGroupRule

HOME = "dashboard:security_groups"
PAGE = "dashboard:security_group"


class GroupPage(RecordPage[SecurityGroup]):
    """Base of the pages of one group."""

    section = "security_groups"
    back_to = HOME
    page_name = PAGE

    def look_up(self, identity: uuid.UUID) -> SecurityGroup:
        return selectors.security_group_for(self.context, identity)


class GroupList(ListPage):
    """The groups that the project may see; the default group is created if it does not exist."""

    records = SECURITY_GROUPS
    lead = (
        "Rules that filter the traffic of your instances. An instance has one or more groups. Traffic is allowed "
        "if any of them allows it."
    )

    def prepare(self) -> None:
        services.ensure_default_security_group(self.context.project_id or NOBODY)


class GroupDetail(DetailPage[SecurityGroup], GroupPage):
    """One group with its rules and its members."""

    rule = "get_security_group"

    template = "dashboard/network/security_groups/page.html"
    live_kind = "security_group"

    def parts(self, identity: uuid.UUID, number: str) -> Mapping[str, Any]:
        return page_parts(self.context, identity, number)


class GroupCreate(SheetPage):
    """The form for a new group."""

    section = "security_groups"
    rule = "create_security_group"
    back_to = HOME
    heading = "New security group"
    submit = "Create security group"

    def form(self, data: QueryDict | None = None) -> Form:
        return GroupForm(data)

    def save(self, form: Form) -> HttpResponse:
        """Create the group and go to its page, where rules are added."""
        group = services.create_security_group(self.context.project_id or NOBODY, **form.cleaned_data)
        return self.go(
            PAGE, group.id, message=f"{bdi(group.name)} was created. It allows all outbound and no inbound traffic."
        )

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.SECURITY_GROUP, form.cleaned_data)]

    def about(self) -> str:
        return (
            "A security group filters inbound and outbound traffic. Assign it to instances at launch or on their pages."
        )


class GroupEdit(SheetPage, GroupPage):
    """The form for a group's name, description and statefulness."""

    edits = True
    rule = "update_security_group"

    def form(self, data: QueryDict | None = None) -> Form:
        group = self.record
        initial = {"name": group.name, "description": group.description, "stateful": group.stateful}
        return GroupForm(data, initial=initial)

    def save(self, form: Form) -> HttpResponse:
        services.update_security_group(self.record, form.cleaned_data)
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        return edit(copied.SECURITY_GROUP_EDIT, {"security_group": str(self.record.id)}, changes(form))

    def title(self) -> str:
        return f"Edit {bdi(name_of(self.record))}"

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record), self.back())]


class GroupDelete(QuestionPage, GroupPage):
    """Asks for confirmation, and deletes a group."""

    rule = "delete_security_group"
    consequence = "Its rules, and rules of other groups that refer to it, are deleted with it."

    def blocked(self) -> str:
        members = len(page_parts(self.context, self.record.id)["members"])
        many = wording.count(members, "port")
        return f"{many} of instances are in it: remove the group from them first." if members else ""

    def do(self) -> None:
        services.delete_security_group(self.record)


class RuleAdd(SheetPage, GroupPage):
    """The form to add rules, from a template or in full; ``?template=`` preselects one."""

    rule = "create_security_group_rule"
    template = "dashboard/network/security_groups/rule.html"
    submit = "Add rule"

    def form(self, data: QueryDict | None = None) -> Form:
        template = self.request.GET.get("template", "ssh")
        return RuleForm(
            data,
            initial={"template": template if template in TEMPLATES else "ssh", "remote": "anywhere"},
            groups=selectors.security_groups_to_choose(self.context),
            address_groups=list(selectors.address_groups_for(self.context).order_by("name", "id")),
        )

    def save(self, form: Form) -> HttpResponse:
        """Add the missing rules; hosts of running instances are notified immediately."""
        made = services.add_missing_rules(cast("RuleForm", form).rules_for(self.record))
        listed = wording.listed(dict.fromkeys(wording.what(rule) for rule in made))
        return self.go(self.back(), message=f"{bdi(name_of(self.record))} now allows {listed}.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.RULE, rule_values(each)) for each in cast("RuleForm", form).rules_for(self.record)]

    def title(self) -> str:
        return f"Add a rule to {bdi(name_of(self.record))}"

    def about(self) -> str:
        return "It applies immediately, also to running instances."

    def crumbs(self) -> Crumbs:
        return [(name_of(self.record), self.back())]


def rule_values(rule: services.RequestedRule) -> dict[str, Any]:
    """Return the values of a call that creates a rule."""
    row = rule.row()
    names = (
        "direction",
        "ethertype",
        "protocol",
        "port_range_min",
        "port_range_max",
        "remote_ip_prefix",
        "description",
    )
    ids = ("security_group_id", "remote_group_id", "remote_address_group_id")
    columns = {**{name: getattr(row, name) for name in names}, "security_group_id": row.group_id}
    remotes = {name: getattr(row, name) for name in ids[1:]}
    result = {**columns, **remotes}
    return copied.rule_values({name: str(value) if name in ids and value else value for name, value in result.items()})


class RuleDelete(QuestionPage, RecordPage[SecurityGroupRule]):
    """Asks for confirmation, and deletes a rule."""

    section = "security_groups"
    rule = "delete_security_group_rule"
    back_to = HOME
    question = "Delete this rule?"
    message = "The rule was deleted: {name}."
    stays = True

    def look_up(self, identity: uuid.UUID) -> SecurityGroupRule:
        return selectors.security_group_rule_for(self.context, identity)

    def target(self, **kwargs: Any) -> dict[str, object]:
        """Return the owner of the rule's group as the policy target."""
        self.record = self.look_up(kwargs["identity"])
        return owners_of(self.record.group)

    def name(self) -> str:
        return wording.sentence(self.record)

    def text(self) -> str:
        return f"{self.name()}. Traffic that only it allowed is blocked immediately, also for running instances."

    def do(self) -> None:
        services.delete_security_group_rule(self.record)

    def back(self) -> str:
        return reverse(PAGE, args=[self.record.group_id])
