"""The newsroom: a simulated data set with readable words, for examples and demonstrations.

It has ten classes, their themes and the words of each theme, all written for this project. Themes are the topics of the
model: a class that is present uses its own themes, a class that is absent uses general ones. Related classes share
themes, and ambiguous words ("trial", "match", "drug") belong to several themes, so that no single word identifies a
class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palda.data import names_array, validation
from palda.simulate.document_sampling import DocumentModel, numbered_names

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from palda.simulate.document_sampling import Floats, Lengths, SimulatedDocuments

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
"""Words of each theme, most frequent first."""

GENERAL_THEMES: dict[str, str] = {
    "newsdesk": """
        officials report statement spokesman announced interview warning reporters headline rumours press crisis
        confirmed""",
    "plans": """
        plan project decision deal leaders deadline agreement proposal opening future partnership approval
        promise""",
    "town": """
        residents street town council neighbours housing traffic bridge square roadworks park shopkeepers
        rent""",
    "families": """
        family children couple mother friends wedding neighbours home grandmother memories birthday childhood
        volunteers""",
    "disputes": """
        protest dispute strike union anger demands crowd march complaint talks petition compensation residents
        boycott""",
    "rescues": """
        fire rescue crash firefighters smoke survivors explosion alarm collapse blaze damage volunteers
        evacuation""",
    "weather": """
        rain snow wind sunshine fog cold frost clouds thunder ice warning gale umbrella""",
}
"""Themes that belong to no class; absent classes use them."""

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
"""Themes of a class when it is present, with their shares."""

_ABSENT_THEMES: dict[str, dict[str, float]] = {
    "arts": {"disputes": 0.5, "town": 0.3, "newsdesk": 0.2},
    "business": {"families": 0.5, "town": 0.3, "weather": 0.2},
    "crime": {"plans": 0.5, "families": 0.3, "weather": 0.2},
    "education": {"newsdesk": 0.5, "rescues": 0.3, "plans": 0.2},
    "environment": {"town": 0.5, "disputes": 0.3, "families": 0.2},
    "health": {"plans": 0.5, "newsdesk": 0.3, "disputes": 0.2},
    "politics": {"rescues": 0.5, "weather": 0.3, "families": 0.2},
    "science": {"newsdesk": 0.5, "families": 0.3, "town": 0.2},
    "sports": {"town": 0.5, "plans": 0.3, "rescues": 0.2},
    "travel": {"disputes": 0.5, "plans": 0.3, "newsdesk": 0.2},
}
"""Themes of a class when it is absent; they differ between classes, so that absences can be distinguished too."""

CLASSES: tuple[str, ...] = tuple(_CLASS_THEMES)
"""Names of the classes, sorted."""

ALL_THEMES: tuple[str, ...] = (*THEMES, *GENERAL_THEMES)
"""Names of the topics, in the order of all arrays."""

LABEL_SETS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (0.12, ("crime", "politics")),
    (0.11, ("health", "science")),
    (0.10, ("arts", "travel")),
    (0.10, ("business", "environment", "politics")),
    (0.09, ("education", "environment", "science")),
    (0.09, ("education", "politics")),
    (0.08, ("sports",)),
    (0.07, ("business", "environment", "travel")),
    (0.07, ("health", "sports")),
    (0.06, ("arts", "education")),
    (0.06, ("business", "crime")),
    (0.05, ("business", "sports", "travel")),
)
"""Label-set profiles: weight and classes of each."""

_PROB_IN_SET, _PROB_OUT_OF_SET = 0.9, 0.03
"""Probability of a class that belongs to the drawn profile, and of one that does not."""

_PRESENT_SHARE, _ABSENT_SHARE = 0.94, 0.98
"""Mean share of a class's tokens from its own themes (present) and from general themes (absent)."""

_CONCENTRATION = 4.0
"""Sum of the Dirichlet parameters, low enough for most documents to use mainly one or two themes per class."""

