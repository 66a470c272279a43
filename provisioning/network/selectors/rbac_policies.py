"""RBAC policies, as a caller may see them."""

import uuid

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network.errors import RbacPolicyNotFoundError
from provisioning.network.models import RbacPolicy
from provisioning.network.selectors.visibility import own, sees_all


def rbac_policies_for(context: RequestContext, *, all_projects: bool = False) -> QuerySet[RbacPolicy]:
    """Return the project's policies; ``all_projects`` is for operators."""
    rows = RbacPolicy.objects.all()
    return rows if all_projects and sees_all(context) else rows.filter(own(context))


def rbac_policy_for(context: RequestContext, identity: str | uuid.UUID, *, all_projects: bool = False) -> RbacPolicy:
    """Return one policy. Raises RbacPolicyNotFoundError if it does not exist or belongs to another project."""
    rbac_policy = rbac_policies_for(context, all_projects=all_projects).filter(pk=read_id(identity) or NOBODY).first()
    if rbac_policy is None:
        raise RbacPolicyNotFoundError(f"RBAC policy with ID {identity} not found")
    return rbac_policy
