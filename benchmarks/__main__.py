"""``python -m benchmarks [name ...]``: run the named benchmarks, or all short ones."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = (
    "default_fit",
    "read_votes",
    "agreement",
    "e_step",
    "iteration",
    "growth",
    "startup",
    "memory",
    "head",
    "aggregate",
)
LONG = (
    "recovery",
    "copies",
    "published",
    "slda",
    "quality",
    "gold",
    "suggest",
    "adaptive",
    "stopping",
    "assignment",
    "gain",
    "real_crowds",
    "real_gold",
    "rivals",
    "drift",
    "features",
    "soft_votes",
    "stability",
    "topics",
    "online",
    "scale",
    "golden",
    "server",
    "labelstudio",
)  # run only when named
WITH_ARGUMENTS = (
    "default_fit",
    "gold",
    "scale",
    "golden",
    "real_crowds",
    "real_gold",
    "rivals",
    "soft_votes",
    "stability",
    "adaptive",
    "features",
    "stopping",
    "server",
    "labelstudio",
)


def main() -> None:
    names = sys.argv[1:] or NAMES
    if names[0] in WITH_ARGUMENTS:
        names = names[:1]  # the other arguments belong to it
    for name in names:
        if name not in NAMES + LONG:
            sys.exit(f"there is no benchmark {name!r}; choose from {', '.join(NAMES + LONG)}")
        print(f"== {name} ==", flush=True)
        import_module(f"benchmarks.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main()
