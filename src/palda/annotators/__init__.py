"""Models of annotators: what a vote says about the truth, and what the truth says about who voted."""
