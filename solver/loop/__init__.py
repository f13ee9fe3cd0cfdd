"""The loop among the five models: logic-based Benders decomposition."""
