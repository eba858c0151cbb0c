"""Label Studio beside palda: its annotations become votes, and what is learned steers its queue and its pre-labels."""
