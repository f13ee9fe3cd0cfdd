"""The predicted timeline of a plan on one core: when every transfer and every tile happens."""
