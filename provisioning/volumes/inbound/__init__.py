"""Reports of hosts about volumes and backups."""
