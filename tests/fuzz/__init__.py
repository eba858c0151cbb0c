"""Mutation fuzzing of every reader and every loader: ``make fuzz``, and a short run in the test suite."""
