"""What a run is (contracts) and what runs it (runtime)."""
