"""Creates, updates and deletes address scopes."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.network.errors import AddressScopeInUseError, AddressScopeUpdateError
from provisioning.network.models import AddressScope
from provisioning.network.records.announcements import announce
from provisioning.network.services.base import records, sharing
from provisioning.quotas.services.ledger import hold


@transaction.atomic
def create_address_scope(
    project_id: uuid.UUID, name: str, ip_version: int, *, shared: bool = False, description: str = ""
) -> AddressScope:
    """Create a scope for pools of one IP version.  Raises OverQuotaError."""
    scope = AddressScope(
        project_id=project_id, name=name, ip_version=ip_version, shared=shared, description=description
    )
    hold(project_id, scope.id, {"address_scopes": 1})
    scope.save(force_insert=True)
    sharing.mirror(scope, "address_scope", access_as_shared=shared)
    announce(scope, "create")
    return scope


@when_broken_off
@transaction.atomic
def update_address_scope(scope: AddressScope, changes: Mapping[str, Any], revision: int | None = None) -> AddressScope:
    """Update a scope. Raises AddressScopeUpdateError if a shared scope would no longer be shared."""
    row = records.lock(scope, revision)
    if row.shared and changes.get("shared") is False:
        msg = f"Unable to update address scope {row.id} : Shared address scope can't be unshared."
        raise AddressScopeUpdateError(msg, field="shared")
    records.write(row, changes)
    announce(row)
    sharing.mirror(row, "address_scope", access_as_shared=row.shared)
    return row


@when_broken_off
@transaction.atomic
def delete_address_scope(scope: AddressScope, revision: int | None = None) -> None:
    """Delete a scope.  Raises AddressScopeInUseError while it has subnet pools."""
    row = records.lock_to_delete(scope, revision)
    if row.subnet_pools.exists():
        msg = f"Unable to complete operation on address scope {row.id}."
        raise AddressScopeInUseError(f"{msg} There are one or more subnet pools in use on the address scope")
    announce(row, "delete")
    records.remove(row)
