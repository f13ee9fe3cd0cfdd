"""Third stage: passes over the net, in the order of :func:`girih.frontend.import_network.passes`; two over the graph.

A pass over the net is a function that a :class:`~girih.frontend.net.net_pass.NetPass` names and calls with its
options; the function's docstring says what holds before and after it.
"""
