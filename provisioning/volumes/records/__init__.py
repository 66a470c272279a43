"""Records beside the volumes: keys, quota, holds, uses, announcements."""