_BACKGROUND = 0.01
"""Probability that a token of a theme is drawn uniformly from the vocabulary."""

_ZIPF_SHIFT = 4.0
"""Shift in the word weights of a theme, 1 / (rank + shift); it makes the top words more equal."""


def _words_of(theme: str) -> list[str]:
    return (THEMES.get(theme) or GENERAL_THEMES[theme]).split()


def keywords(name: str) -> tuple[str, ...]:
    """Words of all themes of a class."""
    return tuple(dict.fromkeys(word for theme in _CLASS_THEMES[name] for word in _words_of(theme)))


def newsroom(
    n_docs: int = 2000, *, seed: int = 0, doc_length: ArrayLike = 80, lengths: Lengths = "poisson"
) -> SimulatedDocuments:
    """News items as keyword texts, with ten overlapping classes that occur in sets (crime and politics, ...).

    The parameters are fixed; ``seed`` selects the documents.

    Parameters
    ----------
    n_docs : int, default 2000
        Number of documents; their ids are ``news-0001`` and so on.
    seed : int, default 0
        Random seed.
    doc_length : int or array of shape (documents,), default 80
        Number of tokens per document; the mean with ``lengths="poisson"``.
    lengths : "fixed" or "poisson", default "poisson"
        Distribution of document lengths.

    Returns
    -------
    SimulatedDocuments
        Texts, word counts, true labels and the parameters.

    Examples
    --------
    >>> from palda import simulate
    >>> news = simulate.newsroom(3, seed=0)
    >>> news.documents[0][:37]
    'deal announced family couple monument'
    >>> news.classes[news.labels[0] == 1].tolist()
    ['arts', 'education']
    """
    validation.require_count(n_docs, "n_docs")
    doc_ids = numbered_names("news", n_docs, 4)
    return newsroom_model().documents(
        n_docs, seed=seed, doc_length=doc_length, lengths=lengths, texts=True, doc_ids=doc_ids
    )


def newsroom_model() -> DocumentModel:
    """The newsroom as parameters of the generative model."""
    words = sorted({word for theme in ALL_THEMES for word in _words_of(theme)})
    return DocumentModel(
        np.array([weight for weight, _ in LABEL_SETS]),
        np.array(
            [[_PROB_IN_SET if name in members else _PROB_OUT_OF_SET for name in CLASSES] for _, members in LABEL_SETS]
        ),
        _topic_prior(),
        _topic_words(words),
        names_array(CLASSES),
        names_array(ALL_THEMES),
        names_array(words),
    )


def _topic_words(words: list[str]) -> Floats:
    """Word distributions of shape (topics, words): Zipf-like over the theme's words, tiny elsewhere."""
    column = {word: i for i, word in enumerate(words)}
    probs = np.full((len(ALL_THEMES), len(words)), _BACKGROUND / len(words))
    for topic, theme in enumerate(ALL_THEMES):
        own = [column[word] for word in _words_of(theme)]
        weights = 1.0 / (np.arange(1, len(own) + 1) + _ZIPF_SHIFT)
        probs[topic, own] += (1.0 - _BACKGROUND) * weights / weights.sum()
    return probs


def _topic_prior() -> Floats:
    """Dirichlet parameters of shape (classes, 2, topics): absent first, then present."""
    states = ((_ABSENT_THEMES, _ABSENT_SHARE), (_CLASS_THEMES, _PRESENT_SHARE))
    mean = np.empty((len(CLASSES), len(states), len(ALL_THEMES)))
    for state, (themes, share_of_own) in enumerate(states):
        mean[:, state] = (1.0 - share_of_own) / len(ALL_THEMES)
        for i, name in enumerate(CLASSES):
            for theme, share in themes[name].items():
                mean[i, state, ALL_THEMES.index(theme)] += share_of_own * share
    return _CONCENTRATION * mean
