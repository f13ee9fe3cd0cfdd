"""What differs between two schedules, and what each difference cost."""
