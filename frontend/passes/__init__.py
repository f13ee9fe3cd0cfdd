"""Third stage: passes over the net, in the order of :func:`girih.frontend.pipeline.passes`, and two over the graph.

A pass over the net is a :data:`~girih.frontend.net.passes.NetPass`; its docstring says what holds before and after it.
"""
