"""Label Studio: its exports, its label configs, and files for import into it."""

from __future__ import annotations

from palda.io.exports.labelstudio.label_config import Control, LabelConfig, parse_label_config, read_label_config
from palda.io.exports.labelstudio.reader import read_labelstudio
from palda.io.exports.labelstudio.writer import labelstudio_prediction, labelstudio_tasks

__all__ = [
    "Control",
    "LabelConfig",
    "labelstudio_prediction",
    "labelstudio_tasks",
    "parse_label_config",
    "read_label_config",
    "read_labelstudio",
]
