"""Services of compute other than server actions: flavors, key pairs, aggregates, groups, tags, consoles."""
