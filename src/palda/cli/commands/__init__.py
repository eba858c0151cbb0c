"""One file per command. Commands import large packages when they run, so that help answers at once."""
