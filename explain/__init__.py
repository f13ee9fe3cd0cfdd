"""Why the schedule looks as it does: a pure reader of the nouns, which answers with a :class:`~.report.Report`."""
