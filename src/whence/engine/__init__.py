"""Games that test an explanation on the model: tokens are hidden or revealed by importance."""
