"""Records other than servers: actions, migrations, commands, faults, passwords."""
