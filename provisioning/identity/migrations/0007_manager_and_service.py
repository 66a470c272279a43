import uuid
from collections.abc import Iterable
from typing import Any

from django.apps.registry import Apps
from django.db import migrations


def give_roles(apps: Apps, schema_editor: object) -> None:
    """Give a cloud from before the roles manager, between admin and member, and service; a new one gets all later."""
    Role, ImpliedRole = apps.get_model("identity", "Role"), apps.get_model("identity", "ImpliedRole")
    known = {each.name: each for each in Role.objects.filter(name__in=["admin", "member"], domain=None)}
    if "admin" not in known:
        return
    _role(Role, "service", "Another service of the cloud.")
    words = "Manages the people and projects of a domain, and moves a project's servers."
    manager, taken = _role(Role, "manager", words)
    if not taken:
        return
    pairs = set(ImpliedRole.objects.values_list("prior", "implied"))
    admin, member = known["admin"], known.get("member")
    if admin.pk not in _below(pairs, manager.pk):
        ImpliedRole.objects.get_or_create(prior=admin, implied=manager)
    if member is not None and manager.pk not in _below(pairs, member.pk):
        ImpliedRole.objects.get_or_create(prior=manager, implied=member)
        ImpliedRole.objects.filter(prior=admin, implied=member).delete()


def _role(model: Any, name: str, description: str) -> tuple[Any, bool]:
    """Return the role and whether it became the cloud's now: it was not there, or was somebody's own."""
    role, made = model.objects.get_or_create(name=name, domain=None, defaults={"description": description})
    if role.options.get("immutable"):
        return role, False
    role.options = {**role.options, "immutable": True}
    role.save(update_fields=["options"])
    return role, True


def _below(pairs: Iterable[tuple[uuid.UUID, uuid.UUID]], role: uuid.UUID) -> set[uuid.UUID]:
    """Return the role with all that it implies."""
    found = {role}
    while new := {implied for prior, implied in pairs if prior in found} - found:
        found |= new
    return found


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0006_trusts"),
    ]

    operations = [migrations.RunPython(give_roles, migrations.RunPython.noop, elidable=True)]
