"""Where the studies are written, and how Hydra finds them."""
