from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("hosts", "0014_repairs_of_hosts")]

    operations = [migrations.RenameField("host", "guests_untold", "interfaces_outdated")]
