"""Records beside the servers: actions, migrations, commands, faults, passwords."""
