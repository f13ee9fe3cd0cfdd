"""Networks of operators drawn at random: right ones, with odd shapes and attributes."""
