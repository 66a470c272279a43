"""What a project may use and uses: drawn for everybody, changed by operators."""
