"""The commands, a few a file; they import what they need when they run, so that help answers at once."""
