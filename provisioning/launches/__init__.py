"""Launches as users plan them: with a floating IP, open ports, data disks and a lease; and templates of launches."""
