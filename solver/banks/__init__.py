"""Model 5, banks: an address for every buffer of every memory."""
