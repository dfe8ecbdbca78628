"""The nouns and the one-method ports that everything else agrees on. Standard library only."""
