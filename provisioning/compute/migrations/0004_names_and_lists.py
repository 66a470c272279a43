from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('compute', '0003_actions_and_groups'),
    ]

    operations = [
        migrations.AddField(
            model_name='instance',
            name='admin_password',
            field=models.TextField(blank=True),
        ),
        migrations.AlterField(
            model_name='instance',
            name='hostname',
            field=models.CharField(max_length=255),
        ),
        migrations.AlterField(
            model_name='instance',
            name='previous_vm_state',
            field=models.CharField(blank=True, max_length=20),
        ),
        migrations.AlterField(
            model_name='instance',
            name='task_state',
            field=models.CharField(choices=[('scheduling', 'Scheduling'), ('networking', 'Networking'), ('block_device_mapping', 'Block Device Mapping'), ('spawning', 'Spawning'), ('powering-on', 'Powering On'), ('powering-off', 'Powering Off'), ('rebooting', 'Rebooting'), ('rebooting_hard', 'Rebooting Hard'), ('pausing', 'Pausing'), ('unpausing', 'Unpausing'), ('suspending', 'Suspending'), ('resuming', 'Resuming'), ('updating_password', 'Updating Password'), ('rescuing', 'Rescuing'), ('unrescuing', 'Unrescuing'), ('rebuilding', 'Rebuilding'), ('resize_prep', 'Resize Prep'), ('resize_migrating', 'Resize Migrating'), ('resize_finish', 'Resize Finish'), ('resize_confirming', 'Resize Confirming'), ('resize_reverting', 'Resize Reverting'), ('image_snapshot', 'Image Snapshot'), ('image_backup', 'Image Backup'), ('image_uploading', 'Image Uploading'), ('shelving', 'Shelving'), ('shelving_image_uploading', 'Shelving Image Uploading'), ('shelving_offloading', 'Shelving Offloading'), ('unshelving', 'Unshelving'), ('soft-deleting', 'Soft Deleting'), ('restoring', 'Restoring'), ('deleting', 'Deleting')], default='scheduling', max_length=32, null=True),
        ),
        migrations.AlterField(
            model_name='instance',
            name='vm_state',
            field=models.CharField(choices=[('building', 'Building'), ('active', 'Active'), ('stopped', 'Stopped'), ('paused', 'Paused'), ('suspended', 'Suspended'), ('rescued', 'Rescued'), ('resized', 'Resized'), ('shelved', 'Shelved'), ('shelved_offloaded', 'Shelved Offloaded'), ('soft-delete', 'Soft Deleted'), ('error', 'Error'), ('deleted', 'Deleted')], default='building', max_length=20),
        ),
        migrations.AddIndex(
            model_name='instance',
            index=models.Index(condition=models.Q(('deleted_at', None)), fields=['project_id', '-created_at', '-id'], name='instance_kept_of_project'),
        ),
        migrations.AddIndex(
            model_name='instance',
            index=models.Index(condition=models.Q(('deleted_at', None)), fields=['-created_at', '-id'], name='instance_kept'),
        ),
    ]
