"""Changes training pairs at random, other ones in each epoch: noise, terms, placeholders."""
