"""What Girih does with inputs that are wrong: files and options that are mutated at random, and judged one by one.

A family (:mod:`.families`) makes cases and attempts them; :mod:`.case` says what may come of an attempt, and
:mod:`.workers` runs attempts in processes that may die.
"""
