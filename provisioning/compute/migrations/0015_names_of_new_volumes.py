from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('compute', '0014_guest_of_the_second_host'),
    ]

    operations = [
        migrations.AddField(
            model_name='blockdevice',
            name='volume_name',
            field=models.CharField(blank=True, db_default='', default='', max_length=255),
        ),
    ]
