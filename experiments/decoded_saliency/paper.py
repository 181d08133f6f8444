"""The numbers of the paper, "Decoding Layer Saliency in Transformers" (2022), beside which ours stand."""

from __future__ import annotations

# area under the curve of accuracy: (revealing, hiding)
GAMES: dict[str, dict[str, tuple[float, float]]] = {
    "sst2": {
        "Grad-CAM l0": (0.797, 0.713),
        "Decoded l5": (0.832, 0.640),
        "Decoded l6": (0.854, 0.617),
        "Decoded l7": (0.867, 0.609),
        "Decoded l8": (0.836, 0.660),
        "Simple": (0.799, 0.756),
        "Smooth": (0.795, 0.750),
        "Integrated (AllenNLP)": (0.804, 0.762),
        "Random": (0.748, 0.756),
    },
    "ag_news": {
        "Grad-CAM l0": (0.853, 0.804),
        "Decoded l6": (0.895, 0.739),
        "Decoded l8": (0.867, 0.782),
        "Decoded l9": (0.879, 0.774),
        "Shapely": (0.905, 0.567),
        "Occlusion": (0.894, 0.731),
        "Integrated": (0.897, 0.661),
        "GradientShapely": (0.860, 0.784),
        "LIME": (0.851, 0.792),
        "GradxAct": (0.851, 0.794),
        "DeepLiftShapely": (0.823, 0.842),
        "Random": (0.829, 0.841),
    },
}
BEST = {"sst2": "Decoded l7", "ag_news": "Decoded l6"}
N_LAYERS = 12

# tokens among the first 50 of both classes (Tables 3 to 9), by explainer
PAIRS = ("World and Sports", "World and Business", "Sports and Business", "World and Sci/Tech", "Sports and Sci/Tech",
         "Business and Sci/Tech")  # fmt: skip
OVERLAPS: dict[str, dict[str, tuple[int, ...]]] = {
    "sst2": {"Simple": (3,), "Smooth": (6,), "Integrated (AllenNLP)": (5,), "Decoded": (0,)},
    "ag_news": {
        "Shapely": (20, 16, 19, 16, 3, 4),
        "Occlusion": (24, 25, 30, 10, 14, 17),
        "Integrated": (25, 21, 17, 9, 8, 9),
        "Decoded": (0, 6, 2, 1, 0, 1),
    },
}

# the tokens that Tables 4, 6 and 8 print for Shapley: the second list is a copy of the first
_TABLE_4 = (
    "NEW ONDON YORK Charges expected Thursday rattled ASHINGTON Reuters Wednesday premiums Tuesday plunged surged "
    "ANGEL yesterday"
)
SHAPLEY_LISTS: dict[tuple[str, str], list[str]] = {
    ("World", "Business"): _TABLE_4.split(),
    ("World", "Sci/Tech"): _TABLE_4.split(),
    ("Business", "Sci/Tech"): ["Quote", "Boost", "Reuters", "trust"],
}

# where the paper is silent or contradicts itself, and what is done here
RESOLVED = {
    "C1": (
        "line 9 of the algorithm adds up at the position, not at the token",
        "scores are added up at the token, as equation 5 has it; a test shows that the printed line decodes nothing",
    ),
    "C2": (
        "the hiding game is said to start with the least and with the most important token",
        "the most important first: only then is a lower area better",
    ),
    "C3": ("Table 6 repeats Table 4's row of Shapley", "see below: the lists cannot all be right"),
    "C4": (
        "“Grad-CAM” does not average the gradient over positions, as the method of that name does",
        "the paper's equation is followed; the averaged form is a control",
    ),
    "C5": (
        "the threshold τ is not given, and layers are chosen on the texts they are reported on",
        "τ is all tokens (equation 5), others are an ablation; layers are chosen on one half and reported on the other",
    ),
    "C6": ("explainers are compared on different models", "one model for all"),
    "C7": ("two denominators are given for the overlap", "the appendix's: pairs of classes times k"),
    "C8": ("a caption names the wrong table", "Table 1 is SST-2, Table 2 AG News"),
    "C9": (
        "one head is taken to read every layer",
        "measured: the probability that the head gives, at each layer, to the token that stands there",
    ),
    "C10": ("a citation is wrong", "nothing depends on it"),
    "C11": (
        "hidden tokens are masked and removed from attention",
        "where the class is read at the first token, the id of a token that nobody attends to is irrelevant (tested)",
    ),
    "C12": ("“requires no labels”", "true of the scores; the games of the tables need gold labels"),
    "C13": ("two statements on the size of the models", "moot here: one model for all"),
}
