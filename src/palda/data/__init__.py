"""Everything that turns the outside world into arrays."""
