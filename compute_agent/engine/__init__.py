"""What carries commands out: a durable memory, events on their way to the portal, worker threads."""
