"""DiffMask: probes that learn which inputs or states a model can do without, and what the paper compares them with."""

from whence.learned.diffmask.explainer import DiffMask as DiffMask
