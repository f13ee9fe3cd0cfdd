"""What the first screen of a report says: verdict, waterfall from bound to cycles, idle engines, where to look next."""
