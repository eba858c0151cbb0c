"""How simulated documents are written: the generative story, and a small newsroom to tell it with.

The story of a document: each class is present or absent; each (class, state) draws a mix of topics; every token asks
one class at random, takes a topic from that class's mix and a word from the topic.

The newsroom is a world for examples that people can read: ten classes, their themes and the words of each theme, all
written for this project. Themes are the topics of the model: a class that is present speaks through its own themes, a
class that is absent through general ones. Related classes share themes, and words with two meanings ("trial",
"match", "drug") stand in several, so that no class is given away by single words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from palda.data import checks
from palda.data.frozen import Frozen, freeze_fields
from palda.data.types import Corpus, Dataset, Documents, Votes, names_array
from palda.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from palda.data.frozen import Strings

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.integer[Any]]

__all__ = [
    "ALL_THEMES",
    "CLASSES",
    "GENERAL_THEMES",
    "LABEL_SETS",
    "THEMES",
    "Lengths",
    "SimulatedDocuments",
    "Story",
    "keywords",
    "newsroom_story",
]

Lengths = Literal["fixed", "poisson"]

_CELLS_AT_ONCE = 1 << 20
"""Size of the temporary arrays, whatever the number of documents. Results depend on it, so it is no option."""


@dataclass(frozen=True, eq=False)
class Story(Frozen):
    """Parameters of the generative story, with the names of its axes.

    Classes come in sets: profile m is drawn with ``profile_weights[m]``, then class i is present with
    ``profile_probs[m, i]``. A single profile is the published model, with independent classes.
    """

    profile_weights: Floats  # (profiles,)
    profile_probs: Floats  # (profiles, classes); its weighted mean is ξ
    topic_prior: Floats  # α (classes, 2, topics): [i, 1] when class i is present, [i, 0] when absent
    topic_words: Floats  # β (topics, words)
    classes: Strings
    topics: Strings
    vocabulary: Strings

    def __post_init__(self) -> None:
        freeze_fields(self)
        n_classes, n_topics, n_words = len(self.classes), len(self.topics), len(self.vocabulary)
        n_profiles = len(self.profile_weights)
        check_shape(self.profile_weights, (n_profiles,), "profile_weights")
        check_shape(self.profile_probs, (n_profiles, n_classes), "class_prior")
        check_shape(self.topic_prior, (n_classes, 2, n_topics), "topic_prior")
        check_shape(self.topic_words, (n_topics, n_words), "topic_words")
        check_rates(self.profile_probs, "class_prior")
        _check_sums_to_one(self.profile_weights, "profile_weights")
        _check_sums_to_one(self.topic_words, "every row of topic_words")
        if not (np.isfinite(self.topic_prior).all() and (self.topic_prior > 0).all()):
            raise DataError("topic_prior must hold positive numbers only: they are Dirichlet parameters")

    @property
    def class_prior(self) -> Floats:
        """How often each class is present, ξ."""
        return self.profile_weights @ self.profile_probs

    def documents(
        self,
        n_docs: int,
        *,
        seed: int = 0,
        doc_length: ArrayLike = 80,
        lengths: Lengths = "fixed",
        texts: bool = False,
        doc_ids: Iterable[object] | None = None,
    ) -> SimulatedDocuments:
        """Documents from this story; another seed gives other documents, say a test set, from the same parameters.

        ``doc_length`` is a number of tokens for all documents, or one for each; with ``lengths="poisson"`` it is
        the mean. ``texts=True`` also keeps the words in the order drawn. Ids are positions unless given.
        """
        check_count(n_docs, "n_docs")
        check_choice(lengths, get_args(Lengths), "lengths")
        means = _doc_lengths(doc_length, n_docs, lengths)
        rng = stream(seed, "documents")
        word_ladder = _ladder(self.topic_words)
        labels = np.empty((n_docs, len(self.classes)), dtype=np.int8)
        per_topic = np.empty((n_docs, len(self.topics)), dtype=np.int32)
        counts: list[Any] = []
        written: list[str] = []
        for rows in blocks(n_docs, max(self.topic_prior[:, 0].size, int(means.max()))):
            n_rows = rows.stop - rows.start
            labels[rows] = self._draw_labels(n_rows, rng)
            sizes = rng.poisson(means[rows]) if lengths == "poisson" else means[rows].astype(np.int64)
            doc = np.repeat(np.arange(n_rows), sizes)
            topic = self._draw_topics(doc, labels[rows], rng)
            word = _climb(word_ladder, topic, rng)  # w
            per_topic[rows] = _table(doc, topic, (n_rows, len(self.topics))).toarray()
            counts.append(_table(doc, word, (n_rows, len(self.vocabulary))))
            if texts:
                written.extend(_texts(self.vocabulary[word], sizes))
        corpus = Corpus.from_counts(
            sparse.vstack(counts, format="csr"), self.vocabulary, doc_ids, names_array(written) if texts else None
        )
        return SimulatedDocuments(corpus, labels, per_topic, self)

    def _draw_labels(self, n_docs: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        profile = _climb(_ladder(self.profile_weights[None]), np.zeros(n_docs, dtype=np.int64), rng)
        return rng.random((n_docs, len(self.classes))) < self.profile_probs[profile]  # λ

    def _draw_topics(self, doc: Ints, labels: NDArray[np.int8], rng: np.random.Generator) -> Ints:
        """Topic of each token; mixes are drawn only for the (document, class) pairs that some token asks."""
        asked = rng.integers(labels.shape[1], size=len(doc))  # u
        used = np.zeros(labels.shape, dtype=bool)
        used[doc, asked] = True
        row = np.cumsum(used).reshape(used.shape) - 1
        which_doc, which_class = np.nonzero(used)
        topic_probs = dirichlet(self.topic_prior[which_class, labels[which_doc, which_class]], rng)  # θ
        return _climb(_ladder(topic_probs), row[doc, asked], rng)  # z


@dataclass(frozen=True, eq=False)
class SimulatedDocuments(Frozen):
    """Documents with everything the story knows about them: the truth and the parameters behind it."""

    corpus: Corpus
    labels: NDArray[np.int8]  # λ (documents, classes)
    tokens_per_topic: NDArray[np.int32]  # (documents, topics): how many tokens each topic gave
    story: Story

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Strings:
        """Names of the documents."""
        return self.corpus.doc_ids

    @property
    def classes(self) -> Strings:
        """Names of the classes."""
        return self.story.classes

    @property
    def class_prior(self) -> Floats:
        """How often each class is present, ξ."""
        return self.story.class_prior

    @property
    def topic_prior(self) -> Floats:
        """Dirichlet parameters α, (classes, 2, topics)."""
        return self.story.topic_prior

    @property
    def topic_words(self) -> Floats:
        """Word distributions β, (topics, words)."""
        return self.story.topic_words

    @property
    def documents(self) -> Documents:
        """The texts, for those who start from text."""
        if self.corpus.texts is None:
            raise DataError("these documents kept counts only; simulate them with texts=True")
        return Documents(self.doc_ids, self.corpus.texts)

    def dataset(self, votes: Votes | None = None) -> Dataset:
        """Counts, votes and the truth as one ``Dataset``."""
        return Dataset.of(self.corpus, votes, self.labels, self.classes)


def as_floats(given: ArrayLike, name: str) -> Floats:
    """Numbers as an array, or one line that says which argument holds none."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers, not {checks.shown(given)}") from None


