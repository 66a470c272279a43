from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("hosts", "0013_maintenance_and_refused_agents")]

    operations = [migrations.RenameField("host", "mended", "repairs")]
