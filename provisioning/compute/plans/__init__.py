"""Plans of moves of servers between hosts, with the checks of the actions."""
