"""Frozen in-memory types for documents and votes, their validation, and transformers to word counts. No files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palda.data.array_schema import (
    MAX_NUMBER,
    ArraySpec,
    Header,
    Schema,
    SchemaError,
    check_arrays,
    check_content,
    check_headers,
    prefixed,
    schema_for,
)
from palda.data.columns import (
    AnnotatorTraits,
    VoteCells,
    annotator_traits,
    check_plain,
    codes_of,
    factorize,
    given_axis,
    probabilities_of,
    require_columns,
    roles,
    times_of,
    values_of,
)
from palda.data.documents import Corpus, Counts, Dataset, Documents, Values
from palda.data.feature_columns import (
    FEATURE_COLUMN_ARRAYS,
    EncodedFeatures,
    FeatureColumns,
    learn_feature_columns,
)
from palda.data.feature_table import (
    ConvertedFeatures,
    FeatureRows,
    FeatureTable,
    feature_blocks,
    row_ids,
    take_features,
)
from palda.data.frozen_arrays import Array, Frozen, Rows, Strings, freeze_fields, names_array, selection
from palda.data.row_blocks import (
    ConvertedVotes,
    CountRows,
    VoteRows,
    count_blocks,
    document_lengths,
    even_ranges,
    in_memory,
    take_counts,
    take_votes,
    vote_blocks,
    weighted_sums,
    word_doc_counts,
    word_totals,
)
from palda.data.stop_word_lists import LISTED_LANGUAGES, stop_words
from palda.data.validation import BLANK, DuplicateRule, SourceLocation, shown
from palda.data.vote_records import VoteRecords
from palda.data.votes import LONG_COLUMNS, OPTIONAL_COLUMNS, Votes

if TYPE_CHECKING:
    from palda.data.text_words import TextWords, checked_texts
    from palda.data.transformer_arrays import words_from_arrays, words_to_arrays
    from palda.data.value_words import ValueWords

__all__ = [
    "BLANK",
    "FEATURE_COLUMN_ARRAYS",
    "LISTED_LANGUAGES",
    "LONG_COLUMNS",
    "MAX_NUMBER",
    "OPTIONAL_COLUMNS",
    "AnnotatorTraits",
    "Array",
    "ArraySpec",
    "ConvertedFeatures",
    "ConvertedVotes",
    "Corpus",
    "CountRows",
    "Counts",
    "Dataset",
    "Documents",
    "DuplicateRule",
    "EncodedFeatures",
    "FeatureColumns",
    "FeatureRows",
    "FeatureTable",
    "Frozen",
    "Header",
    "Rows",
    "Schema",
    "SchemaError",
    "SourceLocation",
    "Strings",
    "TextWords",
    "ValueWords",
    "Values",
    "VoteCells",
    "VoteRecords",
    "VoteRows",
    "Votes",
    "annotator_traits",
    "check_arrays",
    "check_content",
    "check_headers",
    "check_plain",
    "checked_texts",
    "codes_of",
    "count_blocks",
    "document_lengths",
    "even_ranges",
    "factorize",
    "feature_blocks",
    "freeze_fields",
    "given_axis",
    "in_memory",
    "learn_feature_columns",
    "names_array",
    "prefixed",
    "probabilities_of",
    "require_columns",
    "roles",
    "row_ids",
    "schema_for",
    "selection",
    "shown",
    "stop_words",
    "take_counts",
    "take_features",
    "take_votes",
    "times_of",
    "values_of",
    "vote_blocks",
    "weighted_sums",
    "word_doc_counts",
    "word_totals",
    "words_from_arrays",
    "words_to_arrays",
]

# These names are imported when they are first used: their modules import large packages.
_HOMES = {
    "TextWords": "palda.data.text_words",
    "checked_texts": "palda.data.text_words",
    "ValueWords": "palda.data.value_words",
    "words_to_arrays": "palda.data.transformer_arrays",
    "words_from_arrays": "palda.data.transformer_arrays",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
