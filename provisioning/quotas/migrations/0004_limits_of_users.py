"""Users may have limits of their own in a project: what servers and server groups hold is written down for their users."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.models import OuterRef, Subquery

OF_SERVERS = ("instances", "cores", "ram")


def name_users(apps: Apps, schema_editor: object) -> None:
    """Write down whose the servers and server groups are that hold something already."""
    rows = apps.get_model("quotas", "Reservation").objects
    for model, resources in (("Instance", OF_SERVERS), ("ServerGroup", ("server_groups",))):
        owners = apps.get_model("compute", model).objects.filter(id=OuterRef("owner_id"))
        rows.filter(resource__in=resources).update(user_id=Subquery(owners.values("user_id")[:1]))


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0003_limits_of_types"),
        ("compute", "0001_initial"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="quotalimit", name="one_limit"),
        migrations.AddField(
            model_name="quotalimit", name="user_id", field=models.UUIDField(blank=True, null=True)
        ),
        migrations.AddField(model_name="reservation", name="user_id", field=models.UUIDField(null=True)),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("user_id__isnull", False)), fields=["project_id", "user_id"], name="held_for_user"
            ),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.UniqueConstraint(
                condition=models.Q(("user_id", None)), fields=("project_id", "resource"), name="one_limit"
            ),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.UniqueConstraint(fields=("project_id", "user_id", "resource"), name="one_limit_of_user"),
        ),
        migrations.AddConstraint(
            model_name="quotalimit",
            constraint=models.CheckConstraint(
                condition=models.Q(("user_id", None), ("project_id__isnull", False), _connector="OR"),
                name="users_in_projects",
            ),
        ),
        migrations.RunPython(name_users, migrations.RunPython.noop),
    ]
