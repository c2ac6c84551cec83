"""The public functions, which join the three packages."""