def check_count(value: object, name: str, least: int = 1) -> None:
    """Sizes are whole numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise DataError(f"{name} must be a whole number from {least}, not {checks.shown(value)}")


def check_choice(value: object, choices: tuple[object, ...], name: str) -> None:
    """Options are one of a few words."""
    if value not in choices:
        raise DataError(f"{name} must be one of {checks.listed(choices)}, not {checks.shown(value)}")


def check_shape(array: Floats, shape: tuple[int, ...], name: str) -> None:
    """Arrays fit each other."""
    if array.shape != shape:
        raise DataError(f"{name} must have shape {shape} here, not {array.shape}")


def check_rates(rates: Floats, name: str) -> None:
    """Rates lie between 0 and 1."""
    wrong = rates[~((rates >= 0) & (rates <= 1))]
    if len(wrong):
        raise DataError(f"{name} must lie between 0 and 1, but one is {wrong[0]:g}")


def _check_sums_to_one(probs: Floats, name: str) -> None:
    if not ((probs >= 0).all() and np.allclose(probs.sum(axis=-1), 1.0, rtol=0, atol=1e-5)):
        raise DataError(f"{name} must be probabilities that sum to 1")


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose: the same seed elsewhere must not give the same numbers."""
    check_count(seed, "seed", least=0)
    return np.random.default_rng([int(seed), *purpose.encode()])


