"""``python -m palda`` runs the command line, also where scripts are not on the path."""

from palda.cli import main

if __name__ == "__main__":
    main()
