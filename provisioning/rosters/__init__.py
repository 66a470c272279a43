"""Rosters: lists of users, whom operators import with projects, or administrators add to one project."""
