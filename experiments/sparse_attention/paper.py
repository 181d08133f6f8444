"""The numbers of Meister, Lazov, Augenstein and Cotterell (2021), for comparison. Rows: encoder and projection."""

SETS = ("imdb", "20news", "sst")
ENCODERS = ("bilstm", "transformer")

# Table 1: normalised entropy of the influence of inputs on states, mean and standard deviation
TABLE_1 = {
    ("bilstm", "softmax"): {"imdb": (0.71, 0.09), "20news": (0.75, 0.12), "sst": (0.93, 0.05)},
    ("bilstm", "sparsemax"): {"imdb": (0.72, 0.10), "20news": (0.68, 0.12), "sst": (0.91, 0.07)},
    ("transformer", "softmax"): {"imdb": (0.76, 0.08), "20news": (0.48, 0.06), "sst": (0.73, 0.09)},
    ("transformer", "sparsemax"): {"imdb": (0.72, 0.09), "20news": (0.46, 0.06), "sst": (0.63, 0.08)},
}

# Table 2: correlation of sparsegen's λ with the entropy of g_x
TABLE_2 = {
    "bilstm": {"imdb": -0.935, "20news": -0.675, "sst": -0.866},
    "transformer": {"imdb": -0.830, "20news": -0.409, "sst": -0.810},
}

# Table 3: documents to train and test, accuracy
SIZES = {"imdb": (25_000, 4_356), "20news": (1_426, 334), "sst": (6_355, 1_725)}
ACCURACY = {
    "bilstm": {"imdb": 0.90, "20news": 0.91, "sst": 0.82},
    "transformer": {"imdb": 0.89, "20news": 0.91, "sst": 0.79},
}

# Table 5: Jensen-Shannon divergence from the base's attention, accuracy
TABLE_5 = {
    ("bilstm", "frozen"): {"imdb": (0.67, 0.76), "sst": (0.62, 0.76), "20news": (0.67, 0.78)},
    ("bilstm", "unfrozen"): {"imdb": (0.67, 0.90), "sst": (0.61, 0.82), "20news": (0.67, 0.91)},
    ("transformer", "frozen"): {"imdb": (0.62, 0.71), "sst": (0.57, 0.76), "20news": (0.62, 0.87)},
    ("transformer", "unfrozen"): {"imdb": (0.64, 0.87), "sst": (0.57, 0.78), "20news": (0.62, 0.92)},
}

# Table 6: τ between attention and importance: gradient, leave-one-out; of inputs (x), then of states (h)
TABLE_6 = {
    ("bilstm", "softmax"): {
        "imdb": {"g_x": (0.36, 0.12), "D_x": (0.31, 0.08), "g_h": (0.77, 0.05), "D_h": (0.79, 0.05)},
        "20news": {"g_x": (0.24, 0.24), "D_x": (0.17, 0.17), "g_h": (0.78, 0.15), "D_h": (0.70, 0.19)},
        "sst": {"g_x": (0.25, 0.28), "D_x": (0.35, 0.18), "g_h": (0.80, 0.13), "D_h": (0.49, 0.17)},
    },
    ("bilstm", "sparsemax"): {
        "imdb": {"g_x": (0.31, 0.08), "D_x": (0.25, 0.06), "g_h": (0.98, 0.02), "D_h": (0.98, 0.02)},
        "20news": {"g_x": (0.25, 0.13), "D_x": (0.23, 0.09), "g_h": (0.98, 0.06), "D_h": (0.99, 0.01)},
        "sst": {"g_x": (0.45, 0.13), "D_x": (0.34, 0.15), "g_h": (0.97, 0.06), "D_h": (0.98, 0.04)},
    },
    ("transformer", "softmax"): {
        "imdb": {"g_x": (0.67, 0.08), "D_x": (0.20, 0.10), "g_h": (0.76, 0.04), "D_h": (0.10, 0.07)},
        "20news": {"g_x": (0.54, 0.11), "D_x": (0.05, 0.10), "g_h": (0.62, 0.13), "D_h": (0.05, 0.11)},
        "sst": {"g_x": (0.72, 0.11), "D_x": (0.33, 0.20), "g_h": (0.89, 0.07), "D_h": (0.16, 0.18)},
    },
    ("transformer", "sparsemax"): {
        "imdb": {"g_x": (0.44, 0.08), "D_x": (0.21, 0.09), "g_h": (0.92, 0.05), "D_h": (0.19, 0.09)},
        "20news": {"g_x": (0.47, 0.10), "D_x": (0.14, 0.15), "g_h": (0.76, 0.15), "D_h": (0.15, 0.16)},
        "sst": {"g_x": (0.67, 0.12), "D_x": (0.30, 0.23), "g_h": (0.88, 0.11), "D_h": (0.25, 0.23)},
    },
}

# λ of sparsegen; the paper prints none
SPARSITIES = (-1000.0, -300.0, -100.0, -30.0, -10.0, -3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
GATE = 0.03  # how far below Table 3 an accuracy may be before importance is reported
