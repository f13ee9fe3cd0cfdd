"""What operators, tiles and transfers cost, in cycles and bytes: shared by the models."""
