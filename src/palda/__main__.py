"""``python -m palda`` is the command line, where scripts are not on the path."""

from palda.present.cli import main

if __name__ == "__main__":
    main()
