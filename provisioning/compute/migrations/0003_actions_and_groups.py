import django.db.models.deletion
import uuid
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def _write_tags(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Write a row for each tag that servers have."""
    tags = apps.get_model("compute", "InstanceTag")
    servers = apps.get_model("compute", "Instance").objects.exclude(tags=[]).values_list("id", "tags")
    for server, names in servers.iterator():
        tags.objects.bulk_create([tags(instance_id=server, tag=name) for name in sorted(set(names))])


class Migration(migrations.Migration):

    dependencies = [
        ('compute', '0002_count_what_there_is'),
    ]

    operations = [
        migrations.CreateModel(
            name='Aggregate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=255, unique=True)),
                ('availability_zone', models.CharField(blank=True, max_length=255)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ServerGroup',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('project_id', models.UUIDField(db_index=True)),
                ('user_id', models.UUIDField()),
                ('name', models.CharField(max_length=255)),
                ('policy', models.CharField(choices=[('affinity', 'Affinity'), ('anti-affinity', 'Anti Affinity'), ('soft-affinity', 'Soft Affinity'), ('soft-anti-affinity', 'Soft Anti Affinity')], max_length=20)),
                ('max_server_per_host', models.PositiveIntegerField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name='host',
            name='forced_down',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='host',
            name='uptime',
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name='instance',
            name='access_ip_v4',
            field=models.CharField(blank=True, max_length=45),
        ),
        migrations.AddField(
            model_name='instance',
            name='access_ip_v6',
            field=models.CharField(blank=True, max_length=45),
        ),
        migrations.AddField(
            model_name='instance',
            name='disk_config',
            field=models.CharField(default='MANUAL', max_length=6),
        ),
        migrations.AddField(
            model_name='instance',
            name='image_properties',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='instance',
            name='injected_files',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='instance',
            name='locked_reason',
            field=models.CharField(max_length=255, null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='old_flavor',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='password',
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='previous_vm_state',
            field=models.CharField(blank=True, max_length=16),
        ),
        migrations.AddField(
            model_name='instance',
            name='requested_host',
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name='instance',
            name='rescue_image_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='resized_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='shelved_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='snapshot_image_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='soft_deleted_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='trusted_certificates',
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name='AggregateHost',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('aggregate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='compute.aggregate')),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='compute.host')),
            ],
        ),
        migrations.AddField(
            model_name='aggregate',
            name='hosts',
            field=models.ManyToManyField(related_name='aggregates', through='compute.AggregateHost', to='compute.host'),
        ),
        migrations.CreateModel(
            name='ConsoleToken',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('user_id', models.UUIDField()),
                ('attempt', models.PositiveIntegerField()),
                ('protocol', models.CharField(max_length=8)),
                ('console_type', models.CharField(max_length=16)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('instance', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='console_tokens', to='compute.instance')),
            ],
        ),
        migrations.CreateModel(
            name='InstanceTag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tag', models.CharField(max_length=80)),
                ('instance', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tag_rows', to='compute.instance')),
            ],
        ),
        migrations.CreateModel(
            name='Migration',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('migration_type', models.CharField(max_length=16)),
                ('status', models.CharField(max_length=16)),
                ('source_compute', models.CharField(blank=True, max_length=255)),
                ('dest_compute', models.CharField(blank=True, max_length=255)),
                ('dest_host', models.CharField(blank=True, max_length=45)),
                ('old_flavor', models.JSONField()),
                ('new_flavor', models.JSONField()),
                ('user_id', models.UUIDField(null=True)),
                ('project_id', models.UUIDField(null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('instance', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='migrations', to='compute.instance')),
            ],
        ),
        migrations.AddField(
            model_name='instance',
            name='server_group',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='instances', to='compute.servergroup'),
        ),
        migrations.CreateModel(
            name='UsageAudit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.CharField(max_length=255)),
                ('period_beginning', models.DateTimeField()),
                ('period_ending', models.DateTimeField()),
                ('state', models.CharField(max_length=16)),
                ('task_items', models.PositiveIntegerField(default=0)),
                ('errors', models.PositiveIntegerField(default=0)),
                ('message', models.CharField(blank=True, max_length=255)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('host', 'period_beginning', 'period_ending'), name='one_audit_of_period')],
            },
        ),
        migrations.AddConstraint(
            model_name='aggregatehost',
            constraint=models.UniqueConstraint(fields=('aggregate', 'host'), name='host_once_in_aggregate'),
        ),
        migrations.AddIndex(
            model_name='instancetag',
            index=models.Index(fields=['tag'], name='instance_tag'),
        ),
        migrations.AddConstraint(
            model_name='instancetag',
            constraint=models.UniqueConstraint(fields=('instance', 'tag'), name='tag_once_on_instance'),
        ),
        migrations.AddIndex(
            model_name='migration',
            index=models.Index(fields=['-created_at', '-id'], name='migration_by_age'),
        ),
        migrations.RunPython(_write_tags, migrations.RunPython.noop),
    ]
