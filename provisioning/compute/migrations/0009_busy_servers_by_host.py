"""An index of the servers that have a task, by host: the scheduler counts them for each decision."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("compute", "0008_totals")]

    operations = [
        migrations.AddIndex(
            model_name="instance",
            index=models.Index(
                fields=["host", "task_state"], name="instance_busy", condition=models.Q(task_state__isnull=False)
            ),
        ),
    ]
