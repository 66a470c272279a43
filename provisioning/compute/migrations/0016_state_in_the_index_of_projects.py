"""Add the state to the index of a project's servers, so that they are counted without reading their rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compute", "0015_names_of_new_volumes")]

    operations = [
        migrations.RemoveIndex(model_name="instance", name="instance_kept_of_project"),
        migrations.AddIndex(
            model_name="instance",
            index=models.Index(
                fields=["project_id", "-created_at", "-id", "vm_state", "deleted_at"],
                name="instance_kept_of_project",
                condition=models.Q(deleted_at=None),
            ),
        ),
    ]
