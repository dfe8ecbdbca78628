"""The only places that start tasks (`tasks`) and threads (`threads`), and that end what they started."""
