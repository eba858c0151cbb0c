"""Sphinx configuration of the site (``make docs``). Pages load nothing from other hosts, fonts included."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "palda"
author = "The palda developers"
copyright = author  # noqa: A001 - Sphinx's name
release = installed("palda")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
exclude_patterns = ["_build"]
highlight_language = "none"  # of code blocks that do not name a language
nitpicky = True
nitpick_ignore_regex = [  # types of other packages are named in signatures but not documented here
    (r"py:(class|obj|data|exc)", r"(?!palda\.).*"),
]
suppress_warnings = ["ref.python"]  # n_classes in the shape of an array is not one attribute of that name

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "palda"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
