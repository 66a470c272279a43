"""Records other than volumes: keys, quota, holds, uses, announcements."""
