"""Formulas as MathML, which browsers render natively: pages load no scripts, and the build needs no TeX."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)

_DOCUTILS_SPELLING = {  # commands that GitHub and docutils spell differently
    r"\\cr\b": r"\\\\",
    r"\\dots\b": r"\\ldots",
    r"\\(big|Big)\b(?=\s*[)\]])": r"\\\1r",
    r"\\(big|Big)\b": r"\\\1l",
    r"(?<!\\)&": "& {}",  # keeps the space of a relation at the start of a cell
}
_TEX_SPACING = {  # browsers would use other sizes and spaces
    r'<mtable class="ams-align">': '<mtable class="ams-align" displaystyle="true">',
    r"(<mo>&ApplyFunction;</mo>)(?!\s*(<mrow>\s*)?<mo)": r'\1<mspace width="0.17em"/>',
}
_TAG = re.compile(r"\\tag\{(\w+)\}")


def mathml(formula: str, where: nodes.Node, *, as_block: bool) -> str:
    """MathML of a formula. A formula that cannot be converted gives a warning and is shown as source."""
    try:
        drawn = str(tex2mathml(_replaced(formula, _DOCUTILS_SPELLING), as_block=as_block))
    except MathError as wrong:
        _LOG.warning("formula cannot be converted: %s: %s", wrong, formula, location=where)
        return f"<code>{escape(formula)}</code>"
    return _replaced(drawn, _TEX_SPACING)


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for pattern, replacement in replacements.items():
        text = re.sub(pattern, replacement, text)
    return text


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), node, as_block=False))
    raise nodes.SkipNode


def _display(writer: HTML5Translator, node: nodes.math_block) -> None:
    formula = node.astext()
    tag = _TAG.search(formula)
    number = f'<span class="equation-number">({tag[1]})</span>' if tag else ""
    label = f' id="equation-{tag[1]}"' if tag else ""
    drawn = mathml(_TAG.sub("", formula).strip(), node, as_block=True)
    writer.body.append(f'<div class="equation"{label}><div class="formula">{drawn}</div>{number}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer; ``html_math_renderer`` selects it."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
