"""The importer's working form, between TVM's loops and the Graph: a net of small loop nests over named axes."""
