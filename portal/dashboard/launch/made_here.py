"""Creation of networks and security groups within the wizard, without losing its input."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django import forms
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedField
from portal.dashboard.frame.pages import Page, as_unavailable
from portal.dashboard.launch.forms import LaunchForm
from portal.dashboard.launch.wizard import group_choices, network_choices
from portal.dashboard.network.networks.fields import CidrField
from portal.dashboard.network.networks.forms import chosen_router, first_of, router_choices
from portal.dashboard.network.networks.views import own_network, routers_to_join
from portal.dashboard.network.security_groups.forms import MEMBERS, OWN, TEMPLATES, flows_of
from portal.dashboard.records.refusals import RecordForm
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.common.values.ids import NOBODY
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import Network, Router, SecurityGroup
from provisioning.network.selectors import uses

NETWORK_FORM, GROUP_FORM = "new-network-form", "new-group-form"
OFFERED = {key: each for key, each in TEMPLATES.items() if key not in {OWN, MEMBERS}}
MADE = "made-in-wizard"
"""The event on which the wizard's page updates the summary."""
Made = TypeVar("Made")


class NewNetworkForm(RecordForm):
    """A network with one subnet, connected to a router if one exists."""

    service_fields = {"name": "net_name", "cidr": "net_cidr", "subnet_id": "net_router"}
    focuses = False

    net_name = forms.CharField(
        label="Name", max_length=255, widget=forms.TextInput({"form": NETWORK_FORM, "placeholder": "backend"})
    )
    net_cidr = CidrField(label="Range", widget=forms.TextInput({"form": NETWORK_FORM, "placeholder": "10.0.1.0/24"}))
    net_router = OfferedField(label="Router", required=False, widget=forms.Select({"form": NETWORK_FORM}))

    def __init__(self, data: QueryDict | None, *, free: str, routers: Sequence[Router]) -> None:
        super().__init__(data, initial={"net_cidr": free, "net_router": first_of(routers)})
        self.routers = routers
        self.offer("net_router", router_choices(routers))
        if not routers:
            del self.fields["net_router"]

    def clean_net_router(self) -> Router | None:
        return chosen_router(self.routers, self.cleaned_data["net_router"])


class NewGroupForm(RecordForm):
    """A security group and the templates of its first rules."""

    service_fields = {"name": "group_name"}
    focuses = False

    group_name = forms.CharField(
        label="Name", max_length=255, widget=forms.TextInput({"form": GROUP_FORM, "placeholder": "web-servers"})
    )
    group_allows = forms.MultipleChoiceField(
        label="Allow from anywhere",
        choices=[(key, ChoiceLabel(each.title, each.about)) for key, each in OFFERED.items()],
        required=False,
        widget=forms.CheckboxSelectMultiple({"form": GROUP_FORM}),
    )


def new_forms(context: RequestContext) -> dict[str, Form | None]:
    """Return the creation forms of the wizard; None where the policy does not allow it."""
    return {
        "new_network": new_network(context) if policy.allows(context, "create_network") else None,
        "new_group": NewGroupForm() if policy.allows(context, "create_security_group") else None,
    }


def new_network(context: RequestContext, data: QueryDict | None = None) -> NewNetworkForm:
    """Return the form for a network, with a free range."""
    return NewNetworkForm(data, free=uses.free_range(context), routers=routers_to_join(context))


def created(form: Form, create: Callable[[Mapping[str, Any]], Made]) -> Made | None:
    """Return the result of ``create`` with the values of a form of the wizard. None if the form is invalid, or the
    service or the database refused it: the form has the error then.
    """
    if form.is_valid():
        try:
            return create(form.cleaned_data)
        except NovellaError as error:
            form.refuse(error)
        except OperationalError as error:
            form.refuse(as_unavailable(error))
    return None


class Networks(Page):
    """Creation of a network in the wizard."""

    rule = "create_network"
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the choice of networks with the new one selected, or the form with errors."""
        chosen, form, made = request.POST.getlist("networks"), new_network(self.context, request.POST), ""
        policy.enforce(self.context, "create_subnet", own_network(self.context))
        if network := created(form, self._create):
            made, chosen, form = network.name, [*chosen, str(network.id)], new_network(self.context)
        launch = LaunchForm()
        launch.initial["networks"] = chosen
        launch.offer("networks", network_choices(selectors.networks_to_choose(self.context)))
        return _answer(self, "dashboard/launch/_networks.html", {"form": launch, "new_network": form, "made": made})

    def _create(self, typed: Mapping[str, Any]) -> Network:
        first = services.FirstSubnet(typed["net_cidr"], {})
        project_id, router = self.context.project_id or NOBODY, typed.get("net_router")
        return services.create_network_with_subnets(project_id, typed["net_name"], {}, [first], router)


class Groups(Page):
    """Creation of a security group in the wizard."""

    rule = "create_security_group"
    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Return the choice of groups with the new one selected, or the form with errors."""
        chosen, form, made = request.POST.getlist("security_groups"), NewGroupForm(request.POST), ""
        if form.is_valid() and form.cleaned_data["group_allows"]:
            policy.enforce(self.context, "create_security_group_rule")
        if group := created(form, self._create):
            made, chosen, form = group.name, [*chosen, str(group.id)], NewGroupForm()
        launch = LaunchForm()
        launch.initial["security_groups"] = chosen
        launch.offer("security_groups", group_choices(selectors.security_groups_to_choose(self.context)))
        return _answer(self, "dashboard/launch/_groups.html", {"form": launch, "new_group": form, "made": made})

    def _create(self, typed: Mapping[str, Any]) -> SecurityGroup:
        flows = [flow for key in typed["group_allows"] for flow in flows_of(key)]
        return services.create_group_allowing(self.context.project_id or NOBODY, typed["group_name"], flows)


def _answer(page: Page, template: str, values: dict[str, Any]) -> HttpResponse:
    """Return a part of the wizard; after the creation of a resource, also the event that updates the summary."""
    answer = page.part(template, values)
    if values["made"]:
        answer["HX-Trigger-After-Swap"] = MADE
    return answer
