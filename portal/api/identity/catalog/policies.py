"""``/v3/policies``: policy texts that services once read; deprecated, stored but not used."""

from typing import Any

from portal.api.identity.dialect import Attribute, Checked, InMemory, Operation, Resource, Values, routes
from portal.api.identity.dialect.resource import KEY
from provisioning.identity.models import LONG, Policy
from provisioning.identity.selectors.catalog import existing_policy, policies
from provisioning.identity.services.policies import create_policy, delete_policy, update_policy


def _create(view: Any, values: Values) -> Policy:
    return create_policy(values.pop("type"), values.pop("blob"), **values)


POLICY = Resource(
    name="policy",
    plural="policies",
    list=Operation(policies, "identity:list_policies", "List policies."),
    show=Operation(existing_policy, "identity:get_policy", "Show a policy."),
    create=Operation(_create, "identity:create_policy", "Create a policy (201)."),
    update=Operation(
        lambda view, policy, values: update_policy(policy, **values), "identity:update_policy", "Change a policy."
    ),
    delete=Operation(lambda view, policy: delete_policy(policy), "identity:delete_policy", "Delete a policy."),
    attributes=(
        Attribute("id", KEY),
        Attribute("type", Checked({"type": "string", "maxLength": LONG}), post=True, put=True, required=True),
        Attribute("blob", Checked({"type": "string", "maxLength": 65_535}), post=True, put=True, required=True),
    ),
    lists=InMemory(("type",)),
    extra=64,
    least=1,
)
ROUTES = routes(POLICY)