def blocks(n_docs: int, cells_per_doc: int) -> Iterator[slice]:
    """Cut documents so that a temporary array of ``cells_per_doc`` for each stays small."""
    step = max(1, _CELLS_AT_ONCE // max(cells_per_doc, 64))
    for start in range(0, n_docs, step):
        yield slice(start, min(start + step, n_docs))


def dirichlet(prior: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a Dirichlet for each row; in logs, because gammas of tiny parameters all round to 0."""
    logs = np.log(rng.standard_gamma(prior + 1.0))
    logs -= rng.standard_exponential(prior.shape) / prior  # gamma(a) = gamma(a + 1) * uniform ** (1 / a)
    logs -= logs.max(axis=1, keepdims=True)
    probs = np.exp(logs, out=logs)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs


def _ladder(probs: Floats) -> Floats:
    """Cumulative probabilities of all rows in one ascending array: row r climbs from r to r + 1."""
    steps = np.cumsum(probs, axis=1)
    steps /= steps[:, -1:]
    steps += np.arange(len(probs))[:, None]
    return steps


def _climb(ladder: Floats, row: Ints, rng: np.random.Generator) -> Ints:
    """Draw a column for each entry of ``row`` by one binary search over all rows."""
    height = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))  # rounding must not leave the row
    place: Ints = np.searchsorted(ladder.ravel(), height, side="right") - row * ladder.shape[1]
    return place


def _table(row: Ints, column: Ints, shape: tuple[int, int]) -> Any:
    """Sparse counts of (row, column) pairs."""
    return sparse.csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=shape)


def _texts(words: Strings, sizes: Ints) -> Iterator[str]:
    stops = np.cumsum(sizes)
    for start, stop in zip(stops - sizes, stops, strict=True):
        yield " ".join(words[start:stop])


def _doc_lengths(doc_length: ArrayLike, n_docs: int, lengths: Lengths) -> Floats:
    given = as_floats(doc_length, "doc_length")
    if given.shape not in {(), (n_docs,)}:
        raise DataError(f"doc_length must be one number or one for each of {n_docs} documents, not {given.shape}")
    whole = lengths == "poisson" or bool((given == np.floor(given)).all())
    if not (np.isfinite(given).all() and (given >= 0).all() and whole):
        raise DataError("doc_length must be a whole number of tokens from 0 (any positive mean with lengths='poisson')")
    return np.broadcast_to(given, (n_docs,))


THEMES: dict[str, str] = {
    "stage": """
        theatre play actor stage audience director drama festival comedy performance premiere cast script musical
        critic dancer ballet fans rehearsal tickets season applause""",
    "galleries": """
        museum painting exhibition artist gallery sculpture portrait collection curator concert orchestra novel author
        album singer poetry photography film record composer studio literary""",
    "heritage": """
        castle monument ancient cathedral ruins palace village restoration centuries architecture landmark visitors
        tradition guide""",
    "companies": """
        company profit executive sales chief shares takeover merger customers retailer factory brand workers startup
        earnings manufacturer contract supplier boardroom layoffs product revenue""",
    "markets": """
        market stock investors bank trading index currency rates bonds inflation exchange exports loan analysts dollar
        lender crude growth forecast shares energy broker""",
    "spending": """
        budget tax funding deficit economy treasury grants subsidy taxpayers cuts spending pension audit
        wages""",
    "policing": """
        police arrest suspect officers detective robbery weapon gang murder victim burglary shooting patrol drug assault
        custody theft smuggling chase cell knife witness""",
    "courtroom": """
        court judge jury trial lawyer guilty verdict prosecutor sentence prison charges appeal testimony defendant
        fraud bribery investigation evidence""",
    "schools": """
        school teacher pupils classroom lesson parents exam curriculum grades reading homework headteacher literacy
        playground mathematics textbook uniform kindergarten attendance spelling tutor learning""",
    "campus": """
        university students campus professor degree tuition scholarship graduate lecture college admission faculty
        library dean diploma enrolment semester thesis dormitory seminar study laboratory""",
    "climate": """
        climate emissions carbon warming drought temperature flooding glacier atmosphere ocean methane heatwave
        storms energy""",
    "nature": """
        wildlife forest river species pollution habitat conservation birds fishing recycling waste wetlands plastic
        coral trees soil endangered farmland toxic rainforest beach reservoir""",
    "hospitals": """
        hospital patients doctor nurse surgery treatment clinic emergency ambulance cancer medicine surgeon symptoms
        diagnosis therapy pharmacy drug maternity transplant care ward recovery""",
    "outbreaks": """
        vaccine virus infection disease outbreak flu epidemic dose immunity quarantine fever hygiene contagious bacteria
        spread masks testing mosquito antibodies measles""",
    "fitness": """
        exercise injury diet nutrition training muscle sleep stamina running doping physiotherapy cycling obesity
        wellbeing""",
    "elections": """
        election voters campaign candidate poll ballot party vote debate rally coalition opposition senator turnout
        majority mayor referendum platform conservative liberal race speech""",
    "lawmaking": """
        parliament minister government bill president policy reform legislation cabinet senate committee treaty
        diplomat congress veto amendment democracy sanctions embassy governor deputies summit""",
    "research": """
        research scientists study laboratory experiment data theory journal findings sample evidence trial
        discovery hypothesis""",
    "space": """
        space telescope rocket planet satellite orbit launch mission galaxy astronaut physics particle gravity lunar
        spacecraft asteroid comet probe robot quantum engineers crater""",
    "genes": """
        genetic cell protein molecule genome microscope chemistry fossil evolution bacteria organism enzyme
        neurons species""",
    "matches": """
        team goal match coach player league striker season football defender referee penalty fans midfield stadium
        goalkeeper cup transfer squad substitute draw injury""",
    "tournaments": """
        championship medal tournament champion race olympic tennis record sprint marathon court final athlete title
        rugby golf swimming cricket podium stage qualifying serve""",
    "holidays": """
        tourists hotel beach resort holiday island cruise booking destination sightseeing guide villa luggage tourism
        hiking souvenir camping season passport getaway itinerary hostel""",
    "journeys": """
        airport flight airline passengers train railway station ferry ticket delays route journey terminal traveller
        platform pilot departure coach fares runway visa rail""",
}
"""Words of each theme, the most frequent first."""

GENERAL_THEMES: dict[str, str] = {
    "calendar": """
        monday week year month tuesday friday morning yesterday weekend thursday evening wednesday recent
        earlier sunday night saturday decade hours today""",
    "sources": """
        officials report spokesman statement announced according told sources interview confirmed comment
        press agency denied reporters newspaper conference claimed warned asked""",
    "people": """
        people family residents community children friends neighbours local public couple young women men
        crowd volunteers owner colleagues elderly group leader""",
    "places": """
        city country town street centre region building national area county capital road northern house
        square district southern border world coast""",
    "amounts": """
        million percent number half thousand average total dozen largest almost figure estimated higher
        billion several fewer increase least doubled quarter""",
}
"""Words that any news item uses: what an absent class falls back on."""

_CLASS_THEMES: dict[str, dict[str, float]] = {
    "arts": {"stage": 0.45, "galleries": 0.4, "heritage": 0.15},
    "business": {"companies": 0.45, "markets": 0.4, "spending": 0.15},
    "crime": {"policing": 0.6, "courtroom": 0.4},
    "education": {"schools": 0.45, "campus": 0.4, "spending": 0.15},
    "environment": {"nature": 0.45, "climate": 0.4, "research": 0.15},
    "health": {"hospitals": 0.45, "outbreaks": 0.4, "fitness": 0.15},
    "politics": {"elections": 0.4, "lawmaking": 0.4, "spending": 0.2},
    "science": {"research": 0.35, "space": 0.4, "genes": 0.25},
    "sports": {"matches": 0.45, "tournaments": 0.4, "fitness": 0.15},
    "travel": {"holidays": 0.45, "journeys": 0.4, "heritage": 0.15},
}

CLASSES: tuple[str, ...] = tuple(_CLASS_THEMES)
"""Names of the classes, sorted."""

ALL_THEMES: tuple[str, ...] = (*THEMES, *GENERAL_THEMES)
"""Names of the topics, in the order of every array here."""

LABEL_SETS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (0.14, ("crime", "politics")),
    (0.12, ("health", "science")),
    (0.10, ("business", "politics")),
    (0.10, ("environment", "science")),
    (0.10, ("arts", "travel")),
    (0.09, ("sports",)),
    (0.08, ("education", "politics")),
    (0.07, ("health", "sports")),
    (0.06, ("business", "environment", "travel")),
    (0.06, ("crime",)),
    (0.04, ("arts", "education")),
    (0.04, ("business", "sports")),
)
"""Classes that come together, with the share of the news in which they do."""

_IN_SET, _OUT_OF_SET = 0.85, 0.03
"""How often a class is present when its label set is drawn, and when another one is."""

_PRESENT_SHARE, _ABSENT_SHARE = 0.94, 0.96
"""Mean share of a class's own words that its themes give (present) and that general themes give (absent)."""

_CONCENTRATION = 10.0
"""Sum of the Dirichlet parameters: how little documents differ in the mix of themes."""

_ABSENCE_MIX = np.array([0.4, 0.25, 0.15, 0.12, 0.08])
"""Shares of the general themes; each class starts at another theme, so that absences differ too."""

_ANY_WORD = 0.02
"""Share of a theme's words that come from anywhere in the vocabulary."""

_ZIPF_SHIFT = 4.0
"""Flattens the head of a theme's word weights, which fall as 1 / (rank + shift)."""


def _words_of(theme: str) -> list[str]:
    return (THEMES.get(theme) or GENERAL_THEMES[theme]).split()


def keywords(name: str) -> tuple[str, ...]:
    """Words that speak for a class: those of all its themes."""
    return tuple(dict.fromkeys(word for theme in _CLASS_THEMES[name] for word in _words_of(theme)))


def newsroom_story() -> Story:
    """The newsroom's classes, themes and words as parameters of the generative story."""
    words = sorted({word for theme in ALL_THEMES for word in _words_of(theme)})
    return Story(
        np.array([weight for weight, _ in LABEL_SETS]),
        np.array([[_IN_SET if name in members else _OUT_OF_SET for name in CLASSES] for _, members in LABEL_SETS]),
        _topic_prior(),
        _topic_words(words),
        names_array(CLASSES),
        names_array(ALL_THEMES),
        names_array(words),
    )


def _topic_words(words: list[str]) -> Floats:
    """Word distribution of every theme: Zipf-like over its own words, faint everywhere else."""
    position = {word: place for place, word in enumerate(words)}
    probs = np.full((len(ALL_THEMES), len(words)), _ANY_WORD / len(words))
    for topic, theme in enumerate(ALL_THEMES):
        own = [position[word] for word in _words_of(theme)]
        weights = 1.0 / (np.arange(1, len(own) + 1) + _ZIPF_SHIFT)
        probs[topic, own] += (1.0 - _ANY_WORD) * weights / weights.sum()
    return probs


def _topic_prior() -> Floats:
    """Dirichlet parameters: general themes when a class is absent, its own when present."""
    n_themes, n_general = len(ALL_THEMES), len(GENERAL_THEMES)
    mean = np.empty((len(CLASSES), 2, n_themes))
    mean[:, 0] = (1.0 - _ABSENT_SHARE) / n_themes
    mean[:, 1] = (1.0 - _PRESENT_SHARE) / n_themes
    for place, name in enumerate(CLASSES):
        mean[place, 0, -n_general:] += _ABSENT_SHARE * np.roll(_ABSENCE_MIX, place)
        for theme, share in _CLASS_THEMES[name].items():
            mean[place, 1, ALL_THEMES.index(theme)] += _PRESENT_SHARE * share
    return _CONCENTRATION * mean
