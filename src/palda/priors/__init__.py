"""Label priors: how probable each class is in a document before its votes are counted."""
