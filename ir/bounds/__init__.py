"""Lower bounds that no plan can beat."""
