"""Server actions, one module for each action. Importing ``every`` registers all of them."""
